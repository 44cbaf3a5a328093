"""What stands beside the code: citation, conduct, licences, and what registries read."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import click
import pytest
import yaml

from dpicl_rag import __version__
from tests.support.command_line import program

ROOT = Path(__file__).parents[2]
PACKAGES = ("dpicl_rag", "dpicl_research", "integrations")
NOT_DATA = {".py", ".pyc", ".md"}
SERVER = json.loads((ROOT / "server.json").read_text("utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def command_of(*words: str) -> click.Command:
    """A command of ours by its words."""
    command = program()
    for word in words:
        command = command.get_command(click.Context(command), word)
    return command


def licences(text: str) -> dict[str, str]:
    """Licence by pattern of files, from the first table."""
    rows = [
        line.strip("|").split("|")
        for line in text.split("## Models")[0].splitlines()
        if "| `" in line
    ]
    return {row[0].strip().strip("`"): row[-1].strip() for row in rows}


LICENCES = licences((ROOT / "THIRD_PARTY.md").read_text("utf-8"))


def data_files(root: Path) -> list[str]:
    """Files of the packages that are no code, from the root."""
    return [
        file.relative_to(root).as_posix()
        for folder in PACKAGES
        for file in sorted((root / folder).rglob("*"))
        if file.is_file() and file.suffix not in NOT_DATA and "__pycache__" not in file.parts
        # What builds a distribution, and its licence, are no data.
        if file.name not in ("LICENSE", "pyproject.toml") and ".egg-info" not in str(file)
    ]


def without_licence(files: list[str]) -> list[str]:
    return [file for file in files if not any(fnmatch(file, pattern) for pattern in LICENCES)]


def test_every_bundled_file_has_a_licence():
    files = data_files(ROOT)
    assert "dpicl_rag/surveys/words.txt" in files
    assert without_licence(files) == []
    assert all(re.fullmatch(r"[A-Z][\w.-]+", licence) for licence in LICENCES.values())


def test_every_line_is_of_a_file_that_is_there():
    files = data_files(ROOT)
    assert [one for one in LICENCES if not any(fnmatch(file, one) for file in files)] == []


def test_a_file_without_a_licence_is_found(tmp_path):
    (tmp_path / "dpicl_rag" / "server" / "page").mkdir(parents=True)
    for name in ("font.woff2", "app.js"):
        (tmp_path / "dpicl_rag" / "server" / "page" / name).touch()
    assert without_licence(data_files(tmp_path)) == ["dpicl_rag/server/page/font.woff2"]


def test_the_word_list_has_the_licence_of_its_notice():
    notice = (ROOT / "dpicl_rag" / "surveys" / "words.LICENSE.txt").read_text("utf-8")
    assert "ShareAlike 4.0" in notice
    assert LICENCES["dpicl_rag/surveys/words.txt"] == "CC-BY-SA-4.0"


def test_models_that_are_known_by_name_have_a_licence():
    from dpicl_rag.language_models.converted_models import DEFAULT, SMALL
    from dpicl_rag.language_models.transformers import SIZES
    from dpicl_rag.retrieval.embeddings import DEFAULT as EMBEDDER

    models = (ROOT / "THIRD_PARTY.md").read_text("utf-8").split("## Models")[1]
    named = [one.repository for one in (DEFAULT.pinned, SMALL.pinned, EMBEDDER)]
    for repository in [*named, *(name for name, _ in SIZES.values())]:
        assert f"`{repository}`" in models


def test_the_citation_is_as_its_format_has_it():
    """Checked once with the schema of version 1.2.0 as well, by cffconvert 2.0.0."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= cited.keys()
    assert cited["type"] == "software"
    assert cited["license"] == PROJECT["license"].partition(" AND ")[0]  # a list of words beside it
    assert cited["authors"] == [{"name": "The dpicl-rag authors"}]


def test_conduct_is_reported_as_security_is():
    words = '"Report a vulnerability"'
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md"):
        text = " ".join((ROOT / name).read_text("utf-8").split())
        assert words in text
        assert not re.search(r"\S+@\S+\.\w+", text), "no address is invented"


class TestServerJson:
    """The rules of MCP's registry that need no network; its schema is that of 2025-12-11."""

    def test_it_is_as_the_schema_has_it(self):
        assert re.fullmatch(
            r"https://static\.modelcontextprotocol\.io/schemas/[\d-]+/server.schema.json",
            SERVER["$schema"],
        )
        assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", SERVER["name"])
        for field in ("title", "description"):
            assert 1 <= len(SERVER[field]) <= 100
        [package] = SERVER["packages"]
        assert package["registryType"] == "pypi"
        assert package["transport"] == {"type": "stdio"}
        for one in (*package["runtimeArguments"], *package["packageArguments"]):
            assert (one["type"] == "named" and one["name"]) or one["type"] == "positional"
            assert one["type"] == "named" or one.get("value") or one.get("valueHint")
            assert one.get("format", "string") in ("string", "number", "boolean", "filepath")
            assert isinstance(one.get("default", ""), str)

    def test_it_is_of_this_package_and_version(self):
        [package] = SERVER["packages"]
        assert package["identifier"] == PROJECT["name"]
        assert SERVER["version"] == package["version"] == __version__
        extra = re.fullmatch(r"dpicl-rag\[(\w+)\]", package["runtimeArguments"][0]["value"])
        assert extra[1] in PROJECT["optional-dependencies"]

    def test_the_readme_says_whose_it_is(self):
        marks = re.findall(r"mcp-name: (\S+)", (ROOT / "README.md").read_text("utf-8"))
        assert marks == [SERVER["name"]]

    def test_its_arguments_are_those_of_the_command(self):
        [package] = SERVER["packages"]
        words = [one["value"] for one in package["packageArguments"] if one["type"] == "positional"]
        options = {name for one in command_of(*words).params for name in one.opts}
        named = {one["name"] for one in package["packageArguments"] if one["type"] == "named"}
        assert named <= options
        assert "--corpus" in named


@pytest.mark.parametrize("target", ["lint", "test", "sbom"])
def test_make_tells_of_its_targets(target):
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert f"\n{target}:" in makefile
    assert f'@echo "make {target}' in makefile


def test_the_models_of_llm_are_a_served_corpus():
    """As `llm` 0.36 reads the file; it asked a served corpus by it when it was written."""
    [served] = yaml.safe_load((ROOT / "demos" / "clients" / "llm_models.yaml").read_text("utf-8"))
    [port] = [one for one in command_of("serve").params if one.name == "port"]
    assert served.pop("api_base") == f"http://127.0.0.1:{port.default}/v1"
    assert served.pop("model_id") == served.pop("model_name")
    assert served == {"api_key_name": "dpicl-rag"}
