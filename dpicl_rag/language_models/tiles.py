"""Products and activations whose bits depend on one row alone, not on the rows beside it.

A matrix product adds in an order that follows from the shapes alone, never from the numbers. In
ordinary batches the shape follows from how many documents there are and how long they are, so one
document's arrival moves the last bits of all others. Here the rows of a product go through it in
tiles of public sizes, filled up with zeros: a row's bits then depend on the row.

Activations torch computes by vectors, and by another formula for what is left at the end of a
thread's share. An arrival moves other rows to other places, and so across such an end. Here numbers
go in blocks that leave nothing over. Where a processor still looks at places, which is tried,
formulas of operations that do not take their part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from dpicl_rag.errors import ModelError
from dpicl_rag.language_models.hardware import machine, modes, on_this_machine

Function = Callable[..., torch.Tensor]

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_GRAIN = 1 << 15  # numbers of each thread at least, where torch shares out a tensor
_BLOCK = 1 << 14  # numbers that torch always gives to one thread; of GELU's no more
_MANY = 16  # times as many columns as rows: a matrix over a vocabulary
_VECTOR = 64  # numbers that divide into whole vectors, whatever the dtype


class NotInvariantError(ModelError):
    """Rows of this model cannot share a pass without moving each other's bits."""

    def __init__(self) -> None:
        super().__init__("rows of this model cannot share a pass here; please report the model")


class Tiles(TorchFunctionMode):
    """Runs what is inside in tiles; other threads and the modules themselves are not touched.

    Args:
        wide: Whether a row has several new tokens (documents, questions). Public; tiles are
            larger then.

    Attributes:
        wide: As above.
        modes: What decides bits beside shapes, as it was when this was made.
    """

    def __init__(self, wide: bool) -> None:
        super().__init__()
        self.wide = wide
        self.modes = modes()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        replacement = _REPLACEMENTS.get(func)
        if replacement is not None:
            found = replacement(self, *args, **kwargs)
            if found is not None:
                return found
        return func(*args, **kwargs)


