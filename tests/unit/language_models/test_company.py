"""A row is a function of its own unit, bit for bit, whatever stands beside it.

The model is wide enough for the blocked kernels of matrix products, whose bits move with shapes.
"""

import random

import pytest
import torch

from dpicl_rag.language_models import packed_rows, probe, tiles
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from tests.support.tiny_model import build_tiny_model, build_tiny_tokenizer

PREFIX, PUBLIC = tuple(range(40, 57)), (3, 4, 5, 6, 7)
COMPOSITIONS = [pytest.param(6, marks=pytest.mark.guard), 34]
"""For each dtype and number of threads: 36, and 204 where time is no matter. Faults of
`tests/faults/language_models.toml` show in the six of one."""
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]
DTYPES = [torch.float32, torch.bfloat16]


@pytest.fixture(params=[1, 2, 4])
def threads(request):
    """How many threads torch computes with."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def build(dtype, device="cpu"):
    model = build_tiny_model(
        hidden_size=192, intermediate_size=576, num_attention_heads=6, num_key_value_heads=2
    )
    return TransformersModel(model._model.to(dtype).to(device), build_tiny_tokenizer())


def document(coins, longest=None):
    longest = longest or coins.choice([5, 5, 30, 30, 70, 250])
    return tuple(coins.randrange(200) for _ in range(coins.randint(1, longest)))


def everything(model, inputs):
    """Rows [steps, rows, candidates] of an answer, of a block and of labels."""
    rows = model.read(PREFIX, [PUBLIC, *inputs], room=24)
    found = [rows.extend(range(10, 20)).rows, rows.extend([12]).rows]
    found += [step.rows for step in rows.extend_each([13, 14, 15], keep=3)]
    rows.rewind(2)
    found.append(rows.extend([15]).rows)
    scored = rows.score([[16], [17, 18]]).rows
    return torch.stack(found).cpu(), scored.cpu()


def rows_that_moved(model, coins, compositions, cached=False):
    """How many rows differ, in some bit, from what they are alone."""
    known = [document(coins, longest) for longest in (5, 30, 70, 250)]
    alone = {own: everything(model, [own]) for own in known}
    if cached:
        model = model.with_cache(PrefixCache())
    moved = 0
    for _ in range(compositions):
        inputs = [document(coins) for _ in range(coins.choice([0, 1, 2, 5, 15, 32, 64]))]
        inputs += coins.sample(known, coins.randint(1, len(known)))
        coins.shuffle(inputs)
        for _ in range(1 + cached):  # as they are read, and as they were kept
            for found, kind in zip(everything(model, inputs), range(2), strict=True):
                for place, own in enumerate(inputs):
                    if own in alone:
                        pairs = (0, 0), (1 + place, 1)
                        moved += sum(
                            not torch.equal(found[..., row, :], alone[own][kind][..., expected, :])
                            for row, expected in pairs
                        )
    return moved


@pytest.mark.one_in(10)
@pytest.mark.heavy
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("compositions", COMPOSITIONS)
def test_a_row_keeps_every_bit_in_any_company(threads, dtype, device, compositions, monkeypatch):
    model = build(dtype, device)
    passes_the_probe = model.shares_passes()
    # It hides no fault here.
    monkeypatch.setattr(TransformersModel, "shares_passes", lambda self: True)
    coins = random.Random(threads)
    assert rows_that_moved(model, coins, compositions // 2) == 0
    assert rows_that_moved(model, coins, compositions // 2, cached=True) == 0
    assert passes_the_probe


@pytest.mark.heavy  # on a processor that has no instructions of 16 bits
@pytest.mark.guard
@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_that_favours_its_own_words_keeps_every_bit(dtype):
    assert rows_that_moved(build(dtype).copying(2.0), random.Random(0), 8, cached=True) == 0


@pytest.mark.heavy
@pytest.mark.guard
@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_that_is_read_alone_keeps_every_bit(dtype, monkeypatch):
    monkeypatch.setattr(TransformersModel, "shares_passes", lambda self: False)
    assert rows_that_moved(build(dtype), random.Random(0), 3, cached=True) == 0


# ---- planted faults: each must be seen here, and by the probe ----


def own_width(monkeypatch):
    """Own parts as wide as the longest document, as in a padded batch."""
    honest = packed_rows.PackedRows.__init__

    def padded(self, model, depth, prefix, inputs, *others):
        longest = max(map(len, inputs))
        with monkeypatch.context() as patch:
            patch.setattr(packed_rows, "_public_width", lambda tokens: longest)
            honest(self, model, depth, prefix, inputs, *others)

    monkeypatch.setattr(packed_rows.PackedRows, "__init__", padded)


def whole_products(monkeypatch):
    """Products over all tokens of a pass, without tiles."""
    monkeypatch.setattr(tiles, "cover", lambda rows, sizes: [rows])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fault", [own_width, whole_products])
def test_a_planted_fault_moves_rows_and_fails_the_probe(monkeypatch, fault):
    model = build(torch.float32)
    fault(monkeypatch)
    assert not model.shares_passes()
    monkeypatch.setattr(TransformersModel, "shares_passes", lambda self: True)
    assert rows_that_moved(model, random.Random(0), 8) > 0


@pytest.mark.heavy
def test_what_fails_the_probe_is_read_row_by_row(monkeypatch):
    whole_products(monkeypatch)
    assert rows_that_moved(build(torch.float32), random.Random(0), 3) == 0


def test_the_probe_sees_a_model_that_says_something_else():
    model = build(torch.float32)
    own = lambda prefix, inputs: model._read(  # noqa: E731
        packed_rows.PackedRows, prefix, inputs, probe.ROOM
    )
    uniform = torch.full((len(build_tiny_tokenizer()),), 1e-3).log()
    assert not probe.rows_are_their_own(own, lambda _: uniform, 200, 512)
