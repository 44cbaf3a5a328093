"""The processor, memory and graphics card of this machine, without loading torch."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

from dpicl_rag.cli.finding import Finding

_CPU = Path("/proc/cpuinfo")
_CARDS = Path("/proc/driver/nvidia/gpus")
_VECTORS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "sve", "bf16")
# As `hardware.faster_dtype` has it: there 16-bit weights are the default.
_FAST_16_BITS = {"avx512_bf16", "amx_tile"}
_GB = 2**30


def machine_findings() -> Iterator[Finding]:
    """What decides how fast a model runs here, and which order its sums have."""
    name, flags = _listed(_CPU)
    yield Finding("processor", f"{name or platform.machine()}, {_cores()} cores for this process")
    vectors = [one for one in _VECTORS if one in flags]
    yield Finding("vectors", ", ".join(vectors) or "none that is looked for")
    fast = bool(_FAST_16_BITS & flags)
    yield Finding("weights", f"{'16' if fast else '32'} bits on the processor")
    if hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        yield Finding("memory", f"{memory / _GB:.0f} GiB")
    yield Finding("graphics", _cards(_CARDS) or "no NVIDIA card is seen")


def _cores() -> int:
    """Cores that this process may use; a container may have fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _listed(listing: Path) -> tuple[str, set[str]]:
    """Name and features of the first listed processor; nothing where none is listed."""
    try:
        lines = listing.read_text("utf-8", "replace").split("\n\n")[0].splitlines()
    except OSError:  # no Linux
        return platform.processor(), set()
    said = {name.strip(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    features = said.get("flags") or said.get("Features") or ""
    return said.get("model name", ""), set(features.split())


def _cards(folder: Path) -> str:
    models = []
    for file in sorted(folder.glob("*/information")):
        for line in file.read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if name == "Model":
                models.append(value.strip())
    return ", ".join(models)
