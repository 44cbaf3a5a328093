"""Methods in the private path: neighbouring corpora, charges, refusals."""

from __future__ import annotations

import itertools
import math
import typing
from functools import partial
from unittest import mock

import pytest
import torch

from dpicl_rag.accounting import Budget, Stability
from dpicl_rag.answering.answer_plan import label_plan
from dpicl_rag.auditing import Subject, SyntheticModel
from dpicl_rag.auditing.worst_models import SyntheticRows
from dpicl_rag.configuration import MethodName
from dpicl_rag.documents import Document
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.methods import make
from dpicl_rag.methods.registry import over_documents
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.prompts import CONTENT_FREE
from dpicl_rag.retrieval import PrivateThresholdRetriever
from tests.support.scored_units import ScoredUnits

SURE = 40.0
LABELS = ("a", "b", "c")
EACH = pytest.mark.parametrize("name", typing.get_args(MethodName))
DIRECT = Stability(1, 0)


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    name, _, number = text.rpartition("\n")[2].partition(" ")
    if name == "token":
        # A passage of ScoredUnits ends in its place.
        return [0.0 if t == int(number.partition("/")[0]) else -SURE for t in range(3)]
    return [0.0, -1.0, -2.0]


class QuestionedRows(SyntheticRows):
    """Documents tell the label where something is asked, and nothing where nothing is."""

    def extend(self, token_ids):
        if self._history is None and CONTENT_FREE.encode() in bytes(token_ids):
            self._speech = lambda *_: [0.0, 0.0, 0.0]
        return super().extend(token_ids)


class Questioned(SyntheticModel):
    def read(self, prefix, inputs, *, room, on_progress=None):
        return QuestionedRows([str(text) for text in inputs], self._speech)


def units(*names: str) -> list[Document]:
    return [Document(name, f"unit-{at}") for at, name in enumerate(names)]


def llm(ledger=None, **settings) -> PrivateContextLLM:
    model = Questioned(3, speech)
    return PrivateContextLLM(model, ledger=ledger, **{"epsilon": 2.0, **settings})


def distribution(
    name: str | None, corpus, *, model=Questioned, pipeline=list, **settings
) -> tuple[torch.Tensor, object]:
    """The distribution that ``classify`` draws from, and its result."""
    subject = Subject(
        model(3, speech),
        "Which?",
        {"epsilon": 2.0, **settings},
        pipeline=pipeline,
        labels=LABELS,
        method=name,
    )
    trace = subject.observe(corpus)
    return trace.log_probs[0].exp(), trace.result


def priced(name: str | None, stability: Stability = DIRECT, search_rho: float = 0.0, **settings):
    """The mechanism that the private path would draw with."""
    config = llm(**settings).config
    made = None if name is None else partial(over_documents, name, config)
    return label_plan(config, stability, search_rho, made).mechanism


def noise(mechanism) -> float:
    """Lambda, or the standard deviation."""
    return mechanism.sigma if hasattr(mechanism, "sigma") else mechanism.strength


def hockey_stick(p, q, epsilon: float) -> float:
    return max(
        float((one - math.exp(epsilon) * two).clamp(min=0).sum()) for one, two in ((p, q), (q, p))
    )


CORPORA = [("token 1",), ("token 0", "token 2", "other"), ("token 2",) * 14 + ("token 0",)]
NEW = ("token 0", "token 1", "token 2", "other")


def pairs(adjacency: str):
    for names in CORPORA:
        if adjacency == "replace_one":
            for one, two in itertools.combinations(NEW, 2):
                yield units(*names, one), units(*names, two)
        else:
            yield units(*names), units(*names)[:-1]
            for new in NEW:
                yield units(*names, new), units(*names)


@pytest.mark.one_in(5)
@EACH
@pytest.mark.parametrize("adjacency", ["add_or_remove_one", "replace_one"])
def test_neighbouring_corpora_keep_to_the_claim(name, adjacency):
    gaussian = name == "votes-gaussian"
    settings = {"adjacency": adjacency, "delta": 0.05, "epsilon": 0.05 if gaussian else 2.0}
    epsilon, worst = settings["epsilon"], 0.0
    for one, two in pairs(adjacency):
        (p, result), (q, _) = (distribution(name, corpus, **settings) for corpus in (one, two))
        assert result.epsilon == epsilon
        assert result.delta == (0.05 if gaussian else 0.0)
        worst = max(
            worst,
            hockey_stick(p, q, epsilon) if gaussian else float((p / q).log().abs().max()),
        )
    claim = 0.05 if gaussian else epsilon
    assert 0.6 * claim < worst <= claim * (1 + 1e-6)


