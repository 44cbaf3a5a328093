"""Hardware, versions, threads and modes, which decide the order of additions; the fast dtype."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import torch

from dpicl_rag.errors import ModelError
from dpicl_rag.files.run_files import write_whole

_LIBRARIES = re.compile(
    "(ATEN|BLIS|CUBLAS|CUBLASLT|CUDNN|DNNL|GOTO|KMP|MKL|NVIDIA_TF32|OMP|ONEDNN|OPENBLAS"
    "|TORCH_ALLOW|TORCH_BLAS|TORCH_MKLDNN)_"
)
# torch is asked how many threads there are; the others move no addition.
_NO_MODES = re.compile(
    "(OMP|MKL)_NUM_THREADS|OMP_(WAIT_POLICY|PROC_BIND|PLACES|DISPLAY_.*)"
    "|KMP_(AFFINITY|BLOCKTIME|DUPLICATE_LIB_OK|INIT_AT_FORK|SETTINGS|WARNINGS)|.*_VERBOSE"
)

_PROCESSOR = re.compile(
    r"(vendor_id|cpu family|model|model name|stepping|cache size|siblings|cpu cores|flags"
    r"|Features|CPU \w+)\s*:\s*(.*)"
)
_VECTORS = re.compile("avx|amx|fma|f16c|s?sse|asimd|sve|sme|bf16|i8mm|fp")
"""Names of instructions that add or multiply."""


def is_mode(variable: str) -> bool:
    """True of a variable of the environment that may choose kernels of a library."""
    return bool(_LIBRARIES.match(variable)) and not _NO_MODES.fullmatch(variable)


# As they are when torch is loaded: libraries look at them once.
_VARIABLES = sorted(f"{name}={value}" for name, value in os.environ.items() if is_mode(name))

_SMALLEST = torch.tensor([2.0**-149])  # zero, where such numbers are flushed


def machine(device: torch.device) -> str:
    """All that decides the order in which products are added up, now and in the calling thread.

    Not the machine's name: a container has another one at every start.
    """
    place = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return f"{processor()} {place} {modes()}"


@cache
def processor() -> str:
    """A digest of the processor, of versions, and of libraries' modes: one for a process."""
    import transformers

    parts = (
        *_processor(Path("/proc/cpuinfo")),
        platform.machine(),
        platform.libc_ver(),
        torch.backends.cpu.get_cpu_capability(),
        _has_16_bits(),
        torch.__version__,
        torch.__config__.show(),
        transformers.__version__,
        *_VARIABLES,
    )
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def modes() -> str:
    """State that a program may change while it runs: threads, and switches of torch."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    mkldnn: Any = torch.backends.mkldnn
    asked: tuple[Callable[[], Any], ...] = (
        torch.get_num_threads,
        torch.get_float32_matmul_precision,
        torch.are_deterministic_algorithms_enabled,
        lambda: bool(_SMALLEST * 1.0),
        lambda: (mkldnn.enabled, mkldnn.deterministic),
        lambda: mkldnn.matmul.fp32_precision,
        lambda: matmul.fp32_precision,
        lambda: matmul.allow_fp16_reduced_precision_reduction,
        lambda: matmul.allow_bf16_reduced_precision_reduction,
        lambda: matmul.allow_fp16_accumulation,
        lambda: (cudnn.enabled, cudnn.deterministic, cudnn.benchmark),
        torch.backends.cuda.preferred_blas_library,
        torch.backends.cuda.flash_sdp_enabled,
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.math_sdp_enabled,
        torch.backends.cuda.cudnn_sdp_enabled,
        torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed,
    )
    return " ".join(map(_answer, asked))


def faster_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the hardware multiplies it faster, else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    return torch.bfloat16 if device.type == "cpu" and _has_16_bits() else torch.float32


def _answer(ask: Callable[[], Any]) -> str:
    """The answer of torch; versions know different switches, and some exclude others."""
    try:
        return str(ask())
    except (AttributeError, RuntimeError):
        return "unknown"


def _processor(listing: Path) -> Iterator[str]:
    """Properties of the first listed processor that may choose kernels."""
    try:
        first = listing.read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:  # no Linux
        yield platform.processor()
        return
    for line in first.splitlines():
        found = _PROCESSOR.fullmatch(line)
        if found is not None:
            name, value = found.groups()
            if name in ("flags", "Features"):
                # Kernels name new instructions; few of them matter.
                value = " ".join(sorted(filter(_VECTORS.match, value.split())))
            yield f"{name}: {value}"


def _has_16_bits() -> bool:
    """True of a processor with AMX or AVX512-BF16."""
    # Not public in torch; without them 16 bits are not faster, and float32 is always right.
    amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    avx = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return bool(amx() or avx())


class ProbeResults:
    """What was seen to hold of this machine; kept in memory and, with ``folder``, on disk.

    What does not hold is tried again by the next process: the cause may have been the moment.

    Args:
        folder: Where small files are kept, named by hashes. None keeps nothing on disk.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, bool] = {}
        self._lock = threading.Lock()

    def holds(self, key: str, attempt: Callable[[], bool], words: str = "") -> bool:
        """Truth of a statement, tried at most once.

        Args:
            key: Of all that it follows from.
            attempt: Tries it.
            words: The statement for people, kept in the file. Public.
        """
        with self._lock:
            if key not in self._known:
                file = self._file(key)
                kept = file is not None and file.exists()
                self._known[key] = kept or attempt()
                if file is not None and self._known[key] and not kept:
                    with contextlib.suppress(OSError):  # then it is tried again
                        file.parent.mkdir(parents=True, exist_ok=True)
                        write_whole(file, words.encode())
            return self._known[key]

    def sizes(
        self, key: str, attempt: Callable[[], tuple[int, ...]], among: Sequence[int]
    ) -> tuple[int, ...]:
        """Sizes that an attempt found, kept on disk alone.

        Args:
            key: Of all that they follow from.
            attempt: Finds them.
            among: All that there may be, the one first that is always found. What is kept and is
                no choice of these was damaged, and is found again.
        """
        file = self._file(key)
        if file is not None:
            with contextlib.suppress(OSError, ValueError):
                kept = tuple(map(int, file.read_text("ascii").split()))
                if among[0] in kept and set(kept) <= set(among):
                    return kept
        found = attempt()
        if file is not None:
            with contextlib.suppress(OSError):  # then the next process tries again
                file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, " ".join(map(str, found)).encode())
        return found

    def _file(self, key: str) -> Path | None:
        return self._folder and self._folder / hashlib.sha256(key.encode()).hexdigest()


def on_this_machine() -> ProbeResults:
    """Results of probes in the user's cache folder."""
    return ProbeResults(platformdirs.user_cache_path("dpicl-rag") / "probes")


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
