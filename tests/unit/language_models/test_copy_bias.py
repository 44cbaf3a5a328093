import math
import random
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from dpicl_rag import PrivateContextLLM
from dpicl_rag.auditing import RememberingModel, SyntheticModel
from dpicl_rag.auditing.remembering import OneReading
from dpicl_rag.language_models import copy_bias
from dpicl_rag.language_models.base import Copying
from dpicl_rag.language_models.copy_bias import CopyBias, copying
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer

DOCUMENTS = ["abc", "a longer document than the others", "x"]
CPU = torch.device("cpu")
WRAPPERS = [lambda model: model, RememberingModel, OneReading]


def inputs_of(model):
    return [model.digest([text], 99) for text in ("(none)", *DOCUMENTS)]


def rows_of(model, cache=None):
    model = model if cache is None else model.with_cache(cache)
    rows = model.read([1, 2, 3], inputs_of(model), room=9)
    return [rows.extend([7, 8]), rows.extend([9])]


def expected(row, own, bias):
    raised = row.double().clone()
    raised[sorted(set(own))] += bias
    return torch.log_softmax(raised, dim=-1)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("bias", [0.5, 2.0, 10.0])
def test_a_row_s_own_tokens_are_raised_and_the_row_is_normalised(tiny_model, bias, public):
    plain, biased = rows_of(tiny_model), rows_of(tiny_model.copying(bias, public=public))
    for before, after in zip(plain, biased, strict=True):
        assert torch.equal(after.public, before.public) != public
        first, ends = 0 if public else 1, tiny_model.tokenizer.stop_tokens
        own = inputs_of(tiny_model)[first:]
        for row, found, tokens in zip(before.rows[first:], after.rows[first:], own, strict=True):
            assert torch.allclose(found.double(), expected(row, [*tokens, *ends], bias), atol=1e-5)


def test_a_word_of_a_sentence_s_beginning_counts_inside_a_sentence_too():
    log_probs = torch.full((1, 1, 6), 1 / 6).log()
    CopyBias(math.log(2), [[4]], {4: 5, 5: 4}, [], CPU).apply(log_probs)
    assert log_probs.exp().flatten().tolist() == pytest.approx([1 / 8] * 4 + [1 / 4] * 2)


@pytest.mark.parametrize("space", ["\u0120", "\u2581", " "])
def test_spellings_differ_by_the_leading_space(space):
    pieces = ["<unk>", "sea", f"{space}sea", f"{space}land", "air", space]
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer = HuggingFaceTokenizer(PreTrainedTokenizerFast(tokenizer_object=made))
    assert tokenizer.other_spellings == {1: 2, 2: 1}


def test_a_certain_row_stays_one_and_no_distribution_stays_none():
    log_probs = torch.tensor([[[0.0, -math.inf]], [[math.nan, 0.0]], [[-math.inf, -math.inf]]])
    CopyBias(2.0, [[1], [1], [1]], {}, [], CPU).apply(log_probs)
    certain, unsound, impossible = log_probs
    assert certain.tolist() == [[0.0, -math.inf]]
    assert unsound.isnan().any()
    assert impossible.isneginf().all()


def test_a_block_is_what_its_tokens_are_one_by_one(tiny_model):
    model = tiny_model.copying(2.0)
    rows, inputs = model.read([1, 2], inputs_of(model), room=9), inputs_of(model)
    block = rows.extend_each([3, 4, 5], keep=2)
    single = model.read([1, 2], inputs, room=9)
    single.extend([3])
    for token, found in zip([4, 5], block, strict=True):
        assert torch.allclose(single.extend([token]).rows, found.rows, atol=1e-5)


def test_documents_that_were_read_without_a_bias_serve_with_one(tiny_model):
    cache = PrefixCache()
    plain = tiny_model.with_cache(cache)
    rows_of(plain)
    model = plain.copying(2.0)
    assert model.cache is cache
    assert model.fingerprint == plain.fingerprint
    fresh = rows_of(tiny_model.copying(2.0))
    for found, wanted in zip(rows_of(model), fresh, strict=True):
        assert torch.equal(found.rows, wanted.rows)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_model_that_is_audited_copies_as_the_model_does(tiny_model, wrap):
    audited = wrap(tiny_model)
    assert isinstance(audited, Copying)
    found, wanted = rows_of(audited.copying(2.0)), rows_of(tiny_model.copying(2.0))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one.rows, other.rows, atol=1e-5)


@pytest.mark.parametrize("wrap", WRAPPERS[1:])
def test_what_an_audit_has_read_is_kept_for_every_bias(tiny_model, wrap):
    audited = wrap(tiny_model)
    assert audited.copying(2.0) is audited.copying(2.0)
    assert audited.copying(1.0) is not audited.copying(2.0)
    assert audited.copying(2.0, public=True) is not audited.copying(2.0)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_model_that_cannot_is_read_as_it_is(wrap):
    model = wrap(SyntheticModel(8, lambda text, history: [1.0] * 8))
    assert copying(model, 2.0) is model


def test_a_bias_of_0_is_none(tiny_model):
    assert copying(tiny_model, 0.0) is tiny_model


def test_answers_are_drawn_with_the_setting_and_labels_without(tiny_model, monkeypatch):
    applied = []
    monkeypatch.setattr(
        CopyBias,
        "apply",
        lambda self, _: applied.append((self._bias, [own is not None for own in self._own])),
    )
    llm = PrivateContextLLM(tiny_model, max_tokens=2, copy_bias=1.5)
    llm.classify("q?", DOCUMENTS, ["a", "b"])
    llm.with_settings(copy_bias=0).answer("q?", DOCUMENTS)
    assert not applied
    llm.answer("q?", DOCUMENTS)
    assert all(found == (1.5, [False, True, True, True]) for found in applied)
    applied.clear()
    knowing = PrivateContextLLM(
        tiny_model, max_tokens=2, copy_bias=1.5, knowledge=SimpleNamespace(recall=lambda _: ["b"])
    )
    knowing.answer("q?", DOCUMENTS)
    assert (1.5, [True] * 4) in applied


# ---- bit for bit in any company ----


def apply_padded(self, log_probs):
    """All experts together, as wide as the longest of them: the order of additions moves."""
    width = max((len(own) for own in self._own), default=0)
    for row, own in zip(log_probs, self._own, strict=True):
        mass = torch.zeros(1 + width)
        mass[torch.linspace(0, width, len(own)).long()] = row[0][own].exp()
        row.sub_(mass.sum().mul(math.expm1(self._bias)).log1p())
        row[:, own] += self._bias


def moved(coins):
    """Whether some expert's row differs, in some bit, from what it is alone."""
    rows = torch.log_softmax(torch.randn(40, 1, 2000, generator=coins) * 3, dim=-1)
    draw = random.Random(0)
    inputs = [[draw.randrange(2000) for _ in range(draw.randint(1, 250))] for _ in rows]

    def applied(chosen):
        found = rows[chosen].clone()
        CopyBias(2.0, [inputs[row] for row in chosen], {}, [], CPU).apply(found)
        return found

    together = applied(list(range(len(rows))))
    return any(not torch.equal(applied([at])[0], together[at]) for at in range(len(rows)))


def test_no_bit_of_an_expert_follows_from_the_others():
    assert not moved(torch.Generator().manual_seed(0))


def test_a_sum_as_wide_as_the_longest_input_is_seen(monkeypatch):
    monkeypatch.setattr(copy_bias.CopyBias, "apply", apply_padded)
    assert moved(torch.Generator().manual_seed(0))