@EACH
def test_a_unit_in_a_group_costs_twice_an_expert(name):
    ratio = noise(priced(name, groups=3)) / noise(priced(name))
    assert ratio == pytest.approx(math.sqrt(2) if name == "votes-gaussian" else 0.5)
    assert noise(priced(name, Stability(0, 1))) == noise(priced(name, groups=3))


@EACH
def test_labels_are_drawn_and_no_documents_are_a_uniform_draw(name):
    with pytest.warns(UserWarning, match="not private"):
        model = llm(epsilon=12.0, seed=3)
    corpus = units(*("token 1",) * 30)
    drawn = [model.classify("Which?", corpus, LABELS, method=name).label for _ in range(5)]
    assert drawn == ["b"] * 5
    assert distribution(name, [])[0].tolist() == pytest.approx([1 / 3] * 3)


@EACH
def test_the_ledger_is_charged_and_refuses_before_anything_is_read(name, tmp_path):
    due = make(name).calibrate(Budget(2.0, 1e-5)).rho
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.set_budget(corpus="default", rho=1.5 * due)
        model = llm(ledger)
        answer = model.classify("Which?", units("token 1"), LABELS, method=name)
        assert answer.rho == pytest.approx(due)
        assert model.budget_left() == pytest.approx(0.5 * due, rel=1e-6)
        with (
            mock.patch.object(Questioned, "read", side_effect=AssertionError),
            pytest.raises(BudgetExceededError),
        ):
            model.classify("Which?", units("token 1"), LABELS, method=name)


def test_charges_are_those_of_the_mechanisms():
    assert priced("votes").rho == pytest.approx(0.5)
    assert priced("permute-and-flip").rho == pytest.approx(2 * math.tanh(1.0))


@EACH
def test_a_search_that_is_charged_takes_its_part_first(name):
    paid = priced(name, search_rho=0.02)
    assert paid.delta == 1e-5
    assert paid.rho < priced(name).rho
    with pytest.raises(ConfigurationError, match="search costs more"):
        priced(name, search_rho=5.0)


@pytest.mark.parametrize("epsilon", [1.5, 2.0, 6.0])
def test_a_priced_search_costs_a_method_what_it_costs_its_utility(epsilon):
    """One mechanism under two names: the same noise, the same charge, the same distribution."""
    by_method = priced("poe", search_rho=0.05, epsilon=epsilon)
    by_utility = priced(
        None, search_rho=0.05, epsilon=epsilon, utility="log_prob", accounting="fixed"
    )
    assert by_method == by_utility

    def pipeline(corpus):
        scored = ScoredUnits({unit.text: [0.9] for unit in corpus})
        # So many units pass the first threshold that the noise hardly ever moves it.
        return PrivateThresholdRetriever(scored, 2, sigma=3.5, thresholds=(0.8, 0.5))

    corpus = units(*(f"copy {at}\ntoken 1" for at in range(40)))
    shared = {"pipeline": pipeline, "epsilon": epsilon}
    (p, one), (q, two) = (
        distribution("poe", corpus, **shared),
        distribution(None, corpus, utility="log_prob", accounting="fixed", **shared),
    )
    assert (one.epsilon, one.delta, one.rho) == (two.epsilon, two.delta, two.rho)
    assert (one.epsilon, one.delta) == (epsilon, 1e-5)
    assert p.tolist() == pytest.approx(q.tolist())


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("zero-shot", {}, "cannot label from documents"),
        ("sampling", {}, "cannot label from documents"),
        ("poe-groups", {}, "cannot label from documents"),
        ("nonsense", {}, "cannot label from documents"),
        ("poe", {"accounting": "individual"}, "charged the same for every unit"),
        ("poe", {"utility": "vote"}, "its own utility"),
        ("poe", {"strength": 1.0}, "its own utility"),
        ("votes", {"clip": 2.0}, "no parameter clip"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(name, settings, says):
    with pytest.raises(ConfigurationError, match=says):
        llm(**settings).classify("Which?", units("token 1"), LABELS, method=name)


def test_the_clip_of_the_settings_is_the_methods():
    found = priced("poe", clip=2.0)
    assert (found.strength, found.utility.range) == (pytest.approx(1.0), 2.0)


def test_what_a_document_says_to_every_question_is_taken_out():
    """A document that prefers one label whatever is asked has no say; the others have."""
    corpus = units(*("token 1",) * 5)
    deaf = {"model": SyntheticModel}
    assert distribution("poe-prior", corpus, **deaf)[0].tolist() == pytest.approx([1 / 3] * 3)
    assert distribution("poe", corpus, **deaf)[0][1] > 0.9
    assert distribution("poe-prior", corpus)[0][1] > 0.9