def _linear(
    tiles: Tiles, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor | None:
    """``F.linear``."""
    if type(weight) not in _PLAIN or weight.dim() != 2:
        return None  # quantised weights bring products of their own; the probe judges them
    return _by_rows(tiles, input, weight.t(), bias)


def _matmul(tiles: Tiles, input: torch.Tensor, other: torch.Tensor) -> torch.Tensor | None:
    """``input @ other`` where ``other`` is one matrix for all rows."""
    if type(other) not in _PLAIN or other.dim() != 2 or input.dim() < 2:
        return None
    return _by_rows(tiles, input, other, None)


def _addmm(
    tiles: Tiles, bias: torch.Tensor, input: torch.Tensor, other: torch.Tensor, **scales: float
) -> torch.Tensor | None:
    """``torch.addmm``, as GPT-2's layers call it."""
    if scales or type(other) not in _PLAIN or bias.dim() != 1:
        return None
    return _by_rows(tiles, input, other, bias)


def _activation(
    function: Any, tiles: Tiles, input: torch.Tensor, *arguments: Any, **named: Any
) -> torch.Tensor | None:
    """An activation of ``FORMULAS``."""
    return activation(function, tiles.modes, input, *arguments, **named)


def _by_rows(
    tiles: Tiles, input: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """``input @ matrix + bias``, the rows of ``input`` in tiles."""
    rows = input.reshape(-1, input.shape[-1])

    def product(part: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        if bias is None:
            return torch.mm(part, matrix, out=out)
        return torch.addmm(bias, part, matrix, out=out)

    with torch._C.DisableTorchFunction():
        sizes = _agreeing(
            tiles.wide,
            tuple(matrix.shape),
            matrix.stride(0) == 1,
            bias is not None,
            rows.dtype,
            rows.device,
            tiles.modes,
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
        # A tile that stays half empty costs more than another tile.
        size = above if above is not None and (below is None or above <= 2 * rows) else below
        assert size is not None
        yield size
        rows -= size


def _sizes(
    wide: bool, shape: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> tuple[int, ...]:
    """Tile sizes to try, the one that the others must agree with first.

    Near the numbers of rows that answers have, so that little of a tile stays empty.
    """
    inner, outer = shape
    if device.type != "cpu":
        # A step is bound by reading the weights up to some hundred rows, so padding is free.
        return (1024, 256, 2048) if wide else (128, 256)
    if wide:
        # Over a vocabulary few rows are multiplied, and to try many takes seconds.
        larger = () if outer > _MANY * inner else (512, 1024, 2048)
        return 256, 64, 128, *larger
    # Kernels of 16 bits change their order of additions between 32 and 40 rows.
    smaller = (16, 24, 32, 40, 48, 64) if dtype == torch.float32 else (40, 48, 64)
    return 32 if dtype == torch.float32 else 64, *smaller, 72, 80, 96, 104, 112, 128


@lru_cache(maxsize=4096)
def _agreeing(
    wide: bool,
    shape: tuple[int, int],
    transposed: bool,
    biased: bool,
    dtype: torch.dtype,
    device: torch.device,
    modes: str,
) -> tuple[int, ...]:
    """As `_try_sizes` found now, or another process with the same hardware, versions and modes.

    Raises:
        NotInvariantError: Already one size gives other bits at other places of a tile.
    """
    product = wide, shape, transposed, biased, dtype, device.type
    sizes = _sizes(wide, shape, dtype, device)
    key = f"tiles {product} of {sizes} {machine(device)} {modes}"
    attempt = partial(_try_sizes, *product[:-1], device)
    return on_this_machine().sizes(key, attempt, sizes)


def _try_sizes(
    wide: bool,
    shape: tuple[int, int],
    transposed: bool,
    biased: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[int, ...]:
    """Tile sizes whose products give a row the same bits, tried on random numbers; ascending.

    The order of additions does not depend on values, so random ones show another order almost
    surely. Public: follows from shapes and the machine.

    Raises:
        NotInvariantError: Already one size gives other bits at other places of a tile.
    """
    first, *others = _sizes(wide, shape, dtype, device)
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
    rows = random(max(first, *others), inner)
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
        """True of rows of the first tile that have the same bits in other places of a tile."""
        return torch.equal(product(rows[:size].roll(1, 0)).roll(-1, 0), wanted[:size])

    if not agrees(first):
        raise NotInvariantError
    return tuple(size for size in sorted({first, *others}) if agrees(size))


def activation(
    function: Function, modes: str, input: torch.Tensor, *arguments: Any, **named: Any
) -> torch.Tensor | None:
    """The result of ``function``, or None where it may be called as it is.

    Args:
        function: A key of ``FORMULAS``.
        modes: What decides bits beside shapes.
        input: Any shape.
        *arguments: As ``function`` takes them.
        **named: As above.
    """
    if input.device.type != "cpu":
        return None  # an accelerator computes every number by itself
    named.pop("inplace", None)
    key = (function, arguments, tuple(named.items()), input.dtype, modes)
    with torch._C.DisableTorchFunction():
        chosen = _by_torch if _keeps_bits(*key) else _by_formula
        return _by_blocks(input, lambda part: chosen(function, part, *arguments, **named))


def _by_torch(function: Function, part: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    return function(part, *rest, **named)


def _by_formula(function: Function, part: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    """In float32, whose operations were seen to be free of place, and back."""
    return FORMULAS[function](part.float(), *rest, **named).to(part.dtype)


def _by_blocks(input: torch.Tensor, compute: Function) -> torch.Tensor:
    """Numbers in blocks whose shares, one for each thread, are whole vectors."""
    flat, threads = input.reshape(-1), torch.get_num_threads()
    together = len(flat) // (threads * _VECTOR) * threads * _VECTOR
    if together < threads * _GRAIN:
        together = 0  # torch would take fewer threads
    if together == len(flat):
        return compute(flat).view(input.shape)
    found = torch.empty_like(input, memory_format=torch.contiguous_format)
    into = found.view(-1)
    into[:together] = compute(flat[:together])
    rest = torch.split(flat[together:], _BLOCK), torch.split(into[together:], _BLOCK)
    for part, target in zip(*rest, strict=True):
        filled = functional.pad(part, (0, -len(part) % _VECTOR))
        target.copy_(compute(filled)[: len(target)])
    return found


@lru_cache(maxsize=256)
def _keeps_bits(
    function: Function,
    arguments: tuple[Any, ...],
    named: tuple[tuple[str, Any], ...],
    dtype: torch.dtype,
    modes: str,
) -> bool:
    """True where blocks are enough: random numbers at other places have the same bits."""
    threads = torch.get_num_threads()
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(2 * threads * _GRAIN, generator=generator).mul_(4).to(dtype)

    def computed(given: torch.Tensor) -> torch.Tensor:
        return _by_blocks(given, lambda part: function(part, *arguments, **dict(named)))

    wanted = computed(numbers)
    whole = len(numbers)
    # Around every size at which torch takes other shares.
    lengths = [1000, 10_000, *range(_BLOCK + 29, _GRAIN + _BLOCK, 2011), threads * _GRAIN - 31]
    pieces = [(first, first + length) for first in (7, whole // 3) for length in lengths]
    return all(
        torch.equal(computed(numbers[first:last]), wanted[first:last])
        for first, last in ((1, whole), (63, whole - 1), *pieces)
    )


def _silu(x: torch.Tensor) -> torch.Tensor:
    return x / x.neg().exp_().add_(1)


def _sigmoid(x: torch.Tensor) -> torch.Tensor:
    return x.neg().exp_().add_(1).reciprocal_()


def _gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    if approximate == "tanh":
        inner = (x * x).mul_(x).mul_(0.044715).add_(x).mul_(math.sqrt(2 / math.pi))
        return inner.tanh_().add_(1).mul_(x).mul_(0.5)
    return (x * math.sqrt(0.5)).erf_().add_(1).mul_(x).mul_(0.5)


def _softplus(x: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    curved = (beta * x).clamp_(max=threshold).exp_().add_(1).log_().div_(beta)
    return torch.where(beta * x > threshold, x, curved)


def _mish(x: torch.Tensor) -> torch.Tensor:
    return _softplus(x).tanh_().mul_(x)


def _elu(x: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    return torch.where(x > 0, x, x.clamp(max=0.0).exp_().sub_(1).mul_(alpha))


FORMULAS: dict[Any, Function] = {
    functional.silu: _silu,
    functional.gelu: _gelu,
    functional.softplus: _softplus,
    functional.mish: _mish,
    functional.elu: _elu,
    functional.sigmoid: _sigmoid,
    torch.sigmoid: _sigmoid,
    torch.Tensor.sigmoid: _sigmoid,
}
"""By function of torch: the same by operations whose bits do not depend on the place."""


_REPLACEMENTS: dict[Any, Callable[..., torch.Tensor | None]] = {
    functional.linear: _linear,
    torch.addmm: _addmm,
    torch.matmul: _matmul,
    torch.mm: _matmul,
    torch.Tensor.matmul: _matmul,
    torch.Tensor.__matmul__: _matmul,
    **{function: partial(_activation, function) for function in FORMULAS},
}
