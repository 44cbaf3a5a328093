import asyncio
import dataclasses
import gc
import itertools
import logging
import sys
import threading

import pytest

from dpicl_rag import (
    BudgetExceededError,
    ConfigurationError,
    ContextLengthError,
    Document,
    Ledger,
    MissingDependencyError,
    MissingDocumentsError,
    ModelError,
    PoissonSampledRetriever,
    PrefixCache,
    PrivateContextLLM,
)
from dpicl_rag.accounting.conversion import epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.stability import Stability
from dpicl_rag.answering.experts import Expert
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.language_models.transformers_rows import TransformersRows
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.retrieval import Candidates, GivenDocuments, Retrieved

SECRET = "xyzzy-4417"
DOCUMENTS = [f"document {i} {SECRET}" for i in range(4)]


def seeded(model, **settings):
    with pytest.warns(NotPrivateWarning):
        return PrivateContextLLM(model, seed=1, max_tokens=6, **settings)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def spent(ledger):
    return {status.scope: status.spent for status in ledger.status()}


@pytest.mark.parametrize("utility", ["surplus", "log_ratio", "log_prob", "vote"])
@pytest.mark.parametrize("accounting", ["individual", "fixed"])
def test_an_answer_stays_within_its_budget(tiny_model, utility, accounting):
    llm = PrivateContextLLM(tiny_model, utility=utility, accounting=accounting, max_tokens=5)
    answer = llm.answer("question?", DOCUMENTS)
    assert (answer.epsilon, answer.delta) == (8.0, 1e-5)
    assert 0 < answer.rho <= epsilon_to_rho(8.0, 1e-5)
    assert 1 <= answer.tokens <= 5
    assert answer.stopped_by in ("end", "length")


def test_the_fields_of_an_answer_are_the_public_ones(tiny_model):
    answer = PrivateContextLLM(tiny_model, max_tokens=2).answer("q", DOCUMENTS)
    assert {field.name for field in dataclasses.fields(answer)} == {
        "text",
        "epsilon",
        "delta",
        "rho",
        "tokens",
        "stopped_by",
        "corpus",
        "supported",
        "from_memory",
        "recalled",
        "by",
        "agreeing",
        "agreeing_within",
        "parts",
        "kind",
        "numbers",
        "released",
        "question",
    }


def test_streams_answers_and_async_twins_agree(tiny_model):
    answer = seeded(tiny_model).answer("q?", DOCUMENTS)
    streamed = seeded(tiny_model).stream("q?", DOCUMENTS)
    assert "".join(streamed).strip() == answer.text
    assert streamed.answer == answer

    async def collect():
        pieces = [piece async for piece in seeded(tiny_model).astream("q?", DOCUMENTS)]
        return pieces, await seeded(tiny_model).aanswer("q?", DOCUMENTS)

    pieces, twin = asyncio.run(collect())
    assert "".join(pieces).strip() == answer.text
    assert twin == answer


async def test_a_stream_cancelled_during_its_search_gives_its_hold_back(tiny_model, ledger):
    ledger.set_budget(corpus="default", rho=100.0)
    searching, go = threading.Event(), threading.Event()

    class Slow(GivenDocuments):
        def retrieve(self, question):
            searching.set()
            assert go.wait(10)
            return super().retrieve(question)

    llm = PrivateContextLLM(tiny_model, ledger=ledger, accounting="fixed", max_tokens=4)
    pieces = llm.astream("q?", Slow(DOCUMENTS))
    reader = asyncio.ensure_future(anext(pieces))
    await asyncio.to_thread(searching.wait, 10)
    reader.cancel()
    asyncio.get_running_loop().call_later(0.05, go.set)
    with pytest.raises(asyncio.CancelledError):
        await reader
    [status] = ledger.status()
    assert (status.spent, status.reserved) == (0, 0)


def test_classify_and_its_twin_agree(tiny_model):
    labels = ["yes", "no", "nobody"]
    label = seeded(tiny_model).classify("q?", DOCUMENTS, labels)
    assert label.label in labels
    assert (label.epsilon, label.delta, label.rho) == (8.0, 0.0, 8.0)
    twin = asyncio.run(seeded(tiny_model).aclassify("q?", DOCUMENTS, labels))
    assert twin == label


@pytest.mark.one_in(4)
@pytest.mark.parametrize("utility", ["surplus", "log_ratio", "log_prob", "vote"])
@pytest.mark.parametrize("accounting", ["individual", "fixed"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.3, 8.0])
def test_every_utility_can_classify(tiny_model, utility, accounting, epsilon):
    llm = PrivateContextLLM(tiny_model, utility=utility, accounting=accounting, epsilon=epsilon)
    label = llm.classify("q?", DOCUMENTS, ["a", "b"])
    assert label.rho <= epsilon**2 / 8 * (1 + 1e-9)


