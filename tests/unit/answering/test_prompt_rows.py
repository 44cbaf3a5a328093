"""The public row beside experts, and alone."""

import pytest
import torch

from dpicl_rag import ConfigurationError, PromptTemplate
from dpicl_rag.answering import prompt_rows
from dpicl_rag.answering.prompt_rows import BareModel, bare_log_probs, read, read_public_row
from dpicl_rag.language_models.packed_rows import PackedRows, SingleRow
from dpicl_rag.language_models.separate_rows import SeparateRows
from tests.support.tiny_model import build_tiny_model

TOKENS = (70, 71, 72)


@pytest.fixture
def kinds(monkeypatch):
    """Which kinds of rows were read, in order."""
    seen = []
    for kind in (PackedRows, SeparateRows):
        honest = kind.__init__

        def init(self, *given, honest=honest, **more):
            seen.append(type(self))
            honest(self, *given, **more)

        monkeypatch.setattr(kind, "__init__", init)
    return seen


def test_alone_it_says_what_it_says_in_company(tiny_model, kinds):
    prompt = PromptTemplate().cut(tiny_model.tokenizer, "q?")
    informed = tiny_model.digest(["it is known"], 99)
    read(tiny_model, prompt, [], room=3)  # the probe's rows
    read_public_row(tiny_model, prompt, room=3)
    kinds.clear()
    company = read(tiny_model, prompt, [], room=3, informed=informed)
    alone = read_public_row(tiny_model, prompt, room=3, informed=informed)
    assert kinds == [PackedRows, SingleRow]
    for ids in (prompt.suffix, *((token,) for token in TOKENS)):
        torch.testing.assert_close(company.extend(ids).public, alone.extend(ids).public)


def test_no_experts_are_not_alone(tiny_model, kinds):
    """How many units were found decides no bit of the public row."""
    prompt = PromptTemplate().cut(tiny_model.tokenizer, "q?")
    expert = tiny_model.digest(["a document"], 99)
    none, one = (read(tiny_model, prompt, own, room=3) for own in ([], [expert]))
    assert SingleRow not in kinds
    assert torch.equal(none.extend(prompt.suffix).public, one.extend(prompt.suffix).public)


def test_a_model_whose_rows_cannot_share_passes_reads_as_ever(monkeypatch, kinds):
    model = build_tiny_model().single_row()
    monkeypatch.setattr(model, "single_row", lambda: model)
    monkeypatch.setattr(model, "_holds", lambda kind, *_: kind is SeparateRows)
    read_public_row(model, PromptTemplate().cut(model.tokenizer, "q?"), room=3)
    assert kinds == [SeparateRows]


def test_what_asks_for_no_experts_reads_alone(tiny_model, monkeypatch):
    prompt, read_ = PromptTemplate().cut(tiny_model.tokenizer, "q?"), []

    def reading(model, *given, **more):
        read_.append(model)
        return read(model, *given, **more)

    monkeypatch.setattr(prompt_rows, "read", reading)
    each = bare_log_probs(tiny_model, prompt, TOKENS)
    whole = BareModel(tiny_model, prompt, 9).log_prob(prompt.suffix, TOKENS)
    assert sum(each) == pytest.approx(whole, abs=1e-4)
    assert [model._single_row for model in read_] == [True, True]


def test_a_model_that_reads_one_row_reads_no_expert(tiny_model):
    prompt = PromptTemplate().cut(tiny_model.tokenizer, "q?")
    expert = tiny_model.digest(["a document"], 99)
    with pytest.raises(ConfigurationError, match="alone was given several"):
        read(tiny_model.single_row(), prompt, [expert], room=3)


def test_a_copy_that_favours_its_words_is_alone_too(tiny_model):
    assert tiny_model.single_row().copying(1.0, public=True)._single_row
    assert tiny_model.copying(1.0).single_row()._copy_bias == 1.0
    assert not tiny_model._single_row


def test_what_the_bare_model_is_asked_changes_no_later_bit(tiny_model):
    """Experts' sentences are put to it one after the other: each is judged as if it came alone."""
    prompt = PromptTemplate().cut(tiny_model.tokenizer, "q?")
    sentences = [(70, 71, 72), (73,), (74, 75, 76, 77, 78), (70, 71), (79, 80, 81, 82)]

    def asked(order):
        bare = BareModel(tiny_model, prompt, 9)
        return {own: bare.log_prob(prompt.suffix, own) for own in order}

    together = asked(sentences)
    assert together == asked(sentences[::-1])
    assert together == {own: asked([own])[own] for own in sentences}


def test_a_row_alone_joins_no_pass_of_others(tiny_model):
    prompt = PromptTemplate().cut(tiny_model.tokenizer, "q?")
    company = read(tiny_model, prompt, [], room=3)._batch
    alone = read_public_row(tiny_model, prompt, room=3)._batch
    assert company.shares_passes(company)
    assert not company.shares_passes(alone)
    assert not alone.shares_passes(company)
    assert not alone.shares_passes(alone)


def test_the_bare_model_is_asked_after_one_text_and_another(tiny_model):
    """Experts hear a question in two ways: each sentence is judged after what it answers."""
    prompt = PromptTemplate().cut(tiny_model.tokenizer, "q?")
    texts = [prompt.suffix[:2], prompt.suffix, (*prompt.suffix, 74), prompt.suffix[:3]]
    bare = BareModel(tiny_model, prompt, 9)
    for before in texts:
        fresh = BareModel(tiny_model, prompt, 9)
        assert bare.log_prob(before, TOKENS) == fresh.log_prob(before, TOKENS)
