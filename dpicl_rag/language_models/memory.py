"""Running out of memory, told apart from other errors of torch."""

from __future__ import annotations

import torch


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch could not allocate a tensor.

    Its message says how much was asked for, which follows from how many documents were found and
    how long they are: nobody else may see it.
    """
    # On a CPU torch raises a plain RuntimeError, in words that depend on the system.
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)