def test_no_documents_take_the_ordinary_path(tiny_model):
    answer = PrivateContextLLM(tiny_model, max_tokens=3).answer("q?", [])
    assert answer.tokens >= 1
    assert answer.epsilon == 8.0


def test_no_documents_argument_is_an_error(tiny_model):
    llm = PrivateContextLLM(tiny_model)
    with pytest.raises(MissingDocumentsError):
        llm.answer("q?", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="list"):
        llm.answer("q?", "one string")  # type: ignore[arg-type]


def test_individual_accounting_is_refused_where_it_is_unsound(tiny_model):
    top = GivenDocuments([Document("a", "1")], Stability(0, 1))
    llm = PrivateContextLLM(tiny_model, accounting="individual", max_tokens=2)
    with pytest.raises(ConfigurationError, match="fixed"):
        llm.answer("q?", top)
    for settings in ({"groups": 2}, {"adjacency": "replace_one"}):
        llm = PrivateContextLLM(tiny_model, accounting="individual", **settings)
        with pytest.raises(ConfigurationError, match="fixed"):
            llm.answer("q?", DOCUMENTS)


def test_the_automatic_choice_falls_back_to_fixed_charges(tiny_model, ledger):
    top = GivenDocuments([Document("a", "1")], Stability(0, 1))
    llm = PrivateContextLLM(tiny_model, max_tokens=4, ledger=ledger)
    answer = llm.answer("q?", top)
    cost = (epsilon_to_rho(8.0, 1e-5) - 0.04) / 4  # the rest is for the support count
    assert answer.rho == pytest.approx(answer.tokens * cost + 0.04)


def test_a_retriever_and_a_privacy_unit_do_not_go_together(tiny_model):
    found = GivenDocuments([Document("a", "1", {"p": "x"})], Stability(1, 0))
    with pytest.raises(ConfigurationError, match="privacy_unit"):
        PrivateContextLLM(tiny_model, privacy_unit="p").answer("q?", found)


def test_a_question_longer_than_the_context_is_one_clear_error(tiny_model):
    with pytest.raises(ContextLengthError, match="shorten the question"):
        PrivateContextLLM(tiny_model).answer("word " * 2000, DOCUMENTS)


def test_a_long_document_is_cut_to_its_allowance(tiny_model):
    llm = PrivateContextLLM(tiny_model, max_tokens=2, unit_tokens=20)
    assert llm.answer("q?", ["word " * 5000]).tokens >= 1


@pytest.mark.parametrize("question", ["", "  \n"])
def test_an_empty_question_is_refused(tiny_model, question):
    with pytest.raises(ConfigurationError, match="empty"):
        PrivateContextLLM(tiny_model).answer(question, DOCUMENTS)


@pytest.mark.parametrize("accounting", ["fixed", "individual"])
def test_the_ledger_is_charged_for_what_was_released(tiny_model, ledger, accounting):
    ledger.set_budget(corpus="default", rho=100.0)
    llm = PrivateContextLLM(tiny_model, max_tokens=8, ledger=ledger, accounting=accounting)
    answer = llm.answer("q?", DOCUMENTS)
    [status] = ledger.status()
    assert status.spent == pytest.approx(answer.rho, rel=1e-6)
    assert status.reserved == 0


def test_a_stream_closed_midway_pays_for_what_was_released(tiny_model, ledger):
    ledger.set_budget(corpus="default", rho=100.0)
    llm = PrivateContextLLM(tiny_model, max_tokens=8, ledger=ledger, accounting="fixed")
    stream = llm.stream("q?", DOCUMENTS)
    next(stream)  # no stop token comes first with these coins
    stream.close()
    [status] = ledger.status()
    cost = (epsilon_to_rho(8.0, 1e-5) - 0.04) / 8  # the rest is for the support count
    assert stream.answer.supported is None
    assert stream.answer.tokens >= 1
    assert status.spent == pytest.approx(stream.answer.tokens * cost, rel=1e-6)
    assert status.reserved == 0


def test_a_stream_that_is_dropped_gives_its_hold_back(tiny_model, ledger):
    ledger.set_budget(corpus="default", rho=100.0)
    llm = PrivateContextLLM(tiny_model, max_tokens=8, ledger=ledger, accounting="fixed")
    stream = llm.stream("q?", DOCUMENTS)
    del stream
    gc.collect()
    [status] = ledger.status()
    assert (status.spent, status.reserved) == (0, 0)


