"""Publications under SIGKILL at random instants: nothing is paid twice, and none is left behind."""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import time
from fractions import Fraction

import pytest

from dpicl_rag import Bundle, Corpus, Document, Ledger, PrivateContextLLM, Request, publish
from dpicl_rag.publishing import plan_publication
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scripted_model import ScriptedModel

pytestmark = [pytest.mark.heavy]

REQUESTS = [
    Request.of("survey", vocabulary=("canteen", "noon", "mail", "sauna")),
    Request.of("tally", question="", labels=("canteen", "sauna"), by="vectors"),
    Request.of("column", column="status"),
    Request.of("column", column="status", question="How many are open?", labels=("open", "closed")),
    Request.of("label-head", column="status", labels=("open", "closed")),
]
KILLS = 8
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.unit.publishing.test_publication_kills"])


def published(place, booked):
    tempfile.tempdir = str(place / "scratch")
    with Corpus.open("mail", place / "store", embedder=BucketEmbedder()) as corpus:
        ledger = Ledger(place / "ledger.sqlite") if booked else None
        llm = PrivateContextLLM(ScriptedModel({"": "?"}), ledger=ledger)
        publish(llm, corpus, place / "bundle", REQUESTS, epsilon=6.0)


def started(place, booked):
    process = _CONTEXT.Process(target=published, args=(place, booked))
    process.start()
    return process


@pytest.fixture
def make_place(tmp_path):
    """Make a corpus with a budget, and a folder for what is gone at the end."""

    def make(name):
        place = tmp_path / name
        (place / "scratch").mkdir(parents=True)
        said = [
            Document(f"the canteen opens at noon {n}", f"u{n}", {"status": "open"})
            for n in range(40)
        ]
        with Corpus.create("mail", place / "store", embedder=BucketEmbedder()) as corpus:
            corpus.add(said, no_ledger=True)
            with Ledger(place / "ledger.sqlite") as ledger:
                ledger.set_budget(corpus="mail", epsilon=8.0)
                llm = PrivateContextLLM(ScriptedModel({"": "?"}), ledger=ledger)
                plan = plan_publication(llm, corpus, REQUESTS, epsilon=6.0)
        return place, plan

    return make


@pytest.mark.parametrize("booked", [True, False])
def test_kills_at_random_instants_pay_nothing_twice(make_place, booked):
    draw, kills, left = random.Random(7), 0, 0
    for name in ("warm", "timed"):  # the first waits for imports
        place, _ = make_place(name)
        begun = time.monotonic()
        process = started(place, booked)
        process.join()
        assert process.exitcode == 0
        whole = time.monotonic() - begun
    for run in range(4 * KILLS):
        place, plan = make_place(f"run-{run}")
        while True:
            process = started(place, booked)
            process.join(draw.uniform(0, whole))
            process.kill()
            process.join()
            if process.exitcode == 0:
                break
            kills += 1
            left += any((place / "scratch").glob("*/ledger.sqlite"))
            if kills % 3 == 0:  # let it come to its end
                process = started(place, booked)
                process.join()
                assert process.exitcode == 0
                break
        made = Bundle.open(place / "bundle")
        assert len(made.items) + len(made.lost) == len(REQUESTS)
        assert not any((place / "scratch").iterdir())
        paid = sum(Fraction(item.rho) for item in made.items)
        with Ledger(place / "ledger.sqlite") as ledger:
            [status] = ledger.status()
        if booked:
            assert paid <= Fraction(status.spent) * (1 + Fraction(1, 10**9))
            assert Fraction(status.spent) <= Fraction(plan.rho) * (1 + Fraction(1, 10**9))
        if kills >= KILLS:
            break
    assert kills >= KILLS
    assert booked or left
