import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models import tiles
from dpicl_rag.language_models.hardware import ProbeResults
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder

TEXTS = [
    "How long does a refund take?",
    "Refunds are paid out within five working days.",
    "The warehouse opens at eight.",
    "x " * 300,
    "",
]


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


@pytest.mark.heavy
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


WORDS = "the depot opens at eight and a refund takes five days when nobody asks why".split()  # noqa: SIM905
COMPOSITIONS = 20


def some_text(coins: random.Random) -> str:
    return " ".join(coins.choice(WORDS) for _ in range(coins.choice([0, 1, 5, 30, 200])))


def vectors_that_moved(embedder: SentenceTransformerEmbedder, compositions: int) -> int:
    """How many vectors differ, in some bit, from what they are alone."""
    coins = random.Random(0)
    alone = [embedder.embed([text])[0] for text in TEXTS]
    moved = 0
    for _ in range(compositions):
        texts = [some_text(coins) for _ in range(coins.choice([1, 5, 31]))]
        chosen, place = coins.randrange(len(TEXTS)), coins.randint(0, len(texts))
        texts.insert(place, TEXTS[chosen])
        moved += not np.array_equal(embedder.embed(texts)[place], alone[chosen])
    return moved


@pytest.fixture(params=[1, 2, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.heavy
@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_vector_depends_on_its_text_alone_to_the_last_bit(dtype: Any) -> None:
    embedder = SentenceTransformerEmbedder(dtype=dtype)
    assert vectors_that_moved(embedder, COMPOSITIONS) == 0
    assert embedder._loaded()._packed.keeps_bits()


@pytest.mark.heavy
def test_texts_that_share_whole_products_move_and_fail_the_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    embedder = SentenceTransformerEmbedder()
    embedder.embed(TEXTS)  # the verdict stands
    by_rows = tiles._by_rows

    def by_company(tiles: Any, input: torch.Tensor, *matrix: Any) -> torch.Tensor:
        """As whole products are on most processors: their bits follow from how many share them."""
        return by_rows(tiles, input, *matrix) * (1 + 1e-6 * input.shape[:-1].numel())

    monkeypatch.setattr(tiles, "_by_rows", by_company)
    assert vectors_that_moved(embedder, 4) > 0
    assert not embedder._loaded()._packed.keeps_bits()


@pytest.mark.heavy
def test_a_model_that_cannot_share_passes_takes_one_text_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = SentenceTransformerEmbedder().embed(TEXTS)
    question = SentenceTransformerEmbedder().embed(TEXTS, query=True)
    monkeypatch.setattr(ProbeResults, "holds", lambda *_: False)
    alone = SentenceTransformerEmbedder()
    assert np.allclose(alone.embed(TEXTS), packed, atol=1e-6)
    assert np.allclose(alone.embed(TEXTS, query=True), question, atol=1e-6)
    assert vectors_that_moved(alone, 2) == 0


@pytest.mark.heavy  # on a processor that has no instructions of 16 bits
@pytest.mark.guard
def test_16_bits_are_another_model_and_nearly_the_same() -> None:
    one, other = SentenceTransformerEmbedder(), SentenceTransformerEmbedder(dtype="bfloat16")
    assert one.fingerprint != other.fingerprint
    assert (one.embed(TEXTS) * other.embed(TEXTS)).sum(1).min() > 0.99
    with pytest.raises(ConfigurationError, match="bfloat16"):
        SentenceTransformerEmbedder(dtype="int8")  # type: ignore[arg-type]


def test_a_lone_surrogate_is_replaced() -> None:
    embedder = SentenceTransformerEmbedder()
    assert np.array_equal(embedder.embed(["caf\udce9"]), embedder.embed(["caf?"]))


def test_no_texts() -> None:
    assert SentenceTransformerEmbedder().embed([]).shape == (0, 384)