def test_an_error_while_reading_refunds(tiny_model, ledger, monkeypatch):
    ledger.set_budget(corpus="default", rho=100.0)
    llm = PrivateContextLLM(tiny_model, max_tokens=8, ledger=ledger, accounting="fixed")

    def fail(*_, **__):
        raise RuntimeError("planted")

    monkeypatch.setattr(type(tiny_model), "read", fail)
    with pytest.raises(RuntimeError, match="planted"):
        llm.answer("q?", DOCUMENTS)
    with pytest.raises(RuntimeError, match="planted"):
        llm.classify("q?", DOCUMENTS, ["a", "b"])
    [status] = ledger.status()
    assert (status.spent, status.reserved) == (0, 0)


@pytest.mark.parametrize(
    ("place", "step"), [(TransformersRows, "extend"), (DenseStep, "weighted_sum")]
)
def test_memory_that_ends_while_weighing_tells_no_size_and_refunds(
    tiny_model, ledger, monkeypatch, place, step
):
    """What torch says names the size of a tensor: experts times vocabulary."""
    ledger.set_budget(corpus="default", rho=100.0)
    llm = PrivateContextLLM(tiny_model, max_tokens=8, ledger=ledger, accounting="fixed")

    def fail(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4471")

    monkeypatch.setattr(place, step, fail)
    for ask in (
        lambda: llm.answer("q?", DOCUMENTS),
        lambda: llm.classify("q?", DOCUMENTS, ["a", "b"]),
    ):
        with pytest.raises(ModelError, match="not enough memory") as caught:
            ask()
        assert "4471" not in str(caught.value)
        assert caught.value.__suppress_context__
    [status] = ledger.status()
    assert (status.spent, status.reserved) == (0, 0)


def test_a_budget_that_ends_midway_stops_the_answer(tiny_model, ledger):
    cost = epsilon_to_rho(8.0, 1e-5) / 8
    ledger.set_budget(corpus="default", rho=2.5 * cost)
    llm = PrivateContextLLM(tiny_model, max_tokens=8, ledger=ledger, accounting="fixed")
    answer = llm.answer("q?", DOCUMENTS)
    assert answer.tokens <= 2
    assert answer.stopped_by in ("budget", "end")


def test_a_budget_that_cannot_pay_refuses_before_any_model_call(tiny_model, ledger, monkeypatch):
    ledger.set_budget(corpus="default", rho=1e-6)
    llm = PrivateContextLLM(tiny_model, max_tokens=8, ledger=ledger, accounting="fixed")

    def fail(*_, **__):
        raise AssertionError("the model was called")

    monkeypatch.setattr(type(tiny_model), "read", fail)
    with pytest.raises(BudgetExceededError):
        llm.answer("q?", DOCUMENTS)
    with pytest.raises(BudgetExceededError):
        llm.classify("q?", DOCUMENTS, ["a", "b"])


def test_spent_units_fall_silent_and_nobody_is_told(tiny_model, ledger, tmp_path):
    ledger.set_budget(corpus="default", rho=1000.0, unit_rho=1e-9)
    llm = PrivateContextLLM(tiny_model, max_tokens=6, ledger=ledger, agreement="auto")
    for _ in range(3):
        assert llm.answer("q?", DOCUMENTS).stopped_by in ("end", "length")
    # No unit can pay, so the answer is the public model's, drawn with the same seed.
    given = {"ledger": ledger, "agreement": "auto"}
    silent = seeded(tiny_model, **given).answer("q?", DOCUMENTS)
    assert silent.text == seeded(tiny_model, **given).answer("q?", []).text
    with Ledger(tmp_path / "fresh.sqlite") as fresh:
        given["ledger"] = fresh
        assert silent.text != seeded(tiny_model, **given).answer("q?", DOCUMENTS).text


def test_nothing_private_is_logged_or_shown(tiny_model, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    llm = PrivateContextLLM(tiny_model, max_tokens=3)
    stream = llm.stream("q?", [Document(SECRET, SECRET, {"a": SECRET})])
    list(stream)
    shown = [repr(llm), str(llm), repr(stream), caplog.text, *capfd.readouterr()]
    assert not any(SECRET in text for text in shown)


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("langchain_dpicl_rag", lambda llm: llm.as_langchain()),
        ("llama_index_dpicl_rag", lambda llm: llm.as_query_engine(None)),
    ],
)
def test_a_missing_adapter_is_named(tiny_model, monkeypatch, module, call):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=f"`pip install {module.replace('_', '-')}`"):
        call(PrivateContextLLM(tiny_model))


