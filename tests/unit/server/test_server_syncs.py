"""Corpora that are served follow their sources, while questions are answered."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from dpicl_rag import Ledger
from dpicl_rag.corpora import Corpus
from dpicl_rag.following.followed_files import FileSource, bring_files
from dpicl_rag.server.regular_syncs import RegularSyncs, sync_command
from dpicl_rag.server.service import Service
from dpicl_rag.server.settings import CorpusSettings
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.server.conftest import CANTEEN, SECRET
from tests.unit.server.test_server_ends import until

ROOT = Path(__file__).parents[3]
SMALL_CLI = f"""
import runpy, sys
sys.path.insert(0, {str(ROOT)!r})
runpy.run_module("tests.support.small_cli", run_name="__main__")
"""
SLOW_CLI = f"""
import pathlib, sys, time
sys.path.insert(0, {str(ROOT)!r})
from dpicl_rag.cli import data_folder, main
from tests.support.bucket_embedder import BucketEmbedder

class Slow(BucketEmbedder):
    def embed(self, texts, *, query=False):
        pathlib.Path(MARK).touch()
        time.sleep(0.2)
        return super().embed(texts, query=query)

data_folder.load_embedder = lambda name, device=None: Slow()
main()
"""


def brought(corpus: Corpus, folder: Path, **options):
    source = FileSource.at([folder])
    add = lambda some, held: corpus.add(some, held=held, no_ledger=True)  # noqa: E731
    return bring_files(corpus, source, add, **options)


def texts(corpus: Corpus) -> set[str]:
    return {record.text for record in corpus.records()}


@pytest.fixture
def folder(tmp_path):
    """Forty files."""
    found = tmp_path / "files"
    found.mkdir()
    for number in range(40):
        (found / f"{number}.txt").write_text(f"When is lunch? Nobody says. {SECRET} {number}")
    return found


@pytest.fixture
def corpus(tmp_path, folder):
    """A corpus that follows them."""
    with closing(Corpus.create("lunch", tmp_path / "store", embedder=BucketEmbedder())) as made:
        brought(made, folder)
        yield made


def command_of(program: str, tmp_path: Path):
    options = ("--path", str(tmp_path / "store"), "--ledger", str(tmp_path / "ledger.sqlite"))

    def command(corpus):
        return [sys.executable, "-c", program, *sync_command(*options)(corpus)[3:]]

    return command


def served(serve, corpus, syncs, **more):
    """A server that offers the corpus beside another that follows nothing."""
    running = serve(owner={"syncs": syncs}, **more)
    running.service.offer("lunch", CorpusSettings.create(max_tokens=8).served(corpus))
    return running


def limit(ledger: Ledger, unit: str) -> float:
    """What the budget lets a unit spend in one answer."""
    with ledger.reserve(corpus="lunch", rho=5.0, units=[unit]) as reservation:
        (found,) = reservation.limits
    return found


@pytest.mark.heavy
def test_a_folder_that_changes_is_answered_from_and_spend_stays(serve, corpus, folder, tmp_path):
    said: list[str] = []
    syncs = RegularSyncs(0.1, command_of(SMALL_CLI, tmp_path), said.append)
    running = served(serve, corpus, syncs, model=CANTEEN)
    ledger = running.service.ledger
    ledger.set_budget(corpus="lunch", rho=1e3, unit_rho=3.0)

    def answer():
        said = running.ask("When does the canteen open?", model="lunch", dpicl={"fresh": True})
        return said.json()["choices"][0]["message"]["content"]

    assert answer() == "The documents do not say."
    (unit,) = {record.unit for record in corpus.records() if record.text.endswith(f"{SECRET} 7")}
    with ledger.reserve(corpus="lunch", rho=1.0, units=[unit]) as reservation:
        reservation.commit(1.0, [1.0])
    before = limit(ledger, unit)
    assert before < 2.0 + 1e-6

    was = (folder / "7.txt").read_text()
    (folder / "7.txt").unlink()
    for number in range(40, 90):
        (folder / f"{number}.txt").write_text(
            f"When does the canteen open? The canteen opens at noon, {number}."
        )
    until(lambda: len(texts(corpus)) == 89)
    assert answer() == "The canteen opens at noon."
    assert was not in texts(corpus)
    assert unit not in {record.unit for record in corpus.records()}

    (folder / "7.txt").write_text(was)
    until(lambda: was in texts(corpus))
    (again,) = {record.unit for record in corpus.records() if record.text == was}
    assert again == unit
    assert limit(ledger, unit) <= before
    assert said == []


class Recorded:
    """Commands that are recorded, by corpus; none but Python runs."""

    def __init__(self, **programs: str) -> None:
        self.programs = programs
        self.run: list[str] = []

    def __call__(self, corpus: str) -> list[str]:
        self.run.append(corpus)
        return [sys.executable, "-S", "-c", self.programs.get(corpus, "")]


def following(tmp_path: Path, *names: str) -> dict:
    """Corpora that follow a file each."""
    found = {}
    for name in names:
        file = tmp_path / f"{name}.txt"
        file.write_text(f"text of {name}")
        corpus = Corpus.create(name, tmp_path / "store", embedder=BucketEmbedder())
        brought(corpus, file)
        found[name] = CorpusSettings().served(corpus)
    return found


def service_of(tmp_path, tiny_model, corpora) -> Service:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    return Service(tiny_model, corpora, ledger, embedder=BucketEmbedder())


def rounds(syncs: RegularSyncs, service: Service, done) -> None:
    """Let syncs run until something is so."""

    async def work() -> None:
        task = asyncio.create_task(syncs.run(service))
        while not done():
            assert not task.done()
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(asyncio.wait_for(work(), 60))


def test_a_corpus_that_fails_holds_up_no_other_and_is_tried_again(tmp_path, tiny_model):
    program = "import sys; sys.exit('error: mail.example.org cannot be reached')"
    commands = Recorded(bad=program)
    corpora = following(tmp_path, "bad", "good")
    service = service_of(tmp_path, tiny_model, corpora)
    said: list[str] = []
    syncs = RegularSyncs(0.01, commands, said.append)
    rounds(syncs, service, lambda: commands.run.count("good") > 1)
    assert commands.run[:4] == ["bad", "good", "bad", "good"]
    assert set(said) == {"sync of bad: error: mail.example.org cannot be reached"}
    commands.programs.clear()
    rounds(syncs, service, lambda: said[-1] == "sync of bad: it goes through again")
    assert said.count(said[-1]) == 1


HANGS = "import time; time.sleep(600)"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("programs", [{"bad": HANGS}, {"good": HANGS, "bad": HANGS}])
def test_a_sync_that_hangs_holds_up_no_other(tmp_path, tiny_model, programs):
    commands = Recorded(**programs)
    service = service_of(tmp_path, tiny_model, following(tmp_path, "bad", "good", "last"))
    said: list[str] = []
    syncs = RegularSyncs(0.01, commands, said.append, leads_by=0)
    rounds(syncs, service, lambda: commands.run.count("last") > 1)
    assert all(commands.run.count(name) == 1 for name in programs)  # none beside itself
    assert said == []


def test_a_sync_has_a_limit_of_time(tmp_path, tiny_model):
    commands = Recorded(bad=HANGS)
    service = service_of(tmp_path, tiny_model, following(tmp_path, "bad", "good"))
    said: list[str] = []
    syncs = RegularSyncs(0.01, commands, said.append, most_seconds=0)
    rounds(syncs, service, lambda: commands.run.count("bad") > 1)
    assert "sync of bad: it took more than 0 seconds, and goes on next time" in said


def test_only_lines_of_the_command_itself_are_told(tmp_path, tiny_model):
    program = f"""
