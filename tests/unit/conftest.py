import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document
from dpicl_rag.retrieval.vectors import VectorSource, Where, on_grid


class HashingEmbedder:
    """Words hashed into 16 buckets; deterministic, and counts the texts it was given."""

    dimension = 16

    def __init__(self, fingerprint: str = "hashing") -> None:
        self.fingerprint = fingerprint
        self.embedded = 0

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        self.embedded += len(texts)
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                digest = hashlib.sha256(word.encode()).digest()
                vectors[row, digest[0] % self.dimension] += 1 if digest[1] % 2 else -1
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, length, out=vectors, where=length > 0)


class TextEmbedder(HashingEmbedder):
    """A random vector for each text, so that no two share one."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        rows = [np.random.default_rng(list(digest)).normal(size=16) for digest in digests]
        return on_grid(np.reshape(rows, (-1, 16)))


class Killed(BaseException):
    """Stands for the end of a process."""


def filled(folder: Path, documents: Sequence[Document]) -> Corpus:
    """A corpus in a folder, with a vector for each text."""
    corpus = Corpus.create("mail", folder, embedder=TextEmbedder())
    corpus.add(documents)
    return corpus


def opened(folder: Path) -> Corpus:
    """The same corpus, as a program opens it that comes later."""
    return Corpus.open("mail", folder, embedder=TextEmbedder())


def blank(path: Path) -> None:
    """Overwrite a file with zeros."""
    path.write_bytes(bytes(path.stat().st_size))


class Seen(NamedTuple):
    """A passage as questions find it."""

    unit: str
    metadata: Mapping[str, str]
    vector: npt.NDArray[np.float64]


def seen(source: VectorSource, where: Where | None = None, dimension: int = 16) -> dict[str, Seen]:
    """What questions find of a source, by text: a question along each axis gives a component."""
    found: dict[str, Seen] = {}
    for axis, question in enumerate(np.eye(dimension)):
        near = source.scan(question, where=where)
        for document, score in near.passages(range(len(near.units))):
            vector = np.zeros(dimension) if axis == 0 else found[document.text].vector
            vector[axis] = score
            found[document.text] = Seen(document.unit, document.metadata, vector)
    return found


def units_of(corpus: Corpus) -> list[str]:
    """Every unit once."""
    return list(dict.fromkeys(record.unit for record in corpus.records()))


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()


@pytest.fixture
def corpus(tmp_path: Path, embedder: HashingEmbedder) -> Corpus:
    return Corpus.create("mail", tmp_path / "chroma", embedder=embedder)
