"""What questions find follows every write, whoever makes it."""

import multiprocessing
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from filelock import FileLock

from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.local import LocalVectors
from dpicl_rag.retrieval.vectors import on_grid
from tests.unit.conftest import HashingEmbedder, seen

# Plain Chroma in a process of its own. Commands come on standard input, one a line; the client
# stays open between them, as another program's would.
WRITER = """
import sys
import chromadb, numpy as np
client = chromadb.PersistentClient(sys.argv[1])
collection = client.get_collection("mail", embedding_function=None)
for line in sys.stdin:
    operation, first, last, seed = line.split()
    ids = [f"row {row}" for row in range(int(first), int(last))]
    vectors = np.random.default_rng(int(seed)).normal(size=(len(ids), 16))
    fields = [{"dpicl_unit": f"unit {id}", "seed": seed} for id in ids]
    if operation == "add":
        collection.add(ids, embeddings=vectors, documents=ids, metadatas=fields)
    elif operation == "vectors":
        collection.update(ids, embeddings=vectors)
    elif operation == "metadata":
        collection.update(ids, metadatas=fields)
    elif operation == "delete":
        collection.delete(ids)
    elif operation == "read":
        collection.get(include=["embeddings"])
        collection.query(query_embeddings=vectors, n_results=1)
    elif operation == "replace":
        client.delete_collection("mail")
        collection = client.create_collection("mail", embedding_function=None)
        collection.add(ids, embeddings=vectors, documents=ids, metadatas=fields)
    print("done", flush=True)
"""


class Other:
    """The other process, and what the collection must hold after its writes."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.rows: dict[str, np.ndarray] = {}
        self.seeds: dict[str, str] = {}

    def do(self, operation: str, first: int, last: int, seed: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(operation, first, last, seed, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"
        ids = [f"row {row}" for row in range(first, last)]
        vectors = on_grid(np.random.default_rng(seed).normal(size=(len(ids), 16)))
        if operation == "replace":
            self.rows.clear()
        for id, vector in zip(ids, vectors, strict=True):
            if operation == "delete":
                del self.rows[id]
            elif operation in ("add", "replace", "vectors"):
                self.rows[id] = vector
            if operation in ("add", "replace", "metadata"):
                self.seeds[id] = str(seed)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def test_writes_by_another_program_are_seen(tmp_path: Path) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    other = Other(tmp_path)
    try:
        assert seen(corpus) == {}
        for seed, (operation, first, last) in enumerate(
            [
                ("add", 0, 20),
                ("vectors", 0, 5),
                ("metadata", 3, 9),
                ("add", 20, 1200),  # past 1,000, where Chroma moves its log into the index
                ("vectors", 0, 10),
                ("delete", 5, 600),
                ("vectors", 600, 601),
                ("replace", 0, 3),
                ("vectors", 1, 2),
            ]
        ):
            other.do(operation, first, last, seed)
            found = seen(corpus)
            assert found.keys() == other.rows.keys(), operation
            for id, passage in found.items():
                np.testing.assert_allclose(passage.vector, other.rows[id], atol=2**-22)
            seeds = {id: passage.metadata["seed"] for id, passage in found.items()}
            assert seeds == {id: other.seeds[id] for id in seeds}
            assert sorted(record.text for record in corpus.records()) == sorted(found)
    finally:
        other.close()


@pytest.fixture
def renewed(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows whenever a file of vectors is compared with its store."""
    calls: list[None] = []
    renew = LocalVectors._renew

    def count(self: LocalVectors, *args: Any, **options: Any) -> Any:
        calls.append(None)
        return renew(self, *args, **options)

    monkeypatch.setattr(LocalVectors, "_renew", count)
    return calls


def test_reading_changes_nothing_and_reads_nothing_again(
    tmp_path: Path, renewed: list[None]
) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    corpus.add([Document("a note", "unit", {"owner": "ann"})])
    other = Other(tmp_path)
    try:
        seen(corpus)
        renewed.clear()
        other.do("read", 0, 1, 0)
        seen(corpus, {"owner": "ann"})
        Corpus.names(tmp_path)
        seen(corpus)
        seen(Corpus.open("mail", tmp_path, embedder=HashingEmbedder()))
        assert renewed == []
    finally:
        other.close()


def test_two_objects_on_one_database(tmp_path: Path) -> None:
    first = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    second = Corpus.open("mail", tmp_path, embedder=HashingEmbedder())
    for number in range(3):
        first.add([f"first {number}"])
        second.add([f"second {number}"])
        expected = list(seen(first))
        assert len(expected) == 2 * number + 2
        assert list(seen(second)) == expected


def test_a_users_own_client_in_this_process(tmp_path: Path) -> None:
    with chromadb.PersistentClient(tmp_path) as client:
        corpus = Corpus.create("mail", client=client, embedder=HashingEmbedder())
        corpus.add(["one"])
        collection = client.get_collection("mail", embedding_function=None)
        assert collection.get(include=["embeddings"])["documents"] is None
        assert len(corpus.records()) == 1
        collection.add(
            ["plain"], embeddings=np.ones((1, 16)), documents=["two"],
            metadatas=[{"dpicl_unit": "u"}],
        )  # fmt: skip
        assert seen(corpus).keys() == {"one", "two"}
        corpus.delete_unit("u")
        assert seen(corpus).keys() == {"one"}
        assert len(collection.get(include=["embeddings"])["ids"]) == 1


