"""A Chroma server: questions read it once, and see what this library writes at once."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.api import ClientAPI
from chromadb.api.fastapi import FastAPI
from chromadb.config import Settings

from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval import ThresholdRetriever
from tests.support.chroma_server import chroma_server
from tests.unit.conftest import HashingEmbedder, seen

NOTES = [Document(f"note {number} about refunds", f"the unit {number % 7}") for number in range(30)]


def connected(port: int) -> ClientAPI:
    return chromadb.HttpClient("127.0.0.1", port, settings=Settings(anonymized_telemetry=False))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server in a process of its own."""
    with chroma_server(tmp_path_factory.mktemp("server")) as number:
        yield number


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("dpicl_rag.retrieval.server.user_cache_dir", lambda *_, **__: str(tmp_path))
    return tmp_path / "servers"


@pytest.fixture
def corpus(port: int, cache: Path, request: pytest.FixtureRequest) -> Corpus:
    name = request.node.name.replace("[", "-").strip("]")
    made = Corpus.create(name, client=connected(port), embedder=HashingEmbedder())
    made.add(NOTES)
    return made


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the requests to the server, and how many vectors were asked for."""
    made: list[str] = []
    original = FastAPI._make_request

    def request(self: FastAPI, method: str, path: str, **options: Any) -> Any:
        wanted = (options.get("json") or {}).get("include") or []
        made.append(path + (" vectors" if "embeddings" in wanted else ""))
        return original(self, method, path, **options)

    monkeypatch.setattr(FastAPI, "_make_request", request)
    return made


def again(corpus: Corpus, port: int, **options: Any) -> Corpus:
    """The same corpus in another process, as far as this one knows."""
    assert corpus.name is not None
    return Corpus.open(corpus.name, client=connected(port), embedder=HashingEmbedder(), **options)


def test_it_finds_what_an_exact_scan_of_everything_finds(corpus: Corpus) -> None:
    whole = corpus._snapshot()
    near = whole.scan(corpus.embedder.embed(["note 3 about refunds"], query=True)[0], 0.5)
    expected = [passage.document for passage in near.passages(range(len(near.units)))]
    assert ThresholdRetriever(corpus, 0.5).retrieve("note 3 about refunds") == expected
    where = {"dpicl_position": "0"}
    assert seen(corpus, where).keys() == {note.text for note in NOTES}
    assert seen(corpus, {"dpicl_position": "9"}) == {}


def test_many_questions_at_once_read_the_server_once(
    corpus: Corpus, port: int, requests: list[str]
) -> None:
    other = again(corpus, port)
    requests.clear()
    found: list[int] = []

    def ask() -> None:
        retriever = ThresholdRetriever(other, -1)
        found.extend(len(retriever.retrieve("refunds")) for _ in range(3))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [len(NOTES)] * 48
    assert sum("vectors" in path for path in requests) == 1
    # Nor does another process read what this one has.
    requests.clear()
    assert len(seen(again(corpus, port))) == len(NOTES)
    assert sum("vectors" in path for path in requests) == 0


def test_what_is_written_and_forgotten_is_seen_at_once_and_by_others(
    corpus: Corpus, port: int, cache: Path, requests: list[str]
) -> None:
    other = again(corpus, port)
    assert len(seen(corpus)) == len(seen(other)) == len(NOTES)
    corpus.add(["a late note"])
    requests.clear()
    assert "a late note" in seen(other)
    assert "a late note" in seen(corpus)
    assert sum("vectors" in path for path in requests) == 1  # of what came alone
    begun = other.scan(np.ones(16))
    corpus.delete_unit("the unit 3")
    held = b"".join(path.read_bytes() for path in cache.iterdir())
    assert b"the unit 3" not in held
    assert b"the unit 4" in held
    assert "the unit 3" not in {passage.unit for passage in seen(other).values()}
    passages = begun.passages(range(len(begun.units)))
    assert "the unit 3" not in {document.unit for document, _ in passages}


def test_the_files_are_the_owners_alone(corpus: Corpus, cache: Path) -> None:
    seen(corpus)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in cache.iterdir()} == {0o600}


def test_units_that_become_one_are_one_in_the_file(corpus: Corpus, port: int) -> None:
    from dpicl_rag.documents import Origin

    corpus.add([Document("first", "m1", origin=Origin(keys=("key 1",)))], no_ledger=True)
    corpus.add([Document("second", "m2", origin=Origin(keys=("key 2",)))], no_ledger=True)
    assert {"m1", "m2"} <= {passage.unit for passage in seen(corpus).values()}
    joins = Document("third", "m3", origin=Origin(keys=("key 1", "key 2")))
    corpus.add([joins], no_ledger=True)
    for source in (corpus, again(corpus, port)):
        assert {seen(source)[text].unit for text in ("first", "second", "third")} == {"m1"}
    ((name,),) = [join.documents for join in corpus.joins()]
    other = again(corpus, port)
    corpus.forget_message(name, no_ledger=True)
    for source in (corpus, other):
        assert "third" not in seen(source)
        assert [seen(source)[text].unit for text in ("first", "second")] == ["m1", "m2"]


def test_another_program_is_seen_by_its_count_or_in_time(
    port: int, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connected(port)
    theirs = client.create_collection("theirs", embedding_function=None)
    vectors = np.eye(16)[:3]
    theirs.add(
        ["1", "2", "3"], embeddings=vectors, documents=["one", "two", "three"],
        metadatas=[{"who": "a"}, {"who": "b"}, {"who": "b"}],
    )  # fmt: skip
    corpus = Corpus.from_collection(theirs, unit_field="who", embedder=HashingEmbedder())
    assert seen(corpus).keys() == {"one", "two", "three"}
    theirs.add(["4"], embeddings=vectors[:1], documents=["four"], metadatas=[{"who": "c"}])
    assert seen(corpus).keys() == {"one", "two", "three", "four"}
    theirs.update(["1"], documents=["uno"], embeddings=vectors[1:2])
    assert seen(corpus)["uno"].vector[0] == 1  # the vector of before, for a public time
    now = time.time()
    monkeypatch.setattr("dpicl_rag.retrieval.server.time.time", lambda: now + 61)
    assert seen(corpus)["uno"].vector.tolist() == vectors[1].tolist()
    corpus.delete_unit("b")
    assert seen(corpus).keys() == {"uno", "four"}


def test_a_damaged_file_is_read_anew(corpus: Corpus, cache: Path) -> None:
    expected = seen(corpus).keys()
    corpus.close()
    for suffix in (".vectors", ".rows"):
        (path,) = cache.glob(f"*{suffix}")
        path.write_bytes(bytes(path.stat().st_size))
        assert seen(corpus).keys() == expected
        corpus.close()


@pytest.mark.parametrize("fault", [False, True])
def test_what_is_forgotten_goes_under_every_spelling_of_the_address(
    corpus: Corpus, port: int, cache: Path, monkeypatch: pytest.MonkeyPatch, fault: bool
) -> None:
    if fault:
        monkeypatch.setattr("dpicl_rag.retrieval.server._remove_others", lambda *_: None)
    assert corpus.name is not None
    spelled = {"embedder": HashingEmbedder()}
    other = Corpus.open(corpus.name, f"http://localhost:{port}", **spelled)
    assert len(seen(corpus)) == len(seen(other)) == len(NOTES)
    assert len(list(cache.glob("*.rows"))) == 2
    corpus.delete_unit("the unit 3")
    held = b"".join(path.read_bytes() for path in cache.iterdir())
    assert (b"the unit 3" in held) is fault
    assert b"the unit 4" in held
    assert seen(other).keys() == seen(corpus).keys()
    other.close()


def test_a_corpus_that_is_deleted_leaves_no_file(corpus: Corpus, port: int, cache: Path) -> None:
    assert corpus.name is not None
    seen(corpus)
    Corpus.delete(corpus.name, f"http://127.0.0.1:{port}")
    assert not [path for path in cache.iterdir() if path.suffix != ".lock"]
    with pytest.raises(CorpusError, match="no corpus named"):
        Corpus.delete(corpus.name, f"http://127.0.0.1:{port}")
