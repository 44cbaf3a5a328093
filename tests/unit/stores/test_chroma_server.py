"""Collections reached by an address, in a folder and on a server, and what is kept of them."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from dpicl_rag.errors import CorpusError
from dpicl_rag.knowledge.public_knowledge import PublicDocuments
from dpicl_rag.ledger import Ledger
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.stores import cached_vectors
from dpicl_rag.stores.adoption import account_of, adopt, release
from dpicl_rag.stores.chroma import ChromaCollection
from dpicl_rag.stores.chroma_client import disconnect
from tests.support.chroma_server import chroma_server
from tests.support.snapshot import Snapshot
from tests.unit.conftest import HashingEmbedder, seen

TEXTS = [f"note {number} about refunds" for number in range(30)]
UNITS = [f"the unit {number % 7}" for number in range(30)]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server in a process of its own."""
    with chroma_server(tmp_path_factory.mktemp("server")) as number:
        yield number


@pytest.fixture
def cache(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where our files lie."""
    monkeypatch.setattr(cached_vectors, "user_cache_dir", lambda *_, **__: str(tmp_path / "cache"))
    return tmp_path / ("cache/collections" if place.startswith("http") else "database")


def ours(cache: Path) -> list[Path]:
    return list(cache.glob("dpicl-rag.*"))


@pytest.fixture(params=["folder", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "server":
        return f"http://127.0.0.1:{request.getfixturevalue('port')}"
    (tmp_path / "database").mkdir()
    return str(tmp_path / "database")


@pytest.fixture
def address(place: str, request: pytest.FixtureRequest) -> str:
    """A collection of notes, filled by plain Chroma."""
    name = request.node.name.replace("[", "-").replace("]", "")
    with client(place) as plain:
        made = plain.create_collection(name, embedding_function=None)
        made.add(
            [f"id {number}" for number in range(len(TEXTS))],
            embeddings=HashingEmbedder().embed(TEXTS),
            documents=TEXTS,
            metadatas=[{"who": unit, "odd": len(unit) % 2} for unit in UNITS],
        )
    return f"chroma:{place}#{name}?unit=who"


@contextmanager
def client(place: str) -> Iterator[chromadb.ClientAPI]:
    """Plain Chroma, as another program has it."""
    settings = Settings(anonymized_telemetry=False)
    if place.startswith("http"):
        port = int(place.rpartition(":")[2])
        made = chromadb.HttpClient("127.0.0.1", port, settings=settings)
        yield made
        disconnect(made)
    else:
        with chromadb.PersistentClient(place, settings) as made:
            yield made


def name_of(address: str) -> str:
    return address.partition("#")[2].partition("?")[0]


@pytest.fixture
def corpus(address: str, cache: Path) -> Iterator[ChromaCollection]:
    found = ChromaCollection.open(address, embedder=HashingEmbedder())
    yield found
    found.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows whenever the whole collection is read."""
    calls: list[None] = []
    whole = cached_vectors.CachedVectors.write

    def write(self, *rest):
        calls.append(None)
        return whole(self, *rest)

    monkeypatch.setattr(cached_vectors.CachedVectors, "write", write)
    return calls


@pytest.mark.heavy
def test_it_finds_what_an_exact_scan_of_everything_finds(corpus: ChromaCollection) -> None:
    vectors = HashingEmbedder().embed([record.text for record in corpus.records()])
    whole = Snapshot(corpus.records(), vectors)
    near = whole.scan(corpus.embedder.embed(["note 3 about refunds"], query=True)[0], 0.5)
    expected = [passage.document for passage in near.passages(range(len(near.units)))]
    assert ThresholdRetriever(corpus, 0.5).retrieve("note 3 about refunds") == expected
    assert seen(corpus, {"odd": 0}).keys() == set(TEXTS)
    assert seen(corpus, {"odd": 1}) == {}


@pytest.mark.heavy
def test_many_questions_at_once_read_it_once(
    corpus: ChromaCollection, address: str, reads: list[None]
) -> None:
    found: list[int] = []

    def ask() -> None:
        retriever = ThresholdRetriever(corpus, -1)
        found.extend(len(retriever.retrieve("refunds")) for _ in range(3))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [len(TEXTS)] * 24
    assert len(reads) == 1
    # Nor does another process read what this one has.
    other = ChromaCollection.open(address, embedder=HashingEmbedder())
    assert len(seen(other)) == len(TEXTS)
    assert len(reads) == 1
    other.close()


@pytest.mark.one_in(2)
def test_the_owner_alone_puts_the_unit_on_record(corpus: ChromaCollection, address: str) -> None:
    plain = address.partition("?")[0]
    assert not corpus.adopted
    with pytest.raises(CorpusError, match="corpora adopt"):  # to read it says nothing for good
        ChromaCollection.open(plain, embedder=HashingEmbedder())
    with pytest.raises(CorpusError, match="corpora adopt"):
        corpus.require_ready(address)
    with pytest.raises(CorpusError, match=r"no record of .* has a field 'whom'"):
        adopt(plain, "whom")
    assert adopt(address) == "who"
    again = ChromaCollection.open(plain, embedder=HashingEmbedder())
    assert seen(again).keys() == set(TEXTS)
    again.require_ready(plain)
    again.close()
    with pytest.raises(CorpusError, match="is the same who, not the same odd"):
        ChromaCollection.open(f"{plain}?unit=odd", embedder=HashingEmbedder())
    assert release(plain) == "who"
    assert adopt(plain, "document") == "document"


@pytest.mark.one_in(2)
def test_the_unit_that_was_paid_for_is_the_one_on_record(address: str, tmp_path: Path) -> None:
    """In whatever order the two are written, by whatever ledger: none keeps all answers out."""
    plain = address.partition("?")[0]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        for cost in (0.0, 0.1):
            with ledger.reserve(
                corpus="other", source=name_of(address), rho=1.0, unit_field="who"
            ) as held:
                held.commit(cost)
            adopt(plain, "document", None if cost else ledger)
            assert release(plain, ledger) == "document"
        with pytest.raises(CorpusError, match="adopt it with --unit who"):
            adopt(plain, "document", ledger)
        assert adopt(plain, "who", ledger) == "who"
        with pytest.raises(CorpusError, match="were paid for under its unit"):
            release(plain, ledger)


def test_what_is_in_a_collection_is_its_owners_to_see(address: str, cache: Path) -> None:
    found = account_of(address.partition("?")[0])
    assert (found.records, found.unit) == (len(TEXTS), None)
    assert found.fields["who"] == len(TEXTS)
    assert any("corpora adopt" in line for line in found.missing)
    asked = account_of(f"{address.partition('?')[0]}?unit=whom")
    assert (asked.unit, asked.asked) == (None, "whom")
    assert f"{len(TEXTS)} records without the unit 'whom'" in asked.missing
    adopt(address)
    assert account_of(address).unit == "who"
    assert account_of(address.replace("who", "odd")).missing == (
        "the unit on record is 'who', not 'odd'",
    )


def test_a_collection_of_another_model_is_refused_before_a_question(
    address: str, cache: Path
) -> None:
    class Wide(HashingEmbedder):
        def embed(self, texts: Sequence[str], *, query: bool = False) -> np.ndarray:
            return np.ones((len(texts), 99), dtype=np.float32)

    adopt(address)
    wide = ChromaCollection.open(address, embedder=Wide())
    with pytest.raises(CorpusError, match=r"have 16 numbers, .* 99"):
        wide.require_ready(address)
    wide.close()


@pytest.mark.parametrize("place", ["folder"], indirect=True)
def test_a_private_collection_is_not_read_as_the_public_one_before(place: str) -> None:
    def make(text: str, unit: str, **marks: bool | str) -> None:
        with client(place) as plain:
            made = plain.create_collection("handbook", embedding_function=None, metadata=marks)
            vector = HashingEmbedder().embed([text])
            made.add(["1"], embeddings=vector, documents=[text], metadatas=[{"who": unit}])

    make("opening hours", "handbook", dpicl_public=True)
    address = f"chroma:{place}#handbook?unit=who"
    with closing(ChromaCollection.open(address, embedder=HashingEmbedder())) as corpus:
        knowledge = PublicDocuments(corpus, least=-1.0)
        assert knowledge.recall("hours") == ["opening hours"]
        with client(place) as plain:
            plain.delete_collection("handbook")
        make("a diagnosis", "ann", kind="private")
        with pytest.raises(CorpusError, match="made anew as another"):
            knowledge.recall("hours")


def test_what_is_not_there(place: str, cache: Path) -> None:
    with pytest.raises(CorpusError, match="no Chroma collection 'nothing'"):
        ChromaCollection.open(f"chroma:{place}#nothing", embedder=HashingEmbedder())
    with pytest.raises(CorpusError, match="no folder"):
        ChromaCollection.open("chroma:/nowhere/at/all#nothing", embedder=HashingEmbedder())


@pytest.mark.one_in(2)
def test_the_files_are_the_owners_alone(corpus: ChromaCollection, cache: Path) -> None:
    seen(corpus)
    assert len(ours(cache)) == 3
    assert {path.stat().st_mode & 0o777 for path in ours(cache)} == {0o600}
    if cache.name == "collections":
        assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.one_in(2)
def test_a_deleted_unit_is_in_no_file(corpus: ChromaCollection, cache: Path, address: str) -> None:
    other = ChromaCollection.open(address, embedder=HashingEmbedder())
    assert len(seen(other)) == len(TEXTS)
    begun = other.scan(np.ones(16))
    corpus.delete_unit("the unit 3")
    held = b"".join(path.read_bytes() for path in ours(cache))
    assert b"the unit 3" not in held
    assert b"the unit 4" in held
    assert "the unit 3" not in {passage.unit for passage in seen(other).values()}
    passages = begun.passages(range(len(begun.units)))
    assert "the unit 3" not in {document.unit for document, _ in passages}
    other.close()


@pytest.mark.heavy
def test_others_are_seen_by_the_number_of_records_or_in_time(
    corpus: ChromaCollection, place: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen(corpus).keys() == set(TEXTS)
    axes = np.eye(16)
    with client(place) as plain:
        theirs = plain.get_collection(name_of(address), embedding_function=None)
        theirs.add(["new"], embeddings=axes[:1], documents=["four"], metadatas=[{"who": "c"}])
    assert seen(corpus).keys() == {*TEXTS, "four"}
    with client(place) as plain:
        theirs = plain.get_collection(name_of(address), embedding_function=None)
        theirs.update(["new"], documents=["uno"], embeddings=axes[1:2])
    assert seen(corpus)["uno"].vector[0] == 1  # the vector of before, for a public time
    now = time.time()
    monkeypatch.setattr("dpicl_rag.stores.chroma.time.time", lambda: now + 61)
    assert seen(corpus)["uno"].vector.tolist() == axes[1].tolist()


@pytest.mark.heavy
@pytest.mark.parametrize("suffix", [".vectors", ".rows"])
def test_a_damaged_file_is_read_anew(
    corpus: ChromaCollection, cache: Path, address: str, suffix: str
) -> None:
    expected = seen(corpus)
    (path,) = cache.glob(f"dpicl-rag.*{suffix}")
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 4
    path.write_bytes(held)
    other = ChromaCollection.open(address, embedder=HashingEmbedder())
    found = seen(other)
    assert found.keys() == expected.keys()
    for text, passage in found.items():
        assert np.array_equal(passage.vector, expected[text].vector)
    other.close()


@pytest.mark.heavy
def test_a_client_in_memory_is_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_vectors, "user_cache_dir", lambda *_, **__: str(tmp_path / "cache"))
    plain = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    theirs = plain.get_or_create_collection("memory", embedding_function=None)
    try:
        theirs.add(["1"], embeddings=np.eye(16)[:1], documents=["one"])
        corpus = ChromaCollection(theirs, unit_field="document", embedder=HashingEmbedder())
        assert list(seen(corpus)) == ["one"]
        theirs.update(["1"], documents=["uno"], embeddings=np.eye(16)[:1])
        assert list(seen(corpus)) == ["uno"]
        assert not (tmp_path / "cache").exists()
    finally:
        plain.delete_collection("memory")
