"""docs/tabular.md: its example and its schema work, and its commands exist."""

import re
from pathlib import Path

from typer.main import get_command

from dpicl_rag.cli import app
from dpicl_rag.tabular import Schema

TEXT = (Path(__file__).parents[3] / "docs" / "tabular.md").read_text(encoding="utf-8")


def blocks(language):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, flags=re.M | re.S)
    return [text for name, text in found if name == language]


def test_the_example_runs(capsys):
    (code,) = blocks("python")
    exec(code, {})
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 6
    assert shown[4] == "A patient of 50 years, smokes: no. Ill? Answer:"
    assert shown[5] in ("Yes", "No")


def test_the_schema_is_one(tmp_path):
    (text,) = blocks("toml")
    (tmp_path / "patients.toml").write_text(text, encoding="utf-8")
    schema = Schema.read(tmp_path / "patients.toml")
    assert [column.size for column in schema.columns] == [4, 3]
    assert schema.columns[1].words("0") == "never smoked"


def test_the_commands_and_their_options_exist():
    root = get_command(app)
    lines = [line.split("  #")[0] for block in blocks("") for line in block.splitlines()]
    found = [line.split() for line in lines if line.startswith("dpicl-rag ")]
    assert len(found) == 11
    for words in found:
        command = root.commands[words[1]].commands[words[2]]
        options = {name for option in command.params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= options
