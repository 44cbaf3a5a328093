"""Products and activations say what torch says, and the same bits at every place."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from dpicl_rag.language_models import tiles
from dpicl_rag.language_models.hardware import ProbeResults, modes
from dpicl_rag.language_models.tiles import NotInvariantError, Tiles, cover

DTYPES = [torch.float32, torch.bfloat16]
CPU = torch.device("cpu")


@given(st.integers(0, 2000), st.sets(st.sampled_from([16, 32, 48, 64, 128, 256, 512]), min_size=1))
def test_tiles_hold_all_rows_and_little_more(rows, sizes):
    found = list(cover(rows, sorted(sizes)))
    assert sum(found) >= rows
    assert set(found) <= sizes
    if found:
        assert sum(found[:-1]) < rows  # only the last one has room to spare


def functions(dtype):
    generator = torch.Generator().manual_seed(0)

    def random(*sizes):
        return torch.randn(*sizes, generator=generator).to(dtype)

    weight, bias = random(96, 200), random(96)
    return {
        "linear": lambda x: functional.linear(x, weight),
        "linear with bias": lambda x: functional.linear(x, weight, bias),
        "matmul": lambda x: x @ weight.t(),
        "addmm": lambda x: torch.addmm(bias, x, weight.t()),
        "silu": functional.silu,
        "gelu": functional.gelu,
        "gelu tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "sigmoid": torch.sigmoid,
        "softplus": functional.softplus,
        "mish": functional.mish,
        "elu": functional.elu,
    }


NAMES = list(functions(torch.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_torch_gives(name, wide, dtype):
    function = functions(dtype)[name]
    x = torch.randn(70, 200, generator=torch.Generator().manual_seed(1)).to(dtype) * 4
    expected = function(x)
    with Tiles(wide):
        found = function(x)
    assert found.dtype == dtype
    assert found.shape == expected.shape
    tolerance = 1e-4 if dtype == torch.float32 else 0.3 if "l" in name[:2] else 0.05
    assert torch.allclose(found.float(), expected.float(), atol=tolerance, rtol=0.02)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threads", [1, 3, 5])
def test_a_row_has_the_same_bits_at_every_place(name, dtype, threads):
    function = functions(dtype)[name]
    generator = torch.Generator().manual_seed(2)
    row = torch.randn(1, 200, generator=generator).to(dtype)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with Tiles(False):
            expected = function(row)
            for count in (1, 15, 33, 100, 701):
                company = torch.randn(count, 200, generator=generator).to(dtype)
                for place in {0, 1, count // 2, count}:
                    whole = torch.cat([company[:place], row, company[place:]])
                    assert torch.equal(function(whole)[place : place + 1], expected)
    finally:
        torch.set_num_threads(before)


def test_extreme_numbers_stay_numbers():
    x = torch.tensor([-1e30, -200.0, 0.0, 200.0, 1e4, torch.inf])
    with Tiles(False):
        assert functional.silu(x)[1:].tolist() == functional.silu(x)[1:].tolist()
        for function in (torch.sigmoid, functional.gelu, functional.silu):
            assert not function(x[:-1]).isnan().any()
        assert functional.softplus(x).tolist()[-2:] == [1e4, torch.inf]


def test_a_thread_beside_it_is_not_touched():
    import threading

    x, weight = torch.randn(3, 8), torch.randn(4, 8)
    seen = []
    with Tiles(False):
        thread = threading.Thread(
            target=lambda: seen.append(torch.overrides._get_current_function_mode_stack())
        )
        thread.start()
        thread.join()
        functional.linear(x, weight)
    assert seen == [[]]


def test_a_size_whose_rows_move_is_not_used(monkeypatch):
    """Products that look at the number of rows, as other machines have them."""
    honest = torch.mm

    def moving(rows, matrix, **options):
        found = honest(rows, matrix, **options)
        return found * (1 + 2**-23) if len(rows) == 48 else found

    monkeypatch.setattr(torch, "mm", moving)
    assert 48 not in tiles._try_sizes(False, (40, 56), True, False, torch.float32, CPU)


def test_sizes_are_tried_once_on_a_machine(tmp_path, monkeypatch):
    honest, tried = tiles._try_sizes, []
    monkeypatch.setattr(tiles, "on_this_machine", lambda: ProbeResults(tmp_path))
    monkeypatch.setattr(tiles, "_try_sizes", lambda *asked: tried.append(asked) or honest(*asked))
    first = False, (40, 56), True, False, torch.float32, CPU, modes()
    others = [
        (True, *first[1:]),
        (False, (56, 40), *first[2:]),
        (*first[:2], False, *first[3:]),
        (*first[:3], True, *first[4:]),
        (*first[:4], torch.bfloat16, *first[5:]),
        (*first[:6], "other modes"),
    ]
    for number, asked in enumerate([first, *others], 1):
        found = tiles._agreeing.__wrapped__(*asked)
        assert len(tried) == number
        assert tiles._agreeing.__wrapped__(*asked) == found == honest(*asked[:6])
        assert len(tried) == number
    monkeypatch.setattr(tiles, "machine", lambda device: "another machine")
    tiles._agreeing.__wrapped__(*first)
    assert len(tried) == len(others) + 2


def test_a_product_that_looks_at_places_is_refused(monkeypatch):
    honest = torch.mm

    def by_place(rows, matrix, **options):
        found = honest(rows, matrix, **options)
        found[0] *= 1 + 2**-23
        return found

    monkeypatch.setattr(torch, "mm", by_place)
    with pytest.raises(NotInvariantError):
        tiles._try_sizes(False, (40, 56), True, False, torch.float32, CPU)


def test_what_16_bits_hide_in_ordinary_numbers_shows_in_what_cancels():
    """Another order of additions, at the size of float32 rounding, must show in bfloat16."""
    seen = []
    honest = torch.mm

    def recorded(rows, matrix, **options):
        seen.append(honest(rows, matrix, **options))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "mm", recorded)
        tiles._try_sizes(False, (384, 56), True, False, torch.bfloat16, CPU)
    largest = max(float(product.abs().max()) for product in seen)
    assert 0 < largest < 1e-3  # ordinary sums of 384 numbers are about 7


@pytest.mark.parametrize("threads", [3, 4, 5])
def test_gelu_is_given_to_one_thread_in_blocks_that_torch_does_not_divide(threads, monkeypatch):
    """torch divides it from 16,384 numbers on: a share then ends inside a vector."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    tanh = (("approximate", "tanh"),)
    try:
        numbers = torch.randn(23_360, generator=torch.Generator().manual_seed(1)) * 2
        with Tiles(True):
            found = functional.gelu(numbers, approximate="tanh")
            parts = [functional.gelu(part, approximate="tanh") for part in numbers.split(64)]
        assert torch.equal(found, torch.cat(parts))
        assert tiles._keeps_bits(functional.gelu, (), tanh, torch.float32, "as it is")
        if threads == 4:
            return  # where vectors are short, a fourth of a larger block is whole vectors too
        monkeypatch.setattr(tiles, "_BLOCK", 1 << 15)
        assert not tiles._keeps_bits(functional.gelu, (), tanh, torch.float32, "planted")
    finally:
        torch.set_num_threads(before)
        tiles._keeps_bits.cache_clear()
