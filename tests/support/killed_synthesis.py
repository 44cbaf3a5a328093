"""A small synthesis that is killed, and what its ledger and its folder say afterwards.

Every commit is noted in a file of its own before and after the ledger has it, so that a test knows
what was paid for. The processes are forked from one that has imported everything.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from dpicl_rag import Document, Ledger
from dpicl_rag.ledger import Reservation
from dpicl_rag.ledger.fixed_point import charge, exact
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.synthesis import LabelledDocument, synthesis_run, synthesise_examples
from dpicl_rag.synthesis.synthesis_run import read_run
from dpicl_rag.synthesis.synthetic_corpus import synthesise
from tests.support.paced_model import PacedModel
from tests.support.synthesising import short_plan

UNITS = 160
LABELS = ("alpha", "betas")
RHO_ROUNDING = 2  # nano-rho by which a settled reservation may round each unit up

_SIDE_BY_SIDE = ("few-shot",)
"""Methods that pay for the label with the most tokens alone."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.support.killed_synthesis"])


def plan(tokens: int) -> Any:
    """Two keys, several records of some tokens."""
    return short_plan(tokens, topics_per_unit=2, batch=20, records_per_topic=3)


class Trial:
    """A folder with a run, its ledger and what was noted.

    Args:
        folder: Of all of them.
        what: ``corpus``, or a method of examples.
        tokens: Of a record.
        seconds: That a token takes.
    """

    def __init__(
        self, folder: Path, *, what: str = "corpus", tokens: int = 4, seconds: float = 0.0
    ) -> None:
        self.folder = folder
        self._what, self._tokens, self._seconds = what, tokens, seconds
        with Ledger(folder / "ledger.sqlite") as ledger:
            ledger.set_budget(corpus="default", epsilon=60.0)

    def start(self, kill_at: int | None = None) -> Any:
        """A process that goes on with the run.

        Args:
            kill_at: Before which write or commit it kills itself.
        """
        given = (self.folder, self._what, self._tokens, self._seconds, kill_at)
        process = _CONTEXT.Process(target=_synthesise, args=given)
        process.start()
        return process

    def check(self, kills: int) -> None:
        """Ledger and folder agree, whatever was killed."""
        begun, done = self._noted("begun"), self._noted("done")
        # A commit that was under way may have reached the disk or not.
        assert 0 <= len(begun) - len(done) <= kills
        with Ledger(self.folder / "ledger.sqlite"):
            pass  # settles what dead processes held
        with closing(sqlite3.connect(self.folder / "ledger.sqlite")) as connection:
            # By each unit; without accounting of their own, by any one unit.
            table = "fixed) FROM spend" if self._what in _SIDE_BY_SIDE else "spent) FROM unit"
            (found,) = connection.execute(f"SELECT sum({table}").fetchone()
            (left,) = connection.execute("SELECT count(*) FROM reservation").fetchone()
        spent, slack = found or 0, RHO_ROUNDING * UNITS * (kills + 1)
        assert left == 0
        assert _nano(done) - slack <= spent <= _nano(begun) + slack
        if not (self.folder / "run" / "plan.json").exists():
            assert not begun  # nothing is paid for before the plan is fixed
            return
        kept = read_run(self.folder / "run")
        released = len(kept.released) + self._paid_tokens(kept)
        # What was released was paid for; what was paid and not released was under way in a kill.
        assert released <= len(begun)
        assert len(done) - released <= kills

    def finish(self) -> None:
        """Go on to the end, and see that every record of the plan is there once."""
        process = self.start()
        process.join()
        assert process.exitcode == 0
        kept = read_run(self.folder / "run")
        assert sorted(kept.records) == list(range(len(kept.records)))
        assert all(record.stopped_by is not None for record in kept.records.values())
        assert all(len(record.tokens) <= self._tokens for record in kept.records.values())
        assert (self.folder / "finished").read_text() == str(len(kept.records))

    def _paid_tokens(self, kept: Any) -> int:
        """Tokens of the journal that had a commit of their own."""
        lanes = [0] * len(LABELS)
        for number, record in kept.records.items():
            lanes[number % len(LABELS)] += len(record.tokens)
        return max(lanes) if self._what in _SIDE_BY_SIDE else sum(lanes)

    def _noted(self, which: str) -> list[list[float]]:
        file = self.folder / f"{which}.jsonl"
        lines = file.read_bytes().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]


def _nano(commits: list[list[float]]) -> int:
    """What commits cost all units together."""
    return charge(sum(exact("rho", amount) for commit in commits for amount in commit))


def _synthesise(folder: Path, what: str, tokens: int, seconds: float, kill_at: int | None) -> None:
    """Go on with a run; in a process of its own."""
    # Coins without end would take long; what is counted is what is paid.
    DiscreteGaussian.draw = lambda self, randomness: 0  # type: ignore[method-assign]
    events = _Events(kill_at)
    for module, name in ((synthesis_run, "write_line"), (synthesis_run, "write_whole")):
        setattr(module, name, events.around(getattr(module, name)))
    commit = Reservation.commit

    def noted(self: Reservation, rho: float, unit_rho: Any = None, **threshold: Any) -> None:
        paid = [rho] if unit_rho is None else [cost for cost in unit_rho if cost]
        _note(folder / "begun.jsonl", paid)
        commit(self, rho, unit_rho, **threshold)
        _note(folder / "done.jsonl", paid)

    Reservation.commit = events.around(noted)  # type: ignore[method-assign]
    with Ledger(folder / "ledger.sqlite") as ledger:
        common: dict[str, Any] = {
            "model": PacedModel(open=True, seconds=seconds),
            "ledger": ledger,
            "folder": folder / "run",
        }
        if what == "corpus":
            made = synthesise(_documents(), plan(tokens), **common)
        else:
            made = synthesise_examples(
                [LabelledDocument(d.text, d.text.split()[0], d.unit) for d in _documents()],
                LABELS,
                method=what,  # type: ignore[arg-type]
                epsilon=4.0,
                texts_per_label=3,
                max_tokens=tokens,
                **common,
            )
    (folder / "finished").write_text(str(len(made.records)))


def _documents() -> list[Document]:
    return [Document(f"{LABELS[n % 2]} {n}", f"unit-{n}") for n in range(UNITS)]


class _Events:
    """Counts what touches the disk, and ends the process before or after one of them."""

    def __init__(self, kill_at: int | None) -> None:
        self._kill_at = kill_at
        self._seen = 0

    def around(self, act: Callable[..., None]) -> Callable[..., None]:
        def acted(*given: Any, **named: Any) -> None:
            self._tick()
            act(*given, **named)
            self._tick()

        return acted

    def _tick(self) -> None:
        if self._seen == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self._seen += 1


def _note(file: Path, paid: list[float]) -> None:
    # Whole or not at all: one write to a file that is opened for appending.
    descriptor = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    with suppress(OSError):
        os.write(descriptor, (json.dumps(paid) + "\n").encode())
    os.close(descriptor)
