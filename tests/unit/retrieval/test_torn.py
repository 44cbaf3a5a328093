"""An index that a process was killed over: nothing is lost, nothing crashes."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from chromadb.api.models.Collection import Collection

from dpicl_rag.corpora import Corpus, corpus
from dpicl_rag.documents import Document, Origin
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.torn import Note
from tests.unit.conftest import (
    Killed,
    Seen,
    TextEmbedder,
    blank,
    filled,
    opened,
    seen,
)

WRITES = 50  # that Chroma keeps in its log
BEFORE = [Document(f"text {number}", f"unit {number % 9}") for number in range(2 * WRITES)]
MORE = [Document(f"later text {number}", f"unit {number % 9}") for number in range(2 * WRITES)]


@pytest.fixture(autouse=True)
def soon_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "_INDEX", {**corpus._INDEX, "sync_threshold": WRITES})


def index(folder: Path) -> Path:
    """The larger of the two folders: the other one is the register's."""
    found = [entry for entry in folder.iterdir() if entry.is_dir() and len(entry.name) == 36]
    return max(found, key=lambda path: (path / "data_level0.bin").stat().st_size)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def killed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tear: Callable[[], None],
    more: Sequence[Document] = MORE,
) -> None:
    """Add more, and end the process with the index torn."""
    upsert = Collection.upsert

    def torn(self: Collection, ids: list[str], **more: object) -> None:
        upsert(self, ids, **more)  # type: ignore[arg-type]
        if self.name == "mail":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Collection, "upsert", torn)
        patch.setattr("dpicl_rag.retrieval.torn.Note.drop", lambda self: None)
        with pytest.raises(Killed):
            opened(folder).add(more)
    tear()


def same(found: dict[str, Seen], expected: dict[str, Seen]) -> bool:
    return found.keys() == expected.keys() and all(
        found[text].unit == expected[text].unit
        and np.array_equal(found[text].vector, expected[text].vector)
        for text in found
    )


@pytest.mark.parametrize("damage", [cut, blank, Path.unlink])
@pytest.mark.parametrize("file", ["index_metadata.pickle", "header.bin", "data_level0.bin"])
def test_all_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, damage: Callable[[Path], None]
) -> None:
    before = filled(tmp_path, BEFORE)
    expected = seen(before)
    whole = filled(tmp_path / "whole", [*BEFORE, *MORE])
    killed(tmp_path, monkeypatch, lambda: damage(index(tmp_path) / file))
    # Who asks waits for nothing, and finds what was there.
    again = opened(tmp_path)
    assert same(seen(again), expected)
    # Who reads all mends it.
    assert {record.text for record in again.records()} == seen(whole).keys()
    assert same(seen(again), seen(whole))
    again.delete_unit("unit 3")
    again.add([Document("a new text", "unit 3")])
    assert len(again.records()) == len(seen(again)) < len(seen(whole))
    assert not (tmp_path / "dpicl-rag.writing").exists()


def test_an_index_that_holds_nothing_yet_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = BEFORE[: WRITES // 2]
    filled(tmp_path, [])
    for count in (10, len(few)):  # the index is made, and made anew
        killed(tmp_path, monkeypatch, lambda: None, few[:count])
        assert not Note(tmp_path).torn()
        assert seen(opened(tmp_path)).keys() == {document.text for document in few[:count]}


@pytest.mark.parametrize("lost", [Path.unlink, blank])
def test_one_that_held_something_and_holds_nothing_is_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: Callable[[Path], None]
) -> None:
    filled(tmp_path, BEFORE)
    killed(tmp_path, monkeypatch, lambda: None)
    (index(tmp_path) / "index_metadata.pickle").unlink()
    lost(index(tmp_path) / "header.bin")
    assert Note(tmp_path).torn()
    assert len(opened(tmp_path).records()) == len(BEFORE) + len(MORE)


def test_a_kill_while_it_is_mended_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, BEFORE)
    killed(tmp_path, monkeypatch, lambda: cut(index(tmp_path) / "index_metadata.pickle"))
    killed(tmp_path, monkeypatch, lambda: None)
    again = opened(tmp_path)
    again.add(MORE)
    assert seen(again).keys() == {document.text for document in [*BEFORE, *MORE]}


def test_only_what_is_not_known_is_embedded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, BEFORE)
    killed(tmp_path, monkeypatch, lambda: cut(index(tmp_path) / "index_metadata.pickle"))
    again = opened(tmp_path)
    embedded: list[str] = []
    embed = again.embedder.embed

    def count(texts: list[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        embedded.extend(texts)
        return embed(texts, query=query)

    monkeypatch.setattr(again.embedder, "embed", count)
    assert len(again.records()) == len(BEFORE) + len(MORE)
    assert sorted(embedded) == sorted(document.text for document in MORE)


def test_without_the_note_it_would_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: a note that says that all is well."""
    filled(tmp_path, BEFORE)
    killed(tmp_path, monkeypatch, lambda: cut(index(tmp_path) / "index_metadata.pickle"))
    monkeypatch.setattr("dpicl_rag.retrieval.torn.Note.torn", lambda self: set())
    with pytest.raises(CorpusError):
        opened(tmp_path).records()


def test_a_register_is_mended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = [
        Document(f"text of {number}", f"name {number}", origin=Origin(keys=(f"key {number}",)))
        for number in range(1200)
    ]
    filled(tmp_path, BEFORE).add(keyed)
    entries = [entry for entry in tmp_path.iterdir() if entry.is_dir() and len(entry.name) == 36]
    (register,) = [entry for entry in entries if entry != index(tmp_path)]
    killed(tmp_path, monkeypatch, lambda: cut(register / "index_metadata.pickle"))
    again = opened(tmp_path)
    again.add([Document("one more", "another", origin=Origin(keys=("key 7",))), *MORE])
    units = {record.text: record.unit for record in again.records()}
    assert len(units) == len(BEFORE) + len(MORE) + len(keyed) + 1
    assert units["one more"] == "name 7"


WRITER = """
import sys
from dpicl_rag import Corpus, Document
from tests.unit.conftest import TextEmbedder
corpus = Corpus.open("mail", sys.argv[1], embedder=TextEmbedder())
print("go", flush=True)
for number in range(10**6):
    corpus.add([Document(f"{sys.argv[2]} {number} {one}", f"unit {one}") for one in range(500)])
    print("written", flush=True)
"""


@pytest.mark.stress
def test_kills_while_an_index_is_written(tmp_path: Path) -> None:
    Corpus.create("mail", tmp_path, embedder=TextEmbedder()).close()
    written = 0
    for kill in range(8):
        arguments = [sys.executable, "-c", WRITER, str(tmp_path), str(kill)]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        note = Note(tmp_path)
        before = note._indexes()
        while note._indexes() == before and process.poll() is None:
            pass
        process.send_signal(signal.SIGKILL)
        written += 500 * process.stdout.read().count("written")
        process.wait()
        process.stdout.close()
        again = opened(tmp_path)
        texts = [record.text for record in again.records()]
        assert len(texts) == len(set(texts)) >= written
        assert seen(again).keys() == set(texts)
        again.close()
