"""Commands of other packages: found by their entry points, and no others' worry."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
import typer
from typer.testing import CliRunner

from dpicl_rag.cli import entry_points
from dpicl_rag.cli.entry_points import GROUP, add_commands

other = typer.Typer(help="Of another package.")
no_app = "a text"


@other.command("hello")
def hello() -> None:
    typer.echo("hello")


@other.command("bye")
def bye() -> None:
    typer.echo("bye")


@pytest.fixture
def run(monkeypatch):
    """Run a program whose other commands are those of entry points."""

    def run(entries, *words):
        found = [EntryPoint(name, value, GROUP) for name, value in entries.items()]
        monkeypatch.setattr(entry_points, "entry_points", lambda group: found)
        program = typer.Typer()
        program.command("own")(lambda: typer.echo("own"))
        add_commands(program)
        return CliRunner().invoke(program, words)

    return run


def test_a_group_is_added_under_the_name_of_its_entry(run):
    entries = {"more": f"{__name__}:other"}
    assert run(entries, "more", "hello").stdout == "hello\n"
    assert "Of another package." in run(entries, "--help").stdout


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module_at_all:app", "ModuleNotFoundError"),
        (f"{__name__}:nothing", "AttributeError"),
        (f"{__name__}:no_app", "TypeError"),
    ],
)
def test_one_that_cannot_be_loaded_names_the_remedy_and_the_others_go_on(run, value, reason):
    entries = {"broken": value, "more": f"{__name__}:other"}
    assert run(entries, "own").output == "own\n"
    assert run(entries, "more", "bye").output == "bye\n"
    assert "Cannot be loaded." in run(entries, "--help").stdout
    for words in (["broken"], ["broken", "run", "--task", "agnews", "-q"]):
        refused = run(entries, *words)
        assert refused.exit_code == 1
        assert refused.stdout == ""
        (line,) = refused.stderr.splitlines()
        assert line.startswith(f"error: the command broken cannot be loaded ({reason}: ")
        assert line.endswith(f"run `pip install --force-reinstall {value.partition(':')[0]}`")


def test_evaluate_is_one_of_them(cli):
    assert [entry.name for entry in entry_points.entry_points(group=GROUP)] == ["evaluate"]
    assert "benchmark data" in cli("evaluate", "--help").stdout
    typed = {"COMP_WORDS": "dpicl-rag evaluate run --leave", "COMP_CWORD": "3"}
    told = cli(env={**typed, "_DPICL_RAG_COMPLETE": "complete_bash"})
    assert told.stdout.split() == ["--leave-one-out"]