def test_settings_can_be_changed_and_the_rest_stays(tiny_model, ledger):
    llm = seeded(tiny_model, ledger=ledger, stop=("\n",), agreement="off")
    other = llm.with_settings(max_tokens=2)
    assert (other.config.max_tokens, other.config.stop) == (2, ("\n",))
    assert (llm.config.max_tokens, llm.model) == (6, other.model)
    # Coins are shared, not begun anew.
    first = seeded(tiny_model, agreement="off").answer("q?", DOCUMENTS)
    assert llm.with_settings().answer("q?", DOCUMENTS) == first
    assert llm.answer("q?", DOCUMENTS) != first
    with pytest.raises(ConfigurationError, match="top_p"):
        llm.with_settings(top_p=0.5)
    with pytest.raises(ConfigurationError, match="seed"):
        llm.with_settings(seed=2)


def test_documents_read_ahead_are_not_read_again(tiny_model, monkeypatch):
    llm = PrivateContextLLM(tiny_model, max_tokens=2, prefix_cache=PrefixCache())
    assert llm.warm([*DOCUMENTS, Document("one", "both"), Document("two", "both")]) == 4
    read = []
    honest = llm.model._model.forward

    def forward(*arguments, **more):
        read.append(more["input_ids"].numel())
        return honest(*arguments, **more)

    monkeypatch.setattr(llm.model._model, "forward", forward)
    llm.answer("q?", DOCUMENTS)
    # The question and the answer of five rows, and no document.
    prompt = llm.template.cut(llm.model.tokenizer, "q?")
    assert sum(read) <= 5 * (len(prompt.suffix) + 2)


@pytest.mark.parametrize("silent", [False, True])
def test_what_is_read_ahead_is_what_answers_read(tiny_model, monkeypatch, silent):
    monkeypatch.setattr(PrivateRun, "silent", property(lambda run: silent))
    reads = []
    honest = TransformersModel.read

    def read(self, prefix, inputs, **more):
        reads.append({(tuple(prefix), one) for one in inputs})
        return honest(self, prefix, inputs, **more)

    monkeypatch.setattr(TransformersModel, "read", read)
    llm = PrivateContextLLM(tiny_model, max_tokens=2)
    mails = [f"From: Ida <ida@elm.example>\n\n{one}.\n\nIda" for one in DOCUMENTS]
    assert llm.warm(mails) == len(mails)
    ahead = set.union(*reads)
    reads.clear()
    llm.answer("q?", mails)
    assert any(ahead <= one for one in reads)


def test_the_core_opens_as_a_langchain_model(tiny_model):
    model = PrivateContextLLM(tiny_model, max_tokens=2).as_langchain()
    assert isinstance(model.invoke("q?", documents=DOCUMENTS), str)


def test_the_budget_left_is_the_lesser_of_corpus_and_caller(tiny_model, ledger):
    assert PrivateContextLLM(tiny_model).budget_left() is None
    ledger.set_budget(corpus="default", rho=3.0)
    ledger.set_budget(caller="ann", rho=2.0)
    llm = PrivateContextLLM(tiny_model, ledger=ledger, caller="ann", accounting="fixed")
    assert llm.budget_left() == 2.0


class Searching:
    """A private search over fixed units: every unit is counted once and all are found."""

    corpus_name = None
    stability = Stability(1, 0)

    def __init__(self, rho):
        self._rho = rho

    def rho(self, adjacency):
        return self._rho

    def search(self, question):
        units = ["a", "b", "c"]

        def draw(admitted, randomness):
            found = {unit: [Document(f"text {unit}", unit)] for unit in units[:2]}
            return Retrieved(found, [self._rho * counted for counted in admitted])

        return Candidates(units, draw)


@pytest.mark.parametrize("accounting", ["individual", "fixed"])
def test_a_private_search_is_part_of_the_answers_budget(tiny_model, ledger, accounting):
    ledger.set_budget(corpus="default", rho=100.0)
    llm = PrivateContextLLM(tiny_model, max_tokens=3, ledger=ledger, accounting=accounting)
    answer = llm.answer("q?", Searching(0.1))
    assert 0.1 < answer.rho <= epsilon_to_rho(8.0, 1e-5)
    [status] = ledger.status()
    assert status.spent == pytest.approx(answer.rho, rel=1e-6)
    label = llm.classify("q?", Searching(0.1), ["a", "b"])
    assert label.delta == 1e-5
    most = 8.0 - rho_to_epsilon(0.1, 1e-5)
    assert label.rho == pytest.approx(0.1 + most**2 / 8)


