import threading

import pytest
import torch

from dpicl_rag.errors import ModelError
from dpicl_rag.language_models import packed_rows
from dpicl_rag.language_models.attention import (
    IMPLEMENTATION,
    Attended,
    Pattern,
    SlotGroup,
    Stepping,
    own_attention,
    row_attention,
)
from dpicl_rag.language_models.key_value_cache import KeyValueCache
from dpicl_rag.language_models.tiles import NotInvariantError
from tests.support.tiny_model import build_tiny_model


class Layer(torch.nn.Module):
    layer_idx = 0
    num_key_value_groups = 3


def causal(batch, head, query, key):
    return key <= query


def window(batch, head, query, key):
    return (key <= query) & (key > query - 5)


def plain(query, keys, values, mask, softcap, sinks):
    """Softmax over everything a query may see, head by head."""
    groups = len(query) // len(keys)
    keys, values = (x.repeat_interleave(groups, dim=0) for x in (keys, values))
    scores = query @ keys.transpose(1, 2) * query.shape[-1] ** -0.5
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        column = sinks[:, None, None].expand(-1, scores.shape[1], 1)
        scores = torch.cat([scores, column], dim=-1)
    return (torch.softmax(scores, -1)[..., : mask.shape[-1]] @ values).transpose(0, 1)


@pytest.mark.parametrize("width", [1, 4, 70])
@pytest.mark.parametrize("shared", [0, 7])
@pytest.mark.parametrize("mask_function", [causal, window])
@pytest.mark.parametrize(("softcap", "sinks"), [(None, False), (3.0, False), (None, True)])
def test_a_step_is_attention_over_what_every_row_holds(
    width, shared, mask_function, softcap, sinks
):
    generator = torch.Generator().manual_seed(0)

    def random(*sizes):
        return torch.randn(*sizes, generator=generator, dtype=torch.float64)

    heads, size, used, lengths = 2, 8, 3, (6, 2, 5)
    prefix = (random(heads, shared, size), random(heads, shared, size))
    caches = [KeyValueCache(1, 6, used + width), KeyValueCache(2, 6, used + width)]
    starts = torch.tensor([6 - length for length in lengths])
    parts = [
        SlotGroup(slice(0, 1), caches[0], slice(0, 1), starts[:1]),
        SlotGroup(slice(1, 3), caches[1], slice(0, 2), starts[1:]),
    ]
    own = [
        (random(heads, n + used + width, size), random(heads, n + used + width, size))
        for n in lengths
    ]
    for row, (keys, values) in enumerate(own):
        cache, place = (caches[0], 0) if row == 0 else (caches[1], row - 1)
        slots = slice(6 - lengths[row], 6 + used)
        cache.place(
            slice(place, place + 1), slots, 0, keys[None, :, :-width], values[None, :, :-width]
        )
    query = random(3, heads * 3, width, size)
    new = [torch.stack([pair[i][:, -width:] for pair in own]) for i in (0, 1)]
    step = Stepping([prefix] if shared else [], parts, used, width)
    step.store(0, *new)
    options = {"softcap": softcap, "s_aux": random(heads * 3) if sinks else None}
    found = step.attend(Attended(Layer(), query, *new, Pattern(mask_function), options))
    for row, (keys, values) in enumerate(own):
        whole = [torch.cat(pair, dim=1) for pair in zip(prefix, (keys, values), strict=True)]
        at = torch.arange(whole[0].shape[1])
        mask = mask_function(0, 0, at[-width:, None], at[None])
        expected = plain(query[row], *whole, mask, softcap, options["s_aux"])
        assert torch.allclose(found[row], expected, atol=1e-5)  # softmax is taken in float32


def test_the_model_is_the_same_for_its_other_users():
    model = build_tiny_model()
    inner = model._model
    ids = torch.randint(0, 250, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        before = inner(ids).logits
        rows = model.read([1, 2], [(3,), (4, 5)], room=9)
        rows.extend([6])
        after = inner(ids).logits
        with row_attention(inner):  # as when another thread is in the middle of a pass
            assert inner.config._attn_implementation == IMPLEMENTATION
            meanwhile = inner(ids).logits
    assert inner.config._attn_implementation == "sdpa"
    assert torch.equal(before, after)
    assert torch.allclose(before, meanwhile, atol=1e-5)


def test_a_model_with_its_own_attention_keeps_no_other_waiting():
    models = [build_tiny_model()._model, build_tiny_model(seed=3)._model]
    entered = threading.Event()

    def other():
        with row_attention(models[1]):
            entered.set()

    with own_attention(models[0]):
        thread = threading.Thread(target=other)
        thread.start()
        found = entered.wait(10.0)
    thread.join()
    assert found


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_whoever_loaded_the_model_may_have_chosen_an_attention(implementation):
    expected = build_tiny_model().read([1, 2, 3], [(4,), (5, 6)], room=4).extend([7]).rows
    other = build_tiny_model(attn_implementation=implementation)
    found = other.read([1, 2, 3], [(4,), (5, 6)], room=4).extend([7]).rows
    assert torch.allclose(found, expected, atol=1e-5)
    assert other._model.config._attn_implementation == implementation


def test_rows_whose_beginning_got_lost_draw_nothing(monkeypatch):
    """A layer that takes no part in a pass."""
    model = build_tiny_model()
    rows = model.read([1, 2, 3], [(4,), (5, 6)], room=4)
    layer = model._model.model.layers[1].self_attn
    monkeypatch.setattr(layer, "forward", lambda hidden_states, **_: (hidden_states, None))
    with pytest.raises(NotInvariantError):
        rows.extend([7])
    assert issubclass(NotInvariantError, ModelError)
    assert not build_and_break(monkeypatch).shares_passes()


def build_and_break(monkeypatch):
    model = build_tiny_model(seed=3)
    layer = model._model.model.layers[1].self_attn
    monkeypatch.setattr(layer, "forward", lambda hidden_states, **_: (hidden_states, None))
    return model


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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("error", ERRORS)
def test_short_memory_shrinks_the_pass_and_goes_on(error):
    documents = [(n, n + 1, n + 2) for n in range(9)]
    plain = build_tiny_model()
    expected = plain.read([1, 2], documents, room=4)
    model = build_tiny_model()
    assert model.shares_passes()
    model._model = short = ShortOfMemory(model._model, 2, error)
    rows = model.read([1, 2], documents, room=4)
    for step in ([7, 8], [9]):
        assert torch.equal(rows.extend(step).rows, expected.extend(step).rows)
    assert short.refused < 12  # a smaller pass is remembered
    assert rows._batch._passes.tokens < packed_rows._PASS_TOKENS


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
    assert model.shares_passes()
    model._model = ShortOfMemory(model._model, 0, RuntimeError("something else"))
    with pytest.raises(RuntimeError, match="something else"):
        model.read([], [(1, 2), (3,)], room=4).extend([5])
