"""What a model of transformers makes of passages, and of what it is given."""

import pytest
import torch

from dpicl_rag.language_models.base import BlockRows
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer
from tests.support.tiny_model import build_tiny_model, build_tiny_tokenizer


def test_a_digest_keeps_the_best_passages_within_the_allowance(tiny_model):
    both = tiny_model.digest(["first", "second"], 100)
    assert both == tuple(tiny_model.tokenizer.encode("first\n\nsecond"))
    assert tiny_model.digest(["first", "second"], 8) == both[:8]
    assert tiny_model.digest([], 8) == ()
    assert tiny_model.digest([""], 8) == ()
    assert tiny_model.digest(["", "second"], 8) == tuple(tiny_model.tokenizer.encode("second"))


def test_half_a_character_is_a_question_mark(tiny_model):
    assert tiny_model.digest(["caf\udce9"], 9) == tiny_model.digest(["caf?"], 9)


def test_end_tokens_are_the_tokenizers_and_the_generation_configurations():
    class Generation:
        eos_token_id = (7, 9)

    tokenizer = build_tiny_tokenizer()
    own = tokenizer.eos_token_id
    assert HuggingFaceTokenizer(tokenizer).stop_tokens == {own}
    assert HuggingFaceTokenizer(tokenizer, Generation()).stop_tokens == {own, 7, 9}
    assert build_tiny_model().tokenizer.stop_tokens == {own}


def test_a_template_without_a_system_role_has_its_text_in_the_first_turn():
    raw = build_tiny_tokenizer()
    raw.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        + raw.chat_template
    )
    turns = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why?"}]
    found = HuggingFaceTokenizer(raw).chat(turns)
    assert found == "<|user|>Be short.\n\nWhy?<|assistant|>"


@pytest.mark.parametrize("kept", [False, True])
def test_a_loaded_model_is_taken_with_the_cache_that_was_given(kept):
    model = build_tiny_model().with_cache(PrefixCache()) if kept else build_tiny_model()
    cache = PrefixCache()
    assert load_language_model(model, cache).cache is cache
    assert (load_language_model(model).cache is model.cache) == kept
    pair = (model._model, build_tiny_tokenizer())
    assert load_language_model(pair, cache).fingerprint == model.fingerprint


def test_its_rows_can_be_read_in_blocks(tiny_model):
    rows = tiny_model.read([1, 2], [(3,), (4, 5)], room=9)
    assert isinstance(rows, BlockRows)
    assert torch.isfinite(rows.extend([6]).public).all()
