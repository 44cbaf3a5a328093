"""The same passages in stores of every kind, and in a `Corpus`."""

from __future__ import annotations

import json
import uuid
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import chromadb
import faiss
import numpy as np
import numpy.typing as npt
from chromadb.config import Settings
from qdrant_client import QdrantClient, models
from sqlalchemy import Engine, text

from dpicl_rag.corpora import Corpus
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.stores.exact_store import ExactStore
from dpicl_rag.stores.faiss import FaissRecord, FaissVectors
from dpicl_rag.stores.pg_statements import Table
from dpicl_rag.stores.pgvector import PgVectors
from dpicl_rag.stores.qdrant import QdrantVectors
from tests.support.scored_units import OneVector

DIMENSION = 8
FIELD = "thread"
QUESTION = np.eye(DIMENSION, dtype=np.float32)[0]
EMBEDDER = OneVector(QUESTION.tolist())


class Passage(NamedTuple):
    """What a store holds of a passage."""

    id: str
    fields: dict[str, Any]
    vector: npt.NDArray[np.float32]

    @property
    def text(self) -> str:
        return f"text {self.id}"


@dataclass(frozen=True)
class Passages:
    """Passages, and a question about them."""

    rows: list[Passage]
    question: npt.NDArray[np.float32]

    @property
    def embedder(self) -> OneVector:
        return OneVector(self.question.tolist())

    @property
    def units(self) -> list[str]:
        return sorted({str(row.fields[FIELD]) for row in self.rows})

    def without(self, unit: str) -> Passages:
        return Passages([r for r in self.rows if str(r.fields[FIELD]) != unit], self.question)


def passages(seed: int, most: int = 40, dimension: int = DIMENSION) -> Passages:
    """Made-up passages: few different vectors, so many scores are equal to the last bit."""
    random = np.random.default_rng(seed)
    count = int(random.integers(0, most))
    directions = random.integers(-2, 3, size=(max(1, count // 2), dimension))
    directions[0] = 0  # a vector without a direction
    vectors = fixed(directions[random.integers(0, len(directions), size=count)])
    question = fixed(directions[random.integers(0, len(directions), size=1)])[0]
    units = random.integers(0, max(1, count // 2), size=count).tolist()
    names = random.permutation(count).tolist()
    return Passages(
        [
            Passage(str(uuid.UUID(int=name + 1)), {FIELD: f"unit {unit}", "size": unit % 3}, vector)
            for name, unit, vector in zip(names, units, vectors, strict=True)
        ],
        question,
    )


def fixed(vectors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Vectors of length 1 that Qdrant, which divides by the length, leaves as they are."""
    rows = np.asarray(vectors, dtype=np.float32)
    for _ in range(8):
        lengths = np.linalg.norm(rows, axis=-1)[:, np.newaxis]
        rows = rows / np.where(lengths != 0, lengths, np.float32(1.1920929e-07))
    return rows


def in_corpus(given: Passages) -> Corpus:
    """As `Corpus` reads them."""
    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    name = f"notes-{uuid.uuid4().hex}"
    collection = client.create_collection(name, embedding_function=None)
    if given.rows:
        collection.add(
            [row.id for row in given.rows],
            embeddings=[row.vector for row in given.rows],
            documents=[row.text for row in given.rows],
            metadatas=[row.fields for row in given.rows],
        )
    return Corpus.from_collection(collection, unit_field=FIELD, embedder=given.embedder)


def in_faiss(given: Passages, *, mapped: bool = False, metric: str = "IndexFlatIP") -> FaissVectors:
    """As a flat index holds them; lengths are no matter."""
    index = getattr(faiss, metric)(DIMENSION)
    entries = {n: FaissRecord(row.id, row.fields, row.text) for n, row in enumerate(given.rows)}
    vectors = np.array([row.vector for row in given.rows], dtype=np.float32).reshape(-1, DIMENSION)
    vectors = vectors * 2.0 ** (np.arange(len(vectors), dtype=np.float32)[:, None] % 9 - 4)
    if mapped:
        index = faiss.IndexIDMap2(index)
        entries = {1000 - n: entry for n, entry in entries.items()}
        index.add_with_ids(vectors, np.array(list(entries), dtype=np.int64))
    else:
        index.add(vectors)
    return FaissVectors(index, entries.get, unit_field=FIELD, embedder=given.embedder)


def in_qdrant(given: Passages, **options: Any) -> QdrantVectors:
    """As a collection holds them, in this process."""
    client = QdrantClient(":memory:")
    client.create_collection(
        "notes",
        vectors_config=models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE),
    )
    if given.rows:
        client.upsert("notes", [point(row) for row in given.rows])
    return QdrantVectors(client, "notes", unit_field=FIELD, embedder=given.embedder, **options)


def point(row: Passage) -> models.PointStruct:
    return models.PointStruct(
        id=row.id,
        vector=row.vector.tolist(),
        payload={"page_content": row.text, "metadata": row.fields},
    )


class PgTable:
    """A table for many corpora, told apart by a column.

    Args:
        engine: Of the tests' server.
        metadata: Type of the column of the metadata.
        vector: Type of the column of the vectors.
    """

    def __init__(self, engine: Engine, metadata: str = "jsonb", vector: str = "vector") -> None:
        self.engine = engine
        self.name = f"notes_{uuid.uuid4().hex}"
        self.corpora = 0
        with engine.begin() as connection:
            connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
            connection.execute(
                text(
                    f"CREATE TABLE {self.name} (corpus integer, id text, document text, "
                    f"metadata {metadata}, embedding {vector})"
                )
            )

    def add(self, rows: Iterable[Passage], corpus: int) -> None:
        values = [
            {
                "corpus": corpus,
                "id": row.id,
                "text": row.text,
                "metadata": json.dumps(row.fields),
                "vector": str((row.vector * np.float32(2.0 ** (n % 9 - 4))).tolist()),
            }
            for n, row in enumerate(rows)
        ]
        if values:
            with self.engine.begin() as connection:
                connection.execute(
                    text(
                        f"INSERT INTO {self.name} VALUES (:corpus, :id, :text, "
                        "CAST(CAST(:metadata AS text) AS json), CAST(:vector AS vector))"
                    ),
                    values,
                )

    def __call__(self, given: Passages, made: Callable[..., PgVectors] = PgVectors) -> PgVectors:
        """A source over passages, which are put there."""
        self.corpora += 1
        self.add(given.rows, self.corpora)
        return self.source(self.corpora, given.embedder, made)

    def source(
        self,
        corpus: int,
        embedder: OneVector = EMBEDDER,
        made: Callable[..., PgVectors] = PgVectors,
    ) -> PgVectors:
        table = Table(self.name, condition="corpus = :corpus", parameters={"corpus": corpus})
        return made(self.engine, table, unit_field=FIELD, embedder=embedder)


def seeded(seed: int = 7) -> SeededRandomness:
    """Coins that two searches may both be given."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return SeededRandomness(seed)


Store = Callable[[Passages], ExactStore]