def test_a_search_and_a_draw_fit_their_budget_to_the_last_bit(tiny_model):
    """Without a ledger: the float sum of both prices may lie below their exact sum."""
    model = SyntheticModel(3, lambda text, history: [0.0, -1.0, -2.0])
    for epsilon, rho in itertools.product((1.5, 2.0, 3.3, 6.0, 7.1, 8.0), (0.01, 1 / 18, 0.02)):
        for method in ("poe", "votes", "permute-and-flip", "votes-gaussian", None):
            accounting = None if method else "fixed"
            llm = PrivateContextLLM(model, epsilon=epsilon, accounting=accounting)
            label = llm.classify("q?", Searching(rho), ["a", "b"], method=method)
            assert label.rho > rho


def test_a_seed_governs_the_coins_of_a_search_too(tiny_model):
    """Every coin of an answer comes from one place."""

    def answers():
        found = PoissonSampledRetriever(GivenDocuments(DOCUMENTS), 0.5)
        llm = seeded(tiny_model)
        return [llm.answer("q?", found) for _ in range(4)]

    assert answers() == answers()


def test_a_seed_beside_randomness_is_refused(tiny_model):
    with pytest.raises(ConfigurationError, match="not both"):
        PrivateContextLLM(tiny_model, seed=1, randomness=Randomness())


@pytest.mark.parametrize("model", [42, (1,), object()])
def test_what_is_no_language_model_is_refused(model):
    with pytest.raises(ConfigurationError, match="pair"):
        PrivateContextLLM(model)


def test_labels_in_one_string_are_refused(tiny_model):
    with pytest.raises(ConfigurationError, match="list"):
        PrivateContextLLM(tiny_model).classify("q?", DOCUMENTS, "ab")


def test_a_mistyped_setting_is_told_its_likely_name(tiny_model):
    with pytest.raises(ConfigurationError, match="did you mean unit_tokens"):
        PrivateContextLLM(tiny_model, unit_token=3)


def test_units_that_were_counted_but_not_found_pay_too(tiny_model, ledger):
    ledger.set_budget(corpus="default", rho=0.35)
    llm = PrivateContextLLM(tiny_model, max_tokens=1, ledger=ledger, epsilon=1.0)
    rho = epsilon_to_rho(1.0, 1e-5) / 2
    llm.answer("q?", Searching(rho))
    with ledger.reserve(corpus="default", rho=0.35, units=["a", "b", "c", "new"]) as hold:
        *counted, new = hold.limits
    assert all(limit <= 0.35 - rho for limit in counted)
    assert counted[2] == pytest.approx(0.35 - rho, abs=1e-6)
    assert new == pytest.approx(0.35)


def test_a_unit_that_cannot_pay_for_the_search_is_not_counted(tiny_model, ledger):
    ledger.set_budget(corpus="default", rho=100.0, unit_rho=0.35)
    seen = []

    class Watching(Searching):
        def search(self, question):
            search = super().search(question)

            def draw(admitted, randomness):
                seen.append(admitted)
                return search.choose(admitted, randomness)

            return Candidates(search.units, draw)

    llm = PrivateContextLLM(tiny_model, max_tokens=1, ledger=ledger)
    for _ in range(2):
        llm.answer("q?", Watching(0.2))
    assert seen == [[True] * 3, [False] * 3]


def test_a_search_may_find_no_other_unit_and_does_not_name_it(tiny_model):
    class Stray(Searching):
        def search(self, question):
            found = {SECRET: [Document(SECRET, SECRET)]}
            return Candidates(["a"], lambda admitted, randomness: Retrieved(found, [0.0]))

    with pytest.raises(ConfigurationError, match="candidates") as caught:
        PrivateContextLLM(tiny_model).answer("q?", Stray(0.0))
    assert SECRET not in str(caught.value)


def test_an_ended_stream_keeps_no_documents(tiny_model):
    stream = PrivateContextLLM(tiny_model, max_tokens=2).stream("q?", DOCUMENTS)
    list(stream)
    gc.collect()
    kept = [thing for thing in gc.get_objects() if type(thing) is Expert]
    assert not [expert for expert in kept if SECRET in expert.passages[0]]


def test_a_search_that_costs_too_much_is_refused(tiny_model):
    with pytest.raises(ConfigurationError, match="sigma"):
        PrivateContextLLM(tiny_model).answer("q?", Searching(2.0))
