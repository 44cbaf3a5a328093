"""Errors are answers too: what one unit's rows say causes none, and weighs as it is paid for."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from dpicl_rag import Document, Ledger, PrivateContextLLM
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.auditing.worst_models import worst_speech
from dpicl_rag.configuration import MethodName, UtilityName
from dpicl_rag.errors import ModelError
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.prompts import PromptTemplate

SIZE = 8
LABELS = ("a", "b", "c", "d")
AROUND = [Document("token 1", "one"), Document("even", "other")]
UTILITIES = UtilityName.__args__
METHODS = MethodName.__args__
BROKEN = {
    "nan": [math.nan] * SIZE,
    "one nan": [math.nan] + [0.0] * (SIZE - 1),
    "nothing possible": [-math.inf] * SIZE,
    "infinite": [math.inf] + [0.0] * (SIZE - 1),
}


class Rough:
    """An engine whose rows come in another dtype, and broken for documents that say so."""

    def __init__(self, dtype=torch.float32) -> None:
        self._model = SyntheticModel(SIZE, worst_speech(SIZE))
        self._dtype = dtype
        self.tokenizer = self._model.tokenizer
        self.fingerprint, self.context_length = "rough", self._model.context_length
        self.digest = self._model.digest

    def read(self, prefix, inputs, *, room, on_progress=None):
        rows = self._model.read(prefix, inputs, room=room)
        broken = {at: BROKEN[text] for at, text in enumerate(inputs) if text in BROKEN}
        return RoughRows(rows, broken, self._dtype)


class RoughRows:
    def __init__(self, rows, broken, dtype) -> None:
        self._rows, self._broken, self._dtype = rows, broken, dtype

    def extend(self, token_ids):
        return self._rough(self._rows.extend(token_ids))

    def score(self, continuations):
        return self._rough(self._rows.score(continuations))

    def _rough(self, step):
        rows = step.rows.to(self._dtype)
        for at, said in self._broken.items():
            rows[at] = torch.tensor(said[: rows.shape[1]])
        return DenseStep(rows[0], rows[1:])


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=1e3)
        yield ledger


def drawn_from(monkeypatch, run) -> list[torch.Tensor]:
    """The scores of every draw of a run."""
    seen: list[torch.Tensor] = []

    def draw(self, scores):
        seen.append(scores)
        return 0

    monkeypatch.setattr("dpicl_rag.mechanisms.randomness.Randomness.draw", draw)
    run()
    return seen


@pytest.mark.parametrize("clip", [0.1, 0.3, 0.7])
@pytest.mark.parametrize("utility", ["log_ratio", "log_prob"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_unit_at_the_clip_bound_pays_the_public_price_at_most(ledger, utility, clip, dtype):
    """float32(0.1) is above 0.1: 20 of 20 answers failed with such a unit, and none without it."""
    llm = PrivateContextLLM(
        Rough(dtype), ledger=ledger, epsilon=1.0, utility=utility, clip=clip, max_tokens=3
    )
    for documents in ([Document("token 1", "loud")], [*AROUND, Document("turn 1", "loud")]):
        assert llm.answer("Which?", documents).tokens == 3
        assert llm.classify("Which?", documents, LABELS).label in LABELS


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("accounting", ["fixed", "individual"])
@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.parametrize("labels", [(), LABELS], ids=["answer", "label"])
def test_a_broken_row_weighs_nothing(monkeypatch, broken, utility, accounting, labels):
    llm = PrivateContextLLM(Rough(), utility=utility, accounting=accounting, max_tokens=3)

    def ask(documents):
        if labels:
            return lambda: llm.classify("Which?", documents, labels)
        return lambda: llm.answer("Which?", documents)

    with_it = drawn_from(monkeypatch, ask([*AROUND, Document(broken, "broken")]))
    without = drawn_from(monkeypatch, ask(AROUND))
    assert len(with_it) == len(without) == (1 if labels else 3)
    assert all(map(torch.equal, with_it, without))


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("method", METHODS)
def test_a_broken_row_weighs_nothing_in_a_method(monkeypatch, broken, method):
    llm = PrivateContextLLM(Rough())
    with_it, without = (
        drawn_from(monkeypatch, lambda d=d: llm.classify("Which?", d, LABELS, method=method))
        for d in ([*AROUND, Document(broken, "broken")], AROUND)
    )
    assert torch.equal(with_it[0], without[0])


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_public_row_is_an_error_that_says_so(broken):
    """With and without documents: it tells nothing of them."""
    llm = PrivateContextLLM(Rough(), template=PromptTemplate(no_document=broken))
    for documents in ([], AROUND):
        with pytest.raises(ModelError, match="without any document"):
            llm.answer("Which?", documents)
        with pytest.raises(ModelError, match="without any document"):
            llm.classify("Which?", documents, LABELS, method="votes")


@pytest.mark.parametrize("utility", UTILITIES)
def test_a_document_without_text_says_nothing_and_pays_nothing(monkeypatch, ledger, utility):
    """To the last bit; a sharpened copy of the public row would lean and pay."""
    ledger.set_budget(corpus="default", rho=9.0, unit_rho=2.0)
    llm = PrivateContextLLM(Rough(), ledger=ledger, utility=utility, max_tokens=3)
    empty = Document("", "empty")
    for ask in (llm.answer, lambda question, given: llm.classify(question, given, LABELS)):
        with_it, alone = (
            drawn_from(monkeypatch, partial(ask, "Which?", given)) for given in ([empty], [])
        )
        assert all(map(torch.equal, with_it, alone))
    with ledger.reserve(corpus="default", rho=1.0, units=["empty", "new"]) as reservation:
        spent, unspent = reservation.limits
    assert spent == unspent


@pytest.mark.parametrize("utility", UTILITIES)
def test_an_empty_group_says_nothing(monkeypatch, utility):
    llm = PrivateContextLLM(Rough(), utility=utility, groups=4, max_tokens=2)
    with_groups = drawn_from(monkeypatch, lambda: llm.answer("Which?", []))
    plain = PrivateContextLLM(Rough(), utility=utility, accounting="fixed", max_tokens=2)
    alone = drawn_from(monkeypatch, lambda: plain.answer("Which?", []))
    assert all(map(torch.equal, with_groups, alone))
