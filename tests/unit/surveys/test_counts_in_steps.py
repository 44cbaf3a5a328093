"""Counts go in steps: of public sizes, and where one is ended it costs what was paid till then."""

import asyncio
import threading
from itertools import count

import pytest

from dpicl_rag import ConfigurationError, Document, Ledger, PrivateContextLLM
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.answering.labels import most_label_tokens
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.errors import StoppedError
from dpicl_rag.language_models.readers.concurrent_reader import PUBLIC_PROMPT, ConcurrentReader
from dpicl_rag.language_models.turns import give_way, taking_turns, undisturbed
from dpicl_rag.retrieval import TopKRetriever
from dpicl_rag.retrieval.unit_vectors import UnitVectors
from dpicl_rag.surveys.count_plans import units_of_a_step
from tests.support.scored_units import ScoredUnits
from tests.support.scripted_reader import ScriptedReader
from tests.unit.surveys.test_surveying import Letters

LABELS = ["a", "b"]  # a made-up model has labels of one letter
PRICE = epsilon_to_rho(4.0, 1e-5)
WORDS = ("dog", "cat", "sun", "rain")


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Three units a step by the model, and two by vectors."""
    monkeypatch.setattr("dpicl_rag.surveys.tallies.units_of_a_step", lambda tokens: 3)
    monkeypatch.setattr("dpicl_rag.surveys.tallies.LABELS", LABELS)
    monkeypatch.setattr("dpicl_rag.retrieval.unit_vectors._ROWS", 2)
    for room in ("surveying", "tallies"):
        monkeypatch.setattr(f"dpicl_rag.surveys.{room}.SentenceTransformerEmbedder", Letters)


def documents(units=4):
    return [Document(f"a dog {n}", f"u{n}") for n in range(units)]


def stopped(work, steps):
    """What a piece of work that is ended after so many steps raises; None where it ends before."""
    done = count(1)

    def between():
        if next(done) > steps:
            raise StoppedError("time is over")

    try:
        with taking_turns(between):
            work()
    except StoppedError as error:
        return error
    return None


KINDS = {
    "count": (lambda llm: llm.count("refund?", documents()), {}),
    "count, all pay": (
        lambda llm: llm.count("refund?", documents()),
        {"accounting": "fixed"},
    ),
    "tally": (lambda llm: llm.tally("what?", LABELS, documents(), most=2), {}),
    "of a reader": (
        lambda llm: llm.tally("what?", LABELS, documents()),
        {"reader": ScriptedReader(lambda prompt: "a"), "max_calls": 5, "accounting": "fixed"},
    ),
    "by vectors": (lambda llm: llm.tally("what?", LABELS, documents(), by="vectors"), {}),
    "survey": (lambda llm: llm.survey(None, documents(6), vocabulary=WORDS, votes=1), {}),
    "survey of a reader": (
        lambda llm: llm.survey("what?", documents(6), vocabulary=WORDS, votes=1, by="model"),
        {"reader": ScriptedReader(lambda prompt: "dog"), "max_calls": 5},
    ),
    "classify": (lambda llm: llm.classify("what?", documents(), LABELS), {}),
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(one, marks=pytest.mark.heavy if one == "classify" else ()) for one in KINDS],
)
def test_what_is_stopped_costs_what_was_paid_and_releases_nothing(kind, tiny_model, tmp_path):
    """After every step: told is charged, nothing is held, and the last stop is before the draw."""
    work, settings = KINDS[kind]
    model = tiny_model if kind == "classify" else Batches()  # it gives way after each label
    costs = []
    for steps in count():
        path = tmp_path / f"{steps}.sqlite"
        with Ledger(path) as ledger:
            ledger.set_budget(corpus="default", rho=20 * PRICE)
            llm = PrivateContextLLM(model, epsilon=4.0, ledger=ledger, **settings)
            error = stopped(lambda llm=llm: work(llm), steps)
            [status] = ledger.status()
            assert status.reserved == 0
            if error is None:
                break
            assert status.spent == pytest.approx(error.rho, abs=2e-9)
            assert str(error).startswith("time is over; nothing was released, and it cost ")
            costs.append(error.rho)
    assert steps > 1
    assert status.spent > max(costs)
    searched = kind in ("of a reader", "survey of a reader")
    assert (costs[0] > 0) == searched
    # The words of a survey are paid for before its second look at the units.
    assert (len(set(costs)) > 1) == kind.startswith("survey")


class Batches(SyntheticModel):
    """Notes how many units are read together."""

    def __init__(self):
        super().__init__(3, lambda text, drawn: [len(text) / 40, 0.0, 0.1])
        self.sizes = []

    def read(self, prefix, inputs, **options):
        self.sizes.append(len(inputs) - 1)
        return super().read(prefix, inputs, **options)


@pytest.mark.parametrize("units", [0, 2, 3, 7])
def test_steps_have_a_public_size_and_change_no_opinion(units, monkeypatch):
    model, said, seen = Batches(), [], []
    llm = PrivateContextLLM(model)
    monkeypatch.setattr(
        "dpicl_rag.mechanisms.private_counts.Histogram.draw",
        lambda self, counts, coins: said.append(counts) or counts,
    )
    ask = lambda: llm.tally(  # noqa: E731
        "w?", ["a", "b", "c"], documents(units), on_progress=lambda part, _: seen.append(part)
    )
    ask()
    assert model.sizes == [3] * (units // 3) + [units % 3] * (units % 3 > 0 or not units)
    assert seen == [tenth / 10 for tenth in range(1, 11)]
    monkeypatch.setattr("dpicl_rag.surveys.tallies.units_of_a_step", lambda tokens: 1000)
    ask()
    assert said[0] == said[1]
    assert sum(said[0]) == units


def test_a_step_is_smaller_where_units_are_longer():
    assert units_of_a_step(256) == 32
    assert units_of_a_step(10**6) == 1


# ---- labels ----


def long_labels(number, words):
    return [" ".join(f"w{n}" for _ in range(words)) for n in range(number)]


def test_labels_that_are_more_work_than_the_documents_are_refused(tiny_model, tmp_path):
    """By the labels and the number of units that may be read: never by how many there are."""
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=2 * PRICE)
        llm = PrivateContextLLM(tiny_model, ledger=ledger)
        said = []
        for given in ([], documents(1), documents(50)):
            with pytest.raises(ConfigurationError) as refused:
                llm.tally("what?", long_labels(40, 60), given)
            said.append(str(refused.value))
        assert ledger.status()[0].spent == 0
    assert said[0] == said[1] == said[2]
    assert "each unit can be asked 1,024; give fewer or shorter labels" in said[0]


def test_where_few_units_are_read_labels_may_be_longer():
    corpus = ScoredUnits({f"u{n}": [0.9] for n in range(3)})
    few = TopKRetriever(corpus, 16)
    assert most_label_tokens() == 1024
    assert most_label_tokens(few.aim) == 65_536
    llm, labels = PrivateContextLLM(Batches()), [letter * 400 for letter in "abc"]
    with pytest.raises(ConfigurationError, match="each unit can be asked 1,024; give fewer"):
        llm.tally("what?", labels, corpus)
    with pytest.raises(ConfigurationError, match="each unit can be asked 512; give fewer"):
        llm.classify("what?", TopKRetriever(corpus, 2048), labels)


# ---- turns ----


def test_between_steps_all_who_asked_are_called_and_nobody_within_one():
    called = []
    with taking_turns(lambda: called.append("outer")):
        with taking_turns(lambda: called.append("inner")):
            give_way()
            with undisturbed():
                give_way()
        give_way()
    give_way()
    assert called == ["outer", "inner", "outer"]


def test_while_a_provider_is_waited_for_others_have_their_turn_and_a_stop_is_heard():
    asked, go_on = threading.Event(), threading.Event()

    def call(prompt):
        if prompt != PUBLIC_PROMPT:
            asked.set()
            go_on.wait(30)
        return "a"

    reader = ConcurrentReader(call, "slow")
    llm = PrivateContextLLM(Batches(), reader=reader)
    turns = []

    def between():
        assert asked.is_set()
        turns.append(1)
        if len(turns) == 2:
            raise StoppedError("time is over")

    with taking_turns(between), pytest.raises(StoppedError, match="time is over"):
        llm.tally("what?", ["a", "b"], documents())
    go_on.set()


def test_the_twin_that_is_cancelled_ends_its_count_at_the_next_step(tiny_model, monkeypatch):
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    steps = []

    def waits(self):
        try:
            yield from honest(self)
        finally:
            ended.set()

    def passes(vectors):
        steps.append(1)
        begun.set()
        go_on.wait(30)
        return rounded(vectors)

    from dpicl_rag.retrieval import unit_vectors

    honest, rounded = UnitVectors.blocks, unit_vectors.rounded
    monkeypatch.setattr(UnitVectors, "blocks", waits)
    monkeypatch.setattr(unit_vectors, "rounded", passes)
    llm = PrivateContextLLM(tiny_model)

    async def ask():
        asking = asyncio.create_task(llm.atally("what?", LABELS, documents(), by="vectors"))
        await asyncio.to_thread(begun.wait, 30)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        go_on.set()
        assert await asyncio.to_thread(ended.wait, 30)

    asyncio.run(ask())
    assert len(steps) == 1
