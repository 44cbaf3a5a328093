"""Products and activations whose bits depend on one row alone, not on the rows beside it.

A matrix product adds in an order that follows from the shapes alone, never from the numbers. In
ordinary batches the shape follows from how many documents there are and how long they are, so one
document's arrival moves the last bits of all others. Here the rows of a product go through it in
tiles of public sizes, filled up with zeros: a row's bits then depend on the row.

Some operations look at where a number stands: torch computes SiLU, GELU, sigmoid and softplus by
vectors, and by another formula for what is left at the end of a thread's share. They are replaced
by formulas of operations that do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from dpicl_rag.errors import ModelError

Product = Callable[[torch.Tensor], torch.Tensor]

_BLOCK = 1 << 16  # numbers whose activation is computed at a time

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class NotInvariantError(ModelError):
    """Rows of this model cannot share a pass without moving each other's bits."""

    def __init__(self) -> None:
        super().__init__("rows of this model cannot share a pass; this is a fault of the library")


class Tiles(TorchFunctionMode):
    """Runs what is inside in tiles; other threads and the modules themselves are not touched.

    Args:
        wide: Whether a row has several new tokens (documents, questions). Public; tiles are
            larger then.
    """

    def __init__(self, wide: bool) -> None:
        super().__init__()
        self._wide = wide

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        replacement = _REPLACEMENTS.get(func)
        if replacement is not None:
            found = replacement(self._wide, *args, **kwargs)
            if found is not None:
                return found
        return func(*args, **kwargs)


