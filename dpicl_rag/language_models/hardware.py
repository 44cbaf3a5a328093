"""What the machine decides: the order of additions, and which dtype is fast."""

from __future__ import annotations

import platform

import torch


def machine(device: torch.device) -> str:
    """What decides in which order products are added up: machine, versions, threads."""
    import transformers

    parts = (
        torch.__version__,
        transformers.__version__,
        platform.node(),
        platform.processor(),
        torch.backends.cpu.get_cpu_capability(),
        _has_16_bits(),
        torch.get_num_threads(),
        torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        torch.get_float32_matmul_precision(),
    )
    return " ".join(map(str, parts))


def faster_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the hardware multiplies it faster, else float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    return torch.bfloat16 if device.type == "cpu" and _has_16_bits() else torch.float32


def _has_16_bits() -> bool:
    """Whether the processor has AMX or AVX512-BF16."""
    # Not public in torch; without them 16 bits are not faster, and float32 is always right.
    amx = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    avx = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return bool(amx() or avx())
