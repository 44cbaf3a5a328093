import pytest
import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models import packed_rows
from tests.support.tiny_model import build_tiny_model

DOCUMENTS = ["abc", "a longer document than the others", "x"]


def reference(model, ids):
    with torch.inference_mode():
        return torch.log_softmax(model._model(torch.tensor([ids])).logits[0, -1].float(), -1)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("head", ["a public prefix: ", ""])
@pytest.mark.parametrize("pass_tokens", [16, 2048])
@pytest.mark.parametrize("heads", [2, 4])
def test_every_row_equals_its_own_forward_pass(monkeypatch, head, pass_tokens, heads):
    monkeypatch.setattr(packed_rows, "_PASS_TOKENS", pass_tokens)
    model = build_tiny_model(num_key_value_heads=heads)
    common = model.tokenizer.encode(head)
    documents = [model.digest([text], 99) for text in DOCUMENTS]
    suffix = model.tokenizer.encode(" and the question?")
    rows = model.read(common, documents, room=40)
    first = rows.extend(suffix).rows
    second = rows.extend([7]).rows
    for row, document in enumerate(documents):
        ids = [*common, *document, *suffix]
        assert torch.allclose(first[row], reference(model, ids), atol=1e-5)
        assert torch.allclose(second[row], reference(model, [*ids, 7]), atol=1e-5)


def test_scoring_a_continuation_leaves_the_rows_as_they_were(tiny_model):
    documents = [tiny_model.digest([text], 99) for text in DOCUMENTS]
    suffix = tiny_model.tokenizer.encode("?")
    rows = tiny_model.read([], documents, room=20)
    rows.extend(suffix)
    scores = rows.score([[5], [6, 7, 8]]).rows
    for row, document in enumerate(documents):
        ids = [*document, *suffix]
        one = reference(tiny_model, ids)[5]
        three = (
            reference(tiny_model, ids)[6]
            + reference(tiny_model, [*ids, 6])[7]
            + reference(tiny_model, [*ids, 6, 7])[8]
        )
        expected = torch.stack([one, three])
        normalised = torch.log_softmax(expected, dim=0)
        assert scores[row].tolist() == pytest.approx(normalised.tolist(), abs=1e-4)
    after = rows.extend([9])
    expected = reference(tiny_model, [*documents[0], *suffix, 9])
    assert torch.allclose(after.public, expected, atol=1e-5)


def test_a_sliding_window_model_is_read_without_gaps():
    from transformers import MistralConfig, MistralForCausalLM

    from dpicl_rag.language_models.transformers import TransformersModel
    from tests.support.tiny_model import build_tiny_tokenizer

    tokenizer = build_tiny_tokenizer()
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=8,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    model = TransformersModel(MistralForCausalLM(config), tokenizer)
    common = model.tokenizer.encode("a public prefix")
    documents = [model.digest([text], 99) for text in DOCUMENTS]
    rows = model.read(common, documents, room=30)
    found = rows.extend(model.tokenizer.encode(" question?")).rows
    for row, document in enumerate(documents):
        ids = [*common, *document, *model.tokenizer.encode(" question?")]
        assert torch.allclose(found[row], reference(model, ids), atol=1e-5)


def test_a_model_with_learned_positions_works():
    from transformers import GPT2Config, GPT2LMHeadModel

    from dpicl_rag.language_models.transformers import TransformersModel
    from tests.support.tiny_model import build_tiny_tokenizer

    tokenizer = build_tiny_tokenizer(chat=False)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = TransformersModel(GPT2LMHeadModel(config), tokenizer)
    documents = [model.digest([text], 99) for text in DOCUMENTS]
    rows = model.read(model.tokenizer.encode("head "), documents, room=10)
    found = rows.extend(model.tokenizer.encode("?")).rows
    for row, document in enumerate(documents):
        ids = [*model.tokenizer.encode("head "), *document, *model.tokenizer.encode("?")]
        assert torch.allclose(found[row], reference(model, ids), atol=1e-5)


def test_more_tokens_than_room_or_context_are_refused(tiny_model):
    rows = tiny_model.read([], [(1, 2)], room=2)
    with pytest.raises(ContextLengthError):
        rows.extend([1, 2, 3])
    with pytest.raises(ContextLengthError, match="2048"):
        tiny_model.read([1] * 2000, [(1,) * 60], room=0)


def test_an_empty_row_and_scoring_too_early_are_refused(tiny_model):
    with pytest.raises(ConfigurationError):
        tiny_model.read([1], [()], room=1)
    with pytest.raises(ConfigurationError):
        tiny_model.read([1], [(1,)], room=1).score([[1]])


@pytest.mark.parametrize("pass_tokens", [4, 2048])
def test_progress_tells_every_tenth_once_whatever_the_passes(tiny_model, monkeypatch, pass_tokens):
    monkeypatch.setattr(packed_rows, "_PASS_TOKENS", pass_tokens)
    seen = []
    tiny_model.read([], [(1, 2), (3,), (4, 5, 6)], room=1, on_progress=lambda *at: seen.append(at))
    assert seen == [(tenth / 10, 1.0) for tenth in range(1, 11)]


def test_without_experts_a_step_has_none(tiny_model):
    rows = tiny_model.read([1], [(2, 3)], room=9)
    step = rows.extend([4])
    assert step.experts.shape == (0, len(step.public))
    assert rows.score([[5], [6, 7]]).experts.shape == (0, 2)


def test_a_block_is_what_its_tokens_are_one_by_one(tiny_model):
    inputs = [tiny_model.digest([text], 99) for text in DOCUMENTS]
    rows = tiny_model.read([1, 2], inputs, room=9)
    rows.extend([3])
    block = rows.extend_each([4, 5, 6], keep=2)
    rows.rewind(3)
    for token, found in zip([4, 5, 6], [None, *block], strict=True):
        step = rows.extend([token])
        if found is not None:
            assert torch.allclose(step.rows, found.rows, atol=1e-5)


def test_a_fork_goes_on_by_itself(tiny_model):
    inputs = [tiny_model.digest([text], 99) for text in DOCUMENTS]
    rows = tiny_model.read([1, 2], inputs, room=9)
    rows.extend([3])
    fork = rows.fork()
    fork.extend([4, 5])
    found = fork.extend([6]).rows
    expected = tiny_model.read([1, 2], inputs, room=9).extend([3, 4, 5, 6]).rows
    assert torch.allclose(found, expected, atol=1e-5)
    expected = tiny_model.read([1, 2], inputs, room=9).extend([3, 7]).rows
    assert torch.allclose(rows.extend([7]).rows, expected, atol=1e-5)


def test_a_step_tells_nothing_of_its_rows(tiny_model):
    assert repr(tiny_model.read([1], [(2,), (3,)], room=2).extend([4])) == "DenseStep(<private>)"