def _linear(
    wide: bool, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor | None:
    """``F.linear``."""
    if type(weight) not in _PLAIN or weight.dim() != 2:
        return None  # quantised weights bring products of their own; the probe judges them
    return _by_rows(wide, input, weight.t(), bias)


def _matmul(wide: bool, input: torch.Tensor, other: torch.Tensor) -> torch.Tensor | None:
    """``input @ other`` where ``other`` is one matrix for all rows."""
    if type(other) not in _PLAIN or other.dim() != 2 or input.dim() < 2:
        return None
    return _by_rows(wide, input, other, None)


def _addmm(
    wide: bool, bias: torch.Tensor, input: torch.Tensor, other: torch.Tensor, **scales: float
) -> torch.Tensor | None:
    """``torch.addmm``, as GPT-2's layers call it."""
    if scales or type(other) not in _PLAIN or bias.dim() != 1:
        return None
    return _by_rows(wide, input, other, bias)


def _by_rows(
    wide: bool, input: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """``input @ matrix + bias``, the rows of ``input`` in tiles."""
    rows = input.reshape(-1, input.shape[-1])

    def product(part: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        if bias is None:
            return torch.mm(part, matrix, out=out)
        return torch.addmm(bias, part, matrix, out=out)

    with torch._C.DisableTorchFunction():
        sizes = _agreeing(
            wide,
            tuple(matrix.shape),
            matrix.stride(0) == 1,
            bias is not None,
            rows.dtype,
            rows.device,
            torch.get_num_threads(),
        )
        found = rows.new_empty(len(rows), matrix.shape[1])
        first = 0
        for size in cover(len(rows), sizes):
            part = rows[first : first + size]
            if len(part) == size and part.data_ptr() % 64 == 0:
                product(part, found[first : first + size])
            else:
                filled = rows.new_zeros(size, rows.shape[1])
                filled[: len(part)] = part
                found[first : first + size] = product(filled)[: len(part)]
            first += size
    return found.view(*input.shape[:-1], matrix.shape[1])


def cover(rows: int, sizes: Sequence[int]) -> Iterator[int]:
    """Tiles that hold ``rows`` rows.

    Args:
        rows: How many rows there are.
        sizes: Sizes that give a row the same bits, ascending.

    Yields:
        Sizes; only the last tile has room to spare.
    """
    while rows > 0:
        above = next((size for size in sizes if size >= rows), None)
        below = next((size for size in reversed(sizes) if size <= rows), None)
        # A tile that stays half empty is dearer than another tile.
        size = above if above is not None and (below is None or above <= 2 * rows) else below
        assert size is not None
        yield size
        rows -= size


def _sizes(wide: bool, device: torch.device) -> tuple[int, ...]:
    """Tile sizes to try, the one that the others must agree with first."""
    if device.type == "cpu":
        return (256, 64, 128, 512) if wide else (32, 16, 48, 128)
    # A step is bound by reading the weights up to some hundred rows, so padding is free.
    return (1024, 256, 2048) if wide else (128, 256)


@lru_cache(maxsize=4096)
def _agreeing(
    wide: bool,
    shape: tuple[int, int],
    transposed: bool,
    biased: bool,
    dtype: torch.dtype,
    device: torch.device,
    threads: int,
) -> tuple[int, ...]:
    """Tile sizes whose products give a row the same bits, tried on random numbers; ascending.

    The order of additions does not depend on values, so random ones show a different order almost
    surely. Public: follows from shapes and the machine.

    Raises:
        NotInvariantError: Already one size gives other bits at other places of a tile.
    """
    first, *others = _sizes(wide, device)
    generator = torch.Generator().manual_seed(0)

    def random(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes).uniform_(-1, 1, generator=generator).to(dtype)

    # Every term comes once more with the other sign, at a random place: what is left of a sum is
    # its rounding alone, which shows in 16 bits too. Else the last rounding would hide the order.
    inner, outer = shape
    half = inner // 2
    places = torch.randperm(inner, generator=generator)
    columns = random(outer, inner)
    columns[:, places[half : 2 * half]] = columns[:, places[:half]]
    rows = random(max(first, *others), inner)  # a multiple of the first size
    rows[:, places[half : 2 * half]] = -rows[:, places[:half]]
    if inner % 2:
        rows[:, places[-1]] = 0
    rows, columns = rows.to(device), columns.to(device)
    matrix = columns.t() if transposed else columns.t().contiguous()
    bias = torch.zeros(outer, dtype=dtype, device=device) if biased else None

    def product(part: torch.Tensor) -> torch.Tensor:
        return torch.mm(part, matrix) if bias is None else torch.addmm(bias, part, matrix)

    wanted = torch.cat([product(part) for part in torch.split(rows, first)])

    def agrees(size: int) -> bool:
        """Whether the first tile's rows are as wanted, and are so in other places of the tile."""
        part, expected = rows[:size], wanted[:size]
        return all(
            torch.equal(product(part.roll(places, 0)).roll(-places, 0), expected)
            for places in (0, 1)
        )

    if not agrees(first):
        raise NotInvariantError
    return tuple(sorted([first, *filter(agrees, others)]))


def _silu(_: bool, input: torch.Tensor, inplace: bool = False) -> torch.Tensor | None:
    return _by_blocks(input, lambda x: x / x.neg().exp_().add_(1))


def _sigmoid(_: bool, input: torch.Tensor) -> torch.Tensor | None:
    return _by_blocks(input, lambda x: x.neg().exp_().add_(1).reciprocal_())


def _gelu(_: bool, input: torch.Tensor, approximate: str = "none") -> torch.Tensor | None:
    if approximate == "tanh":
        scale = math.sqrt(2 / math.pi)
        return _by_blocks(
            input,
            lambda x: (
                (x * x).mul_(x).mul_(0.044715).add_(x).mul_(scale).tanh_().add_(1).mul_(x) * 0.5
            ),
        )
    return _by_blocks(input, lambda x: (x * math.sqrt(0.5)).erf_().add_(1).mul_(x).mul_(0.5))


def _softplus(
    _: bool, input: torch.Tensor, beta: float = 1.0, threshold: float = 20.0
) -> torch.Tensor | None:
    def formula(x: torch.Tensor) -> torch.Tensor:
        curved = (beta * x).clamp_(max=threshold).exp_().add_(1).log_().div_(beta)
        return torch.where(beta * x > threshold, x, curved)

    return _by_blocks(input, formula)


def _by_blocks(
    input: torch.Tensor, formula: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor | None:
    """In float32, whose operations were seen to be free of place, and back.

    A block stays in the processor's cache from one operation to the next.
    """
    if input.device.type != "cpu":
        return None  # an accelerator computes every number by itself
    with torch._C.DisableTorchFunction():
        found = torch.empty_like(input, memory_format=torch.contiguous_format)
        blocks = torch.split(found.view(-1), _BLOCK)
        for part, into in zip(torch.split(input.reshape(-1), _BLOCK), blocks, strict=True):
            into.copy_(formula(part.float()))
        return found


_REPLACEMENTS: dict[Any, Callable[..., torch.Tensor | None]] = {
    functional.linear: _linear,
    torch.addmm: _addmm,
    torch.matmul: _matmul,
    torch.mm: _matmul,
    torch.Tensor.matmul: _matmul,
    torch.Tensor.__matmul__: _matmul,
    functional.silu: _silu,
    functional.gelu: _gelu,
    functional.softplus: _softplus,
    functional.sigmoid: _sigmoid,
    torch.sigmoid: _sigmoid,
    torch.Tensor.sigmoid: _sigmoid,
}