def test_a_database_in_memory_is_read_anew_each_time() -> None:
    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    corpus = Corpus.create("memory", client=client, embedder=HashingEmbedder())
    try:
        corpus.add(["one"])
        assert len(corpus.records()) == 1
        client.get_collection("memory", embedding_function=None).delete([corpus.records()[0].id])
        assert corpus.records() == []
        assert "memory" in Corpus.names(client=client)
    finally:
        client.delete_collection("memory")


def test_a_collection_deleted_behind_the_corpus(tmp_path: Path) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    seen(corpus)
    with chromadb.PersistentClient(tmp_path) as client:
        client.delete_collection("mail")
    with pytest.raises(CorpusError, match="NotFoundError"):
        seen(corpus)


def test_a_database_held_by_another_process_is_waited_for_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    monkeypatch.setattr("dpicl_rag.retrieval.store._LOCK_TIMEOUT_S", 0.05)
    with FileLock(tmp_path / "dpicl-rag.lock"), pytest.raises(CorpusError, match="has held"):
        seen(corpus)
    assert seen(corpus) == {}


def test_a_question_does_not_wait_for_a_writer(tmp_path: Path) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    corpus.add(["one"])
    with FileLock(tmp_path / "dpicl-rag.lock"):
        assert list(seen(corpus)) == ["one"]
        with chromadb.PersistentClient(tmp_path) as client:
            client.get_collection("mail", embedding_function=None).add(
                ["2"], embeddings=np.ones((1, 16)), documents=["two"],
                metadatas=[{"dpicl_unit": "u"}],
            )  # fmt: skip
        assert list(seen(corpus)) == ["one"]
        corpus.close()
        assert list(seen(corpus)) == ["one"]
    assert sorted(seen(corpus)) == ["one", "two"]


def test_threads_share_a_corpus(tmp_path: Path) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    retriever = ThresholdRetriever(corpus, -1)
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(5):
                corpus.add([Document(f"note {name} {number}", f"unit {name}")])
                assert sum(d.unit == f"unit {name}" for d in retriever.retrieve("q")) == number + 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(corpus.records()) == 20


def ingest(path: Path, name: int) -> None:
    corpus = Corpus.open("mail", path, embedder=HashingEmbedder())
    for number in range(10):
        corpus.add([Document(f"note {name} {number} {row}", f"unit {name}") for row in range(60)])


@pytest.mark.stress
def test_processes_ingest_into_one_corpus(tmp_path: Path) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=ingest, args=(tmp_path, name)) for name in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        for document in ThresholdRetriever(corpus, -1).retrieve("q"):
            assert document.unit == f"unit {document.text.split()[1]}"
    assert [worker.exitcode for worker in workers] == [0] * 4
    found = seen(corpus)
    assert len(found) == 2400
    expected = on_grid(HashingEmbedder().embed(list(found)))
    vectors = np.stack([passage.vector for passage in found.values()])
    np.testing.assert_allclose(vectors, expected, atol=2**-22)


def test_closing_releases_and_a_closed_corpus_still_works(corpus: Corpus) -> None:
    corpus.add(["one"])
    assert list(seen(corpus)) == ["one"]
    corpus.close()
    assert list(seen(corpus)) == ["one"]
    corpus.close()


def make_anew(path: Path, text: str) -> None:
    """Remove a store and make one of as many writes in its place."""
    shutil.rmtree(path)
    corpus = Corpus.create("mail", path, embedder=HashingEmbedder())
    corpus.add([Document(text, "unit")])
    corpus.close()


@pytest.mark.parametrize("by_another_process", [False, True])
def test_a_folder_that_was_removed_and_made_anew(tmp_path: Path, by_another_process: bool) -> None:
    path = tmp_path / "store"
    corpus = Corpus.create("mail", path, embedder=HashingEmbedder())
    corpus.add([Document("text 0", "unit")])
    assert list(seen(corpus)) == ["text 0"]
    for text in ("text 1", "text 2"):
        if by_another_process:
            process = multiprocessing.get_context("spawn").Process(
                target=make_anew, args=(path, text)
            )
            process.start()
            process.join()
            assert process.exitcode == 0
        else:
            make_anew(path, text)
        assert list(seen(corpus)) == [text]
        assert [record.text for record in corpus.records()] == [text]


def test_another_store_moved_into_the_place(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Corpus.create("mail", tmp_path / name, embedder=HashingEmbedder()).add([name])
    corpus = Corpus.open("mail", tmp_path / "one", embedder=HashingEmbedder())
    assert list(seen(corpus)) == ["one"]
    (tmp_path / "one").rename(tmp_path / "away")
    (tmp_path / "two").rename(tmp_path / "one")
    assert list(seen(corpus)) == ["two"]


def test_a_folder_that_is_gone_is_an_error_and_stays_gone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    corpus = Corpus.create("mail", path, embedder=HashingEmbedder())
    corpus.add(["text"])
    seen(corpus)
    shutil.rmtree(path)
    with pytest.raises(CorpusError, match="there is no database in"):
        seen(corpus)
    with pytest.raises(CorpusError, match="there is no database in"):
        corpus.add(["more"])
    assert not path.exists()
