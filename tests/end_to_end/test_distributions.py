"""The four distributions: one version, what is in their wheels, what they say of themselves."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import langchain_dpicl_rag
import llama_index_dpicl_rag
from dpicl_rag import __version__

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "dpicl_rag": ROOT,
    "dpicl_research": ROOT / "dpicl_research",
    "langchain_dpicl_rag": ROOT / "integrations" / "langchain_dpicl_rag",
    "llama_index_dpicl_rag": ROOT / "integrations" / "llama_index_dpicl_rag",
}
"""Packages, and the folder of the distribution that has each."""
BESIDE = {"pyproject.toml", "README.md", "LICENSE"}
"""What lies in the folder of a package and is none of its files."""


def table(package: str) -> dict:
    return tomllib.loads((FOLDERS[package] / "pyproject.toml").read_text("utf-8"))


def package_files(package: str) -> Iterator[str]:
    """Files under version control, as they are to be imported."""
    folder = ROOT / package if package == "dpicl_rag" else FOLDERS[package]
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=folder, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    yield from (f"{package}/{name}" for name in listed.splitlines() if name not in BESIDE)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Wheels and sdists of all, each wheel built from its sdist as installers do."""
    pytest.importorskip("build", reason="it builds them")
    pytest.importorskip("hatch_fancy_pypi_readme", reason="it builds one of them")
    folder = tmp_path_factory.mktemp("dist")
    for source in FOLDERS.values():
        subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
    return folder


@pytest.fixture(params=FOLDERS)
def package(request) -> str:
    return request.param


def wheel_of(built: Path, package: str) -> zipfile.ZipFile:
    (file,) = built.glob(f"{package}-*.whl")
    return zipfile.ZipFile(file)


def metadata_of(built: Path, package: str) -> Message:
    with wheel_of(built, package) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(wheel.read(name).decode("utf-8"))


@pytest.mark.heavy
def test_a_wheel_has_the_package_and_nothing_else(built, package):
    with wheel_of(built, package) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        licences = [name for name in wheel.namelist() if name.endswith("/licenses/LICENSE")]
        assert wheel.read(*licences) == (ROOT / "LICENSE").read_bytes()
    wanted = set(package_files(package))
    assert names == wanted
    assert f"{package}/py.typed" in wanted


@pytest.mark.heavy
def test_an_sdist_has_no_tests_and_no_demos(built, package):
    (file,) = built.glob(f"{package}-*.tar.gz")
    with tarfile.open(file) as sdist:
        tops = {name.split("/")[1] for name in sdist.getnames()}
    assert not tops & {"tests", "demos", "benchmarks", "docs"}


@pytest.mark.heavy
def test_what_it_says_of_itself(built, package):
    metadata = metadata_of(built, package)
    assert metadata["Name"] == package.replace("_", "-")
    assert metadata["Version"] == __version__
    assert metadata["Author"] == "The dpicl-rag authors"
    words = " AND CC-BY-SA-4.0" if package == "dpicl_rag" else ""  # the list of surveys
    assert metadata["License-Expression"] == f"Apache-2.0{words}"
    pythons = {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)}
    assert pythons <= set(metadata.get_all("Classifier"))
    # A page of an index has no files beside it.
    links = re.findall(r"\]\(([^)]*)\)", str(metadata.get_payload()))
    assert all(link.startswith("https://") for link in links), links
    assert str(metadata.get_payload()).startswith(f"# {metadata['Name']}")


@pytest.mark.heavy
def test_they_ask_for_each_other_at_their_own_version(built, package):
    needs = [Requirement(text) for text in metadata_of(built, package).get_all("Requires-Dist")]
    ours = {f"{one.name}{one.specifier}" for one in needs if "dpicl" in one.name and not one.extras}
    assert ours == (set() if package == "dpicl_rag" else {f"dpicl-rag=={__version__}"})


def test_the_pins_are_the_version(package):
    """Without building anything: a version is raised in four places."""
    pins = [one for one in table(package)["project"]["dependencies"] if one.startswith("dpicl-rag")]
    assert pins == ([] if package == "dpicl_rag" else [f"dpicl-rag=={__version__}"])
    assert "version" in table(package)["project"]["dynamic"]


def test_all_extras_are_in_all():
    extras = table("dpicl_rag")["project"]["optional-dependencies"]
    (everything,) = (Requirement(text) for text in extras["all"])
    assert everything.extras == set(extras) - {"all", "dev", "docs"}


def test_llamahub_finds_every_class():
    hub = table("llama_index_dpicl_rag")["tool"]["llamahub"]
    assert hub["import_path"] == "llama_index_dpicl_rag"
    public = {
        name
        for name in llama_index_dpicl_rag.__all__
        if isinstance(found := getattr(llama_index_dpicl_rag, name), type)
        and not issubclass(found, Exception)
    }
    assert set(hub["class_authors"]) == public


@pytest.mark.parametrize(
    ("module", "framework"),
    [(langchain_dpicl_rag, "langchain_core"), (llama_index_dpicl_rag, "llama_index")],
)
def test_without_its_framework_an_adapter_says_what_to_install(module, framework):
    code = f"import sys; sys.modules[{framework!r}] = None; import {module.__name__}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    *_, line = done.stderr.splitlines()
    name = module.__name__.replace("_", "-")
    assert re.fullmatch(
        rf"dpicl_rag\.errors\.MissingDependencyError: {framework}\S* is not installed; "
        f"run `pip install {name}`",
        line,
    ), line
