import pytest
import torch

from dpicl_rag.errors import ModelError
from dpicl_rag.language_models import rows as rows_module
from dpicl_rag.language_models import shared_prefix
from dpicl_rag.language_models.shared_prefix import SharedPrefix
from tests.support.tiny_model import build_tiny_model


class Layer(torch.nn.Module):
    layer_idx = 0
    num_key_value_groups = 3


def plain(query, key, value, mask):
    """Softmax over everything a query may see, head by head."""
    groups = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    return (torch.softmax(scores.masked_fill(~mask, -torch.inf), -1) @ value).transpose(1, 2)


@pytest.mark.parametrize("width", [1, 4, 70])
def test_it_is_attention_over_both_parts(width):
    generator = torch.Generator().manual_seed(0)

    def random(*sizes):
        return torch.randn(*sizes, generator=generator, dtype=torch.float64)

    rows, heads, size, shared, slots = 5, 2, 8, 7, 6
    query = random(rows, heads * 3, width, size)
    key, value = random(rows, heads, slots, size), random(rows, heads, slots, size)
    head = (random(heads, shared, size), random(heads, shared, size))
    mask = torch.rand(rows, 1, width, slots, generator=generator) < 0.6
    found, _ = shared_prefix.attention(
        Layer(), query, key, value, mask, shared_prefix=SharedPrefix([head])
    )
    whole = [
        torch.cat([one.expand(rows, -1, -1, -1), own], dim=2)
        for one, own in zip(head, (key, value), strict=True)
    ]
    seen = torch.cat([torch.ones(rows, 1, width, shared, dtype=torch.bool), mask], dim=3)
    assert torch.allclose(found, plain(query, *whole, seen), atol=1e-6)
    nothing_hidden, _ = shared_prefix.attention(
        Layer(), query, key, value, None, shared_prefix=SharedPrefix([head])
    )
    assert torch.allclose(nothing_hidden, plain(query, *whole, torch.ones_like(seen)), atol=1e-6)


def test_the_model_answers_others_as_before():
    model = build_tiny_model()._model
    ids = torch.randint(0, 250, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[0, 0] + [1] * 7, [1] * 9])
    with torch.inference_mode():
        ours = model(ids, attention_mask=mask).logits[:, -1]
        generated = model.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False)
        model.set_attn_implementation("sdpa")
        stock = model(ids, attention_mask=mask).logits[:, -1]
        expected = model.generate(ids, attention_mask=mask, max_new_tokens=5, do_sample=False)
    assert torch.allclose(ours, stock, atol=1e-5)
    assert torch.equal(generated, expected)


def test_a_model_that_cannot_share_reads_the_prefix_in_every_row(monkeypatch):
    expected = build_tiny_model().read([1, 2, 3], [(4,), (5, 6)], room=4).extend([7]).rows
    # Layers that do not hand the prefix on.
    model = build_tiny_model()
    model._model.set_attn_implementation("sdpa")
    assert model._shares
    found = model.read([1, 2, 3], [(4,), (5, 6)], room=4).extend([7]).rows
    assert not model._shares
    assert torch.allclose(found, expected, atol=1e-5)
    # Another attention was chosen by whoever loaded it.
    eager = build_tiny_model(attn_implementation="eager")
    assert not eager._shares
    assert torch.allclose(
        eager.read([1, 2, 3], [(4,), (5, 6)], room=4).extend([7]).rows, expected, atol=1e-5
    )


def test_rows_whose_prefix_got_lost_draw_nothing():
    model = build_tiny_model()
    rows = model.read([1, 2, 3], [(4,), (5, 6)], room=4)
    model._model.set_attn_implementation("sdpa")
    with pytest.raises(ModelError):
        rows.extend([7])


class ShortOfMemory:
    """A model that can take a few rows at once only."""

    def __init__(self, model, rows, error):
        self.model, self.rows, self.error, self.refused = model, rows, error, 0

    def __getattr__(self, name):
        return getattr(self.model, name)

    def __call__(self, input_ids, **options):
        if len(input_ids) > self.rows:
            self.refused += 1
            raise self.error
        return self.model(input_ids=input_ids, **options)


ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 4471 MiB"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4471 bytes."),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4471 bytes."),
]


@pytest.mark.parametrize("error", ERRORS)
def test_short_memory_shrinks_the_pass_and_goes_on(error):
    documents = [(n, n + 1, n + 2) for n in range(9)]
    plain = build_tiny_model()
    expected = plain.read([1, 2], documents, room=4)
    model = build_tiny_model()
    model._model = short = ShortOfMemory(model._model, 2, error)
    rows = model.read([1, 2], documents, room=4)
    for step in ([7, 8], [9]):
        assert torch.allclose(rows.extend(step).rows, expected.extend(step).rows, atol=1e-5)
    assert short.refused < 12  # a smaller pass is remembered
    assert rows._batches[1]._passes.tokens < rows_module._PASS_TOKENS


@pytest.mark.parametrize("error", ERRORS)
def test_no_memory_for_one_row_is_one_clear_error(error):
    model = build_tiny_model()
    model._model = ShortOfMemory(model._model, 0, error)
    with pytest.raises(ModelError, match="not enough memory") as caught:
        model.read([], [(1, 2), (3,)], room=4)
    assert "4471" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_another_error_is_not_taken_for_it():
    model = build_tiny_model()
    model._model = ShortOfMemory(model._model, 0, RuntimeError("something else"))
    with pytest.raises(RuntimeError, match="something else"):
        model.read([], [(1, 2), (3,)], room=4)
