"""What questions find follows every write, whoever makes it."""

import multiprocessing
import shutil
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.storage import Storage
from dpicl_rag.documents import Document, Origin
from dpicl_rag.errors import CorpusError
from dpicl_rag.knowledge.public_knowledge import PublicDocuments
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.vectors import on_grid
from tests.unit.conftest import HashingEmbedder, seen


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows whenever the vectors are mapped anew."""
    calls: list[None] = []
    load = Storage._loaded

    def count(self: Storage, *args: Any) -> Any:
        calls.append(None)
        return load(self, *args)

    monkeypatch.setattr(Storage, "_loaded", count)
    return calls


def test_reading_changes_nothing_and_reads_nothing_again(tmp_path: Path, loads: list[None]) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    corpus.add([Document("a note", "unit", {"owner": "ann"})])
    other = Corpus.open("mail", tmp_path, embedder=HashingEmbedder())
    seen(corpus)
    loads.clear()
    seen(other)
    assert len(loads) == 1
    Corpus.names(tmp_path)
    seen(corpus, {"owner": "ann"})
    corpus.records()
    assert len(loads) == 1


def test_two_objects_on_one_database(tmp_path: Path) -> None:
    first = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    second = Corpus.open("mail", tmp_path, embedder=HashingEmbedder())
    for number in range(3):
        first.add([f"first {number}"])
        second.add([f"second {number}"])
        expected = list(seen(first))
        assert len(expected) == 2 * number + 2
        assert list(seen(second)) == expected


def test_a_corpus_held_by_another_process_is_waited_for_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpicl_rag.corpora.storage.PATIENCE_S", 0.05)
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    with closing(sqlite3.connect(tmp_path / "mail.corpus", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(CorpusError, match="another process holds it"):
            corpus.add(["one"])
        assert seen(corpus) == {}  # a question does not wait for a writer
    corpus.add(["one"])
    assert list(seen(corpus)) == ["one"]


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


class Meddling(HashingEmbedder):
    """Somebody else comes while passages are embedded."""

    def __init__(self, other: Callable[[], None]) -> None:
        super().__init__()
        self.other = other

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:
        self.other()
        return super().embed(texts, query=query)


def mail(text: str, unit: str, *keys: str) -> Document:
    return Document(text, unit, origin=Origin("", keys=keys))


JOINING = {
    "join": lambda other: other.add([mail("the reply", "x", "a", "b")], no_ledger=True),
    "forget": lambda other: other.delete_unit("one"),
    "forget a message": lambda other: other.forget_message("first a", no_ledger=True),
}


@pytest.mark.parametrize("change", JOINING)
def test_no_unit_changes_between_the_place_of_a_document_and_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("dpicl_rag.corpora.storage.PATIENCE_S", 0.05)
    said: list[str] = []
    Corpus.create("mail", tmp_path, embedder=HashingEmbedder()).add(
        [mail("first a", "one", "a"), mail("first b", "two", "b")]
    )

    def meddle() -> None:
        with closing(Corpus.open("mail", tmp_path, embedder=HashingEmbedder())) as other:
            try:
                JOINING[change](other)
            except CorpusError as error:
                said.append(str(error))

    corpus = Corpus.open("mail", tmp_path, embedder=Meddling(meddle))
    corpus.add([mail("second a", "one", "a"), mail("second b", "two", "b")])
    assert said == ["another command is filling corpus 'mail'; run this again when that has ended"]
    said.clear()
    meddle()  # when that has ended
    units = {record.text: record.unit for record in corpus.records()}
    if change == "join":
        assert said == []
        assert len(units) == 5
        assert len(set(units.values())) == 1
    elif change == "forget":
        assert set(units) == {"first b", "second b"}


def ingest(path: Path, name: int) -> None:
    corpus = Corpus.open("mail", path, embedder=HashingEmbedder())
    for number in range(10):
        corpus.add([Document(f"note {name} {number} {row}", f"unit {name}") for row in range(60)])


def ask(path: Path, stop: Any) -> None:
    """Ask until told to stop: a unit's notes are its own, and come a whole load at a time."""
    corpus = Corpus.open("mail", path, embedder=HashingEmbedder())
    while not stop.is_set():
        counts: dict[str, int] = {}
        for document in ThresholdRetriever(corpus, -1).retrieve("q"):
            assert document.unit == f"unit {document.text.split()[1]}"
            counts[document.unit] = counts.get(document.unit, 0) + 1
        assert all(count % 60 == 0 for count in counts.values())


@pytest.mark.heavy
@pytest.mark.stress
def test_two_ingests_and_eight_askers(tmp_path: Path) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    askers = [context.Process(target=ask, args=(tmp_path, stop)) for _ in range(8)]
    workers = [context.Process(target=ingest, args=(tmp_path, name)) for name in range(2)]
    for process in (*askers, *workers):
        process.start()
    for worker in workers:
        worker.join()
    stop.set()
    for asker in askers:
        asker.join()
    assert [process.exitcode for process in (*workers, *askers)] == [0] * 10
    found = seen(corpus)
    assert len(found) == 1200
    expected = on_grid(HashingEmbedder().embed(list(found)))
    vectors = np.stack([passage.vector for passage in found.values()])
    assert np.array_equal(vectors, expected)


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


@pytest.mark.heavy
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
    with pytest.raises(CorpusError, match="there is no corpus 'mail' in"):
        seen(corpus)
    with pytest.raises(CorpusError, match="there is no corpus 'mail' in"):
        corpus.add(["more"])
    assert not path.exists()


class TestReplaced:
    """A corpus that was deleted, and maybe made anew as another, while somebody has it open."""

    def test_private_texts_are_not_read_as_the_public_ones_before(self, tmp_path: Path) -> None:
        handbook = Corpus.create("handbook", tmp_path, embedder=HashingEmbedder(), public=True)
        handbook.add(["opening hours"])
        knowledge = PublicDocuments(handbook, least=-1.0)
        assert knowledge.recall("hours") == ["opening hours"]
        Corpus.delete("handbook", tmp_path)
        with Corpus.create("handbook", tmp_path, embedder=HashingEmbedder()) as private:
            private.add([Document("a diagnosis", "ann")])
        with pytest.raises(CorpusError, match="made anew as another"):
            knowledge.recall("hours")

    def test_nothing_is_stored_in_a_corpus_that_was_deleted(self, tmp_path: Path) -> None:
        late = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
        Corpus.delete("mail", tmp_path)
        with pytest.raises(CorpusError, match="was deleted"):
            late.add([Document("a diagnosis", "ann")])
        assert Corpus.create("mail", tmp_path, embedder=HashingEmbedder()).records() == []

    def test_one_that_is_made_again_alike_goes_on(self, tmp_path: Path) -> None:
        served = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
        Corpus.delete("mail", tmp_path)
        Corpus.create("mail", tmp_path, embedder=HashingEmbedder()).add(["a note"])
        assert seen(served).keys() == {"a note"}

    def test_deleting_waits_for_who_fills_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dpicl_rag.corpora.storage.PATIENCE_S", 0.0)

        class Deletes(HashingEmbedder):
            def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:
                with pytest.raises(CorpusError, match="another command is filling"):
                    Corpus.delete("mail", tmp_path)
                return super().embed(texts, query=query)

        corpus = Corpus.create("mail", tmp_path, embedder=Deletes())
        corpus.add(["a note"])
        assert [record.text for record in corpus.records()] == ["a note"]