import sys
sys.stderr.write('''Reading: 4 of 17
ValueError: {SECRET}
error: one is not there
error: two is not there
''')
sys.exit(1)
"""
    silent = f"import sys; sys.stderr.write('{SECRET}'); sys.exit(3)"
    commands = Recorded(first=program, second=silent)
    service = service_of(tmp_path, tiny_model, following(tmp_path, "first", "second"))
    said: list[str] = []
    rounds(RegularSyncs(60, commands, said.append), service, lambda: len(said) == 3)
    assert said == [
        "sync of first: error: one is not there",
        "sync of first: error: two is not there",
        "sync of second: it ended with status 3",
    ]


def test_what_follows_nothing_is_not_synced_and_what_is_gone_is_said(tmp_path, tiny_model):
    corpora = following(tmp_path, "gone", "there")
    empty = Corpus.create("empty", tmp_path / "store", embedder=BucketEmbedder())
    corpora = {"empty": CorpusSettings().served(empty), **corpora}
    (tmp_path / "store" / "gone.corpus").unlink()
    commands = Recorded()
    said: list[str] = []
    service = service_of(tmp_path, tiny_model, corpora)
    rounds(RegularSyncs(60, commands, said.append), service, lambda: commands.run)
    assert commands.run == ["there"]
    (line,) = said
    assert line.startswith("sync of gone: error: there is no corpus")


def test_a_command_that_cannot_run_is_said_without_its_message(tmp_path, tiny_model):
    def broken(corpus: str) -> list[str]:
        raise ValueError(SECRET)

    said: list[str] = []
    service = service_of(tmp_path, tiny_model, following(tmp_path, "mail"))
    rounds(RegularSyncs(60, broken, said.append), service, lambda: said)
    assert said == ["sync of mail: internal error (ValueError)"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_shutdown_interrupts_a_sync_and_waits_for_its_end(serve, corpus, tmp_path):
    program = f"""
