"""Out-of-memory errors of torch, recognised and reported without sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dpicl_rag.errors import ModelError


class NotEnoughMemoryError(ModelError):
    """Memory ended while documents were read or a token was computed."""

    def __init__(self) -> None:
        super().__init__(
            "there is not enough memory for the documents that were found; retrieve fewer of "
            "them, lower unit_tokens, or take a smaller model"
        )


def is_out_of_memory(error: RuntimeError) -> bool:
    """True of an error of torch that could not allocate a tensor."""
    # On a CPU torch raises a plain RuntimeError, in words that depend on the system.
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


@contextmanager
def enough_memory() -> Iterator[None]:
    """Say that memory ended, and no more.

    What torch and NumPy say names the size of an array, which follows from how many documents there
    are and how long they are.

    Raises:
        NotEnoughMemoryError: In place of their own errors.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and not is_out_of_memory(error):
            raise
        raise NotEnoughMemoryError from None
