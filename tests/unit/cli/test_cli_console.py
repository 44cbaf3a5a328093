"""What the terminal shows, and that the command line starts fast."""

from __future__ import annotations

import io
import json
import os
import re

import pytest
from rich.console import Console

from dpicl_rag.cli import app, console
from dpicl_rag.errors import ModelError
from tests.support.fresh_python import run_python

COMMANDS = [
    ["ingest"],
    ["sync"],
    ["ask"],
    ["classify"],
    ["count"],
    ["tally"],
    ["survey"],
    ["classify-image"],
    ["publish"],
    ["serve"],
    ["mcp"],
    ["audit"],
    ["probe-reader"],
    ["doctor"],
    ["demo"],
    ["config", "show"],
    ["budget", "show"],
    ["budget", "set"],
    ["budget", "forecast"],
    ["corpora", "scores"],
    ["corpora", "list"],
    ["corpora", "delete"],
    ["corpora", "check"],
    ["corpora", "adopt"],
    ["corpora", "release"],
    ["corpora", "joins"],
    ["corpora", "forget"],
    ["memory", "show"],
    ["memory", "edit"],
    ["memory", "forget"],
    ["memory", "clear"],
    ["keys", "add"],
    ["keys", "list"],
    ["keys", "remove"],
    ["keys", "open"],
    ["keys", "give"],
    ["models", "show"],
    ["synthesise", "examples"],
    ["synthesise", "corpus"],
    ["synthesise", "plan"],
    ["synthesise", "show"],
    ["synthesise", "labels"],
    ["tabular", "tables"],
    ["tabular", "aggregates"],
    ["tabular", "local"],
    ["tabular", "collect"],
    ["tabular", "serialise"],
    ["tabular", "schema"],
    ["evaluate", "run"],
    ["evaluate", "membership"],
    ["evaluate", "report"],
    ["evaluate", "convergence"],
    ["evaluate", "synthetic"],
    ["evaluate", "synthetic-membership"],
    ["evaluate", "label-head"],
    ["evaluate", "radius"],
    ["evaluate", "images"],
    ["evaluate", "membership-images"],
    ["evaluate", "tabular"],
]


def test_help_loads_no_heavy_library():
    code = """
import sys
from dpicl_rag.cli import main
sys.argv = ["dpicl-rag", "ask", "--help"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
heavy = {"torch", "transformers", "chromadb", "numpy", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""
    assert "--epsilon" in run_python(code).stdout


@pytest.mark.heavy
def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise():
    code = """
import os, sys
from dpicl_rag.cli import main
sys.argv = ["dpicl-rag", "--help"]
try:
    main()
except SystemExit:
    assert "torch" not in sys.modules
    print(os.environ["OMP_WAIT_POLICY"])
"""
    told = {**os.environ, "OMP_WAIT_POLICY": "active"}
    untold = {name: value for name, value in told.items() if name != "OMP_WAIT_POLICY"}
    policies = [run_python(code, env=env).stdout.split()[-1] for env in (untold, told)]
    assert policies == ["passive", "active"]


def test_completion_knows_the_options_that_commands_share(cli):
    typed = {"COMP_WORDS": "dpicl-rag ask --priv", "COMP_CWORD": "2"}
    told = cli(env={**typed, "_DPICL_RAG_COMPLETE": "complete_bash"})
    assert told.stdout.split() == ["--private-top-k"]


def test_main_ends_with_one_line_and_the_status(tmp_path):
    words = ["dpicl-rag", "ingest", str(tmp_path / "none.mbox"), "--corpus", "mail"]
    code = f"import sys; from dpicl_rag.cli import main; sys.argv = {words!r}; main()"
    result = run_python(code, status=1)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def every_command(typer_app, names=()):
    for command in typer_app.registered_commands:
        yield [*names, command.name or command.callback.__name__], command.callback
    for group in typer_app.registered_groups:
        yield from every_command(group.typer_instance, (*names, group.name))


def test_the_commands_are_all_here_and_report_their_errors():
    found = list(every_command(app))
    assert [words for words, _ in found] == COMMANDS
    for words, callback in found:
        assert getattr(callback, "__wrapped__", None), f"{words} lacks console.reported"


def test_tracebacks_with_local_variables_are_off():
    assert not app.pretty_exceptions_enable
    assert not app.pretty_exceptions_show_locals


@pytest.mark.one_in(3)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help(cli, words):
    result = cli(*words, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_an_error_of_many_lines_becomes_one(capsys):
    @console.reported()
    def fail():
        raise ModelError("first\n  second\x1b[2J\tthird")

    with pytest.raises(console.typer.Exit) as ended:
        fail()
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "error: first second[2J third\n"


def test_a_traceback_shows_places_and_types_but_no_values(capsys):
    @console.reported()
    def fail(word):
        try:
            {}[word]
        except KeyError as error:
            raise ModelError("cannot load") from error

    console.show_tracebacks(True)
    with pytest.raises(console.typer.Exit):
        fail("zanzibar")
    shown = capsys.readouterr().err
    assert "{}[word]" in shown
    assert "KeyError\nwhich led to\n" in shown
    assert shown.endswith("ModelError\nerror: cannot load\n")
    assert "zanzibar" not in shown


def test_pieces_cannot_steer_the_terminal(capsys):
    console.write_piece("a\x1b]0;title\x07b\x9b2Jc\r\n\té\u200d")
    assert capsys.readouterr().out == "a]0;titleb2Jc\n\té\u200d"


def test_json_is_one_line(capsys):
    console.write_json({"answer": "a\nb\x1b é", "epsilon": 8.0})
    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert "\x1b" not in shown
    assert json.loads(shown) == {"answer": "a\nb\x1b é", "epsilon": 8.0}


@pytest.fixture
def screen(monkeypatch):
    """A terminal on stderr that somebody watches, unless told to be quiet."""
    file = io.StringIO()
    monkeypatch.setattr(console, "_watched", lambda stream, quiet: not quiet)
    monkeypatch.setattr(
        console, "_stderr", lambda: Console(file=file, force_terminal=True, width=100)
    )
    return file


def test_a_question_shows_a_part_and_no_count(cli, mail, secret, screen):
    words = ("--corpus", mail, "--max-tokens", "3", "--threshold", "-1")
    assert cli("ask", "Is it?", *words).exit_code == 0  # the model is rehearsed, with a count
    screen.seek(0)
    screen.truncate()
    assert cli("ask", "What is the code?", *words).exit_code == 0
    shown = screen.getvalue()
    assert "Reading the documents" in shown
    assert "100%" in shown
    assert not re.search(r"\d+\s*/\s*\d+", shown)
    assert secret not in shown


def test_ingest_counts_the_records_of_its_owner(cli, mail, screen, home):
    assert cli("ingest", str(home / "mail.jsonl"), "--corpus", "more").exit_code == 0
    assert "3/3" in screen.getvalue()


@pytest.mark.parametrize("words", [["--quiet"], ["-q"]])
def test_quiet_shows_no_progress(cli, mail, screen, words):
    screen.seek(0)
    screen.truncate(0)
    cli("ask", "What is the code?", "--corpus", mail, "--max-tokens", "3", *words)
    assert screen.getvalue() == ""


def test_a_stopped_bar_stays_away(screen):
    bar = console.Bar("Reading", quiet=False)
    bar.update(0.5)
    bar.stop()
    size = len(screen.getvalue())
    bar.update(1.0)
    assert size > 0
    assert len(screen.getvalue()) == size
