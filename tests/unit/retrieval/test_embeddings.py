import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder

TEXTS = [
    "How long does a refund take?",
    "Refunds are paid out within five working days.",
    "The warehouse opens at eight.",
    "x " * 300,
    "",
]


def test_importing_it_loads_no_model_library() -> None:
    code = (
        "import sys, dpicl_rag.retrieval.embeddings, dpicl_rag.retrieval;"
        "print([m for m in ('torch', 'transformers', 'sentence_transformers', 'chromadb')"
        " if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_fingerprints_tell_models_apart(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "model.safetensors").write_bytes(b"1")
    (tmp_path / "two" / "model.safetensors").write_bytes(b"2")
    prints = [
        SentenceTransformerEmbedder(model).fingerprint
        for model in (None, "org/model", tmp_path / "one", str(tmp_path / "two"))
    ]
    assert len(set(prints)) == 4
    assert SentenceTransformerEmbedder("org/model").fingerprint == "hub/org/model"


@pytest.mark.parametrize("texts", ["one string", [b"bytes"], [None]])
def test_only_sequences_of_strings(texts: object) -> None:
    with pytest.raises(ConfigurationError, match="texts must be a sequence of strings"):
        SentenceTransformerEmbedder().embed(texts)  # type: ignore[arg-type]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no embedding model at"):
        SentenceTransformerEmbedder(tmp_path / "missing").embed(["text"])


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no model"):
        _ = SentenceTransformerEmbedder(tmp_path).fingerprint


@pytest.mark.model
def test_the_default_model_works_offline_and_silently(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    embedder = SentenceTransformerEmbedder()
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    question = embedder.embed([TEXTS[0]], query=True)[0]
    assert vectors[1] @ question > vectors[2] @ question + 0.2
    assert capfd.readouterr() == ("", "")


@pytest.mark.model
def test_a_vector_depends_on_its_text_alone_to_the_last_bit() -> None:
    embedder = SentenceTransformerEmbedder()
    together = embedder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)


@pytest.mark.model
def test_a_lone_surrogate_is_replaced() -> None:
    embedder = SentenceTransformerEmbedder()
    assert np.array_equal(embedder.embed(["caf\udce9"]), embedder.embed(["caf?"]))


@pytest.mark.model
def test_no_texts() -> None:
    assert SentenceTransformerEmbedder().embed([]).shape == (0, 384)
