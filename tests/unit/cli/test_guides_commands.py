"""Command lines and settings files in the guides: each is one that the command line takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dpicl_rag.cli.settings_file import SettingsFile
from tests.support.command_line import program

ROOT = Path(__file__).parents[3]
GUIDES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def blocks(guide: Path, language: str = "") -> list[str]:
    """What stands between fences of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", guide.read_text("utf-8"), re.M | re.S)


def lines(guide: Path) -> list[str]:
    """Command lines, without what is said about them behind two spaces."""
    joined = [block.replace("\\\n", " ") for block in blocks(guide)]
    found = [line for block in joined for line in block.splitlines()]
    return [re.split(r" {2,}(?=\S)", f"{line} ")[0].strip() for line in found if is_command(line)]


def is_command(line: str) -> bool:
    return line.startswith("dpicl-rag ")


def unknown(line: str) -> list[str]:
    """Words of a command line that are no command's, or no option of it."""
    _, *words = shlex.split(line)
    command = program()
    known: set[str] = set()
    while True:
        known |= {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        commands = getattr(command, "commands", None)
        if commands is None:
            break
        word, *words = words or [""]
        if word not in commands:
            return [word]
        command = commands[word]
    return [word for word in words if word.startswith("-") and word.split("=")[0] not in known]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_every_command_line_is_one_that_there_is(guide):
    assert [(line, wrong) for line in lines(guide) if (wrong := unknown(line))] == []


def test_lines_are_found_and_wrong_ones_are_seen():
    assert sum(len(lines(guide)) for guide in GUIDES) > 30
    for wrong in ("dpicl-rag sync mail --delete", "dpicl-rag swallow", "dpicl-rag budget shown"):
        assert unknown(wrong)


@pytest.mark.parametrize("number", range(2))
def test_settings_files_are_read(tmp_path, number):
    text = blocks(ROOT / "docs" / "settings.md", "toml")[number]
    path = tmp_path / "dpicl-rag.toml"
    path.write_text(text)
    settings = SettingsFile.read(path)
    assert settings.corpora["mail"].budget == 20.0
