"""``serve --sync`` and ``mcp --sync``: an interval, and syncs of the same store and settings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import typer

from dpicl_rag.cli import settings_file
from dpicl_rag.cli.options import seconds
from dpicl_rag.cli.serve import Serving, regular_syncs
from dpicl_rag.corpora import Corpus
from dpicl_rag.following.followed_files import FileSource, bring_files
from dpicl_rag.server.child_command import own_command
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.cli.test_cli_serve import ROOT, served

needs_signals = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
# The command has the packaged embedder, and this corpus another: so its line shows that it ran.
FAILING = "sync of notes: error: corpus 'notes' was embedded with buckets"


@pytest.mark.parametrize(
    ("text", "wanted"), [("10s", 10), ("90s", 90), ("10m", 600), ("1h", 3600), (" 2D ", 172_800)]
)
def test_an_interval(text, wanted):
    assert seconds(text) == wanted


@pytest.mark.parametrize("text", ["", "10", "m", "1.5h", "-10m", "10 m", "10min", "1e3s", "１0m"])
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(typer.BadParameter, match="such as 90s, 10m, 1h or 1d"):
        seconds(text)


@pytest.mark.parametrize("text", ["0s", "9s", "0h", "367d"])
def test_an_interval_that_is_too_short_or_too_long_is_refused(text):
    with pytest.raises(typer.BadParameter, match="from 10s to 366d"):
        seconds(text)


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_a_wrong_interval_ends_the_command(cli, command):
    result = cli(command, "--sync", "soon")
    assert result.exit_code == 2
    assert "10m" in result.stderr


def test_the_settings_file_may_name_it(cli, home):
    file = home / "config" / "dpicl-rag" / "dpicl-rag.toml"
    file.parent.mkdir(parents=True)
    file.write_text('sync = "5s"\n')
    result = cli("serve")
    assert result.exit_code == 2
    assert "from 10s" in result.stderr


def test_a_sync_has_the_store_the_ledger_and_the_settings_of_the_server(home):
    file = home / "own.toml"
    file.write_text("max_calls = 3\n")
    found = settings_file.ChosenSettings.at(file)
    syncs = regular_syncs(Serving(sync=60, path="store", ledger=Path("book.sqlite")), found)
    program, *words = syncs.command("mail")
    assert program == sys.executable
    assert words == [
        *own_command("--config", str(file), "sync", "mail", "--quiet")[1:],
        *("--path", "store", "--ledger", "book.sqlite"),
    ]
    assert regular_syncs(Serving(), found) is None


def followed(folder: Path) -> None:
    """A corpus that follows a file."""
    (folder / "note.txt").write_text("The office is in Elm Lane.")
    with closing(Corpus.create("notes", folder / "store", embedder=BucketEmbedder())) as corpus:
        source = FileSource.at([folder / "note.txt"])
        bring_files(corpus, source, lambda some, held: corpus.add(some, held=held, no_ledger=True))


@pytest.mark.heavy
@needs_signals
def test_a_server_says_why_a_sync_failed_and_goes_on(tmp_path):
    followed(tmp_path)
    with served(tmp_path, "--sync", "1h") as (process, _, _):
        while not (line := process.stderr.readline()).startswith("sync of"):
            assert line
        assert line.startswith(FAILING)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.heavy
@needs_signals
def test_tools_of_an_agent_are_kept_up_to_date_too(tmp_path):
    followed(tmp_path)
    places = ("--path", str(tmp_path / "store"), "--ledger", str(tmp_path / "ledger.sqlite"))
    command = [sys.executable, "-m", "tests.support.small_cli", "mcp", "--sync", "1h", *places]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(tmp_path)},
    ) as process:
        try:
            while not (line := process.stderr.readline()).startswith("sync of"):
                assert line
            assert line.startswith(FAILING)
            process.stdin.close()
            assert process.wait(60) == 0
            assert process.stdout.read() == ""
        finally:
            process.kill()
