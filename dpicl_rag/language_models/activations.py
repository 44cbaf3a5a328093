"""Activations whose bits depend on a number alone, not on where it stands.

torch computes SiLU, GELU, sigmoid and the like by vectors, and by another formula for what is left
at the end of a thread's share. An arrival moves other rows to other places, and so across such an
end. Here numbers go in blocks that leave nothing over. Where a processor still looks at places,
which is tried, formulas of operations that do not take their part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch.nn import functional

Function = Callable[..., torch.Tensor]

_GRAIN = 1 << 15  # numbers of each thread at least, where torch shares out a tensor
_BLOCK = 1 << 14  # numbers that torch always gives to one thread; of GELU's no more
_VECTOR = 64  # numbers that divide into whole vectors, whatever the dtype


def apply(
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
        chosen = _as_it_is if _keeps_bits(*key) else _by_formula
        return _by_blocks(input, lambda part: chosen(function, part, *arguments, **named))


def _as_it_is(function: Function, part: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
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
    """Whether blocks are enough here: random numbers at other places have the same bits."""
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