import pathlib, time
pathlib.Path({str(tmp_path / "begun")!r}).touch()
try:
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.2)
    pathlib.Path({str(tmp_path / "ended")!r}).touch()
    raise SystemExit(130)
"""
    said: list[str] = []
    running = served(serve, corpus, RegularSyncs(0.05, Recorded(lunch=program), said.append))
    until((tmp_path / "begun").exists)
    running.server.handle_exit(15, None)
    running.thread.join(30)
    assert not running.thread.is_alive()
    assert (tmp_path / "ended").exists()
    assert said == []


@pytest.mark.heavy
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_shutdown_in_the_middle_loses_nothing(serve, corpus, folder, tmp_path):
    before = texts(corpus)
    for number in range(40, 600):
        (folder / f"{number}.txt").write_text(f"The canteen opens at noon, {number}.")
    mark = tmp_path / "embedding"
    command = command_of(f"MARK = {str(mark)!r}\n{SLOW_CLI}", tmp_path)
    running = served(serve, corpus, RegularSyncs(0.05, command, lambda line: None))
    until(mark.exists)
    running.server.handle_exit(15, None)
    running.thread.join(30)
    assert not running.thread.is_alive()
    some = texts(corpus)
    assert before <= some
    assert len(some) < 600
    brought(corpus, folder)  # nobody holds the corpus any more
    assert texts(corpus) == {file.read_text() for file in folder.iterdir()}
    assert len(corpus.records()) == 600
    assert brought(corpus, folder).passages == 0


@pytest.mark.heavy
def test_callers_see_nothing_of_a_sync(serve, corpus, tmp_path):
    """Neither whether it goes through nor what it says: both follow from documents."""
    seen = []
    failing = f"import sys; sys.exit('error: {SECRET}')"
    for program in ("", failing):
        commands = Recorded(lunch=program)
        running = served(serve, corpus, RegularSyncs(0.02, commands, lambda line: None))
        until(lambda commands=commands: len(commands.run) > 2)
        paths = ("/health", "/ready", "/metrics", "/v1/models", "/v1/budget", "/v1/owner/job")
        answers = [running.client.get(path) for path in paths]
        seen.append([(one.status_code, one.text) for one in answers])
        running.server.handle_exit(15, None)
        running.thread.join(30)
    assert seen[0] == seen[1]
