"""Who may read a store: its owner."""

import os
import stat
from pathlib import Path
from uuid import uuid4

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import CorpusError
from dpicl_rag.files.private_folder import make_private
from tests.unit.conftest import HashingEmbedder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_all(path: Path) -> None:
    """As a plain Chroma client leaves a store under the usual umask."""
    for folder, _, files in os.walk(path):
        Path(folder).chmod(0o755)
        for name in files:
            (Path(folder) / name).chmod(0o644)


@pytest.fixture
def store(tmp_path: Path, embedder: HashingEmbedder) -> Path:
    path = tmp_path / "store"
    Corpus.create("mail", path, embedder=embedder).add(["a note"])
    (path / "chroma.sqlite3-wal").touch()
    (path / str(uuid4())).mkdir()
    (path / str(uuid4()) / "x").parent.mkdir()
    open_to_all(path)
    return path


@pytest.mark.parametrize("write", [False, True])
def test_a_store_that_exists_becomes_private(
    store: Path, embedder: HashingEmbedder, write: bool
) -> None:
    corpus = Corpus.open("mail", store, embedder=embedder)
    if write:
        corpus.add(["another"])
    assert len(corpus.records()) == 1 + write
    assert mode(store) == 0o700
    assert {path.name: mode(path) for path in store.iterdir()} == {
        path.name: 0o700 if path.is_dir() else 0o600 for path in store.iterdir()
    }


def test_a_shared_folder_keeps_its_mode_and_the_stores_files_do_not(
    store: Path, embedder: HashingEmbedder
) -> None:
    other = store / "report.txt"
    other.write_text("for all to read")
    (store / "public").mkdir(mode=0o755)
    open_to_all(store)
    Corpus.open("mail", store, embedder=embedder).scan(np.ones(16))
    assert mode(store) == 0o755
    assert (mode(other), mode(store / "public")) == (0o644, 0o755)
    assert mode(store / "chroma.sqlite3") == mode(store / "dpicl-rag.lock") == 0o600


def test_a_sticky_folder_keeps_its_mode(tmp_path: Path, embedder: HashingEmbedder) -> None:
    tmp_path.chmod(0o1777)
    Corpus.create("mail", tmp_path, embedder=embedder)
    assert mode(tmp_path) == 0o777 | stat.S_ISVTX
    assert mode(tmp_path / "chroma.sqlite3") == 0o600


def test_a_new_store_in_a_shared_folder_is_private_from_its_first_byte(
    tmp_path: Path, embedder: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.txt").touch()
    tmp_path.chmod(0o755)
    original = chromadb.PersistentClient

    def check(*arguments: object, **options: object) -> object:
        assert mode(tmp_path / "chroma.sqlite3") == 0o600
        return original(*arguments, **options)

    monkeypatch.setattr(chromadb, "PersistentClient", check)
    Corpus.create("mail", tmp_path, embedder=embedder).add([f"note {n}" for n in range(1100)])
    assert mode(tmp_path) == 0o755
    modes = {path.name: mode(path) for path in tmp_path.iterdir() if path.name != "report.txt"}
    # The database, the lock, the folder of an index, the vectors and what is known of them.
    assert len(modes) == 5
    assert not any(bits & 0o077 for bits in modes.values())


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch(mode=0o644)
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "chroma.sqlite3-journal").symlink_to(outside)
    make_private(folder)
    assert mode(outside) == 0o644


def test_the_folder_of_a_client_is_its_programs_affair(
    tmp_path: Path, embedder: HashingEmbedder
) -> None:
    tmp_path.chmod(0o755)
    with chromadb.PersistentClient(tmp_path, Settings(anonymized_telemetry=False)) as client:
        collection = client.create_collection("theirs", embedding_function=None)
        collection.add(["r"], embeddings=np.ones((1, 16)), documents=["x"], metadatas=[{"u": "1"}])
        before = mode(tmp_path / "chroma.sqlite3")
        Corpus.from_collection(collection, unit_field="u", embedder=embedder).scan(np.ones(16))
        assert (mode(tmp_path), mode(tmp_path / "chroma.sqlite3")) == (0o755, before)


def test_another_users_files_are_left_alone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    make_private(store)
    assert mode(store) == 0o755


def test_a_disk_without_permissions_is_refused(
    store: Path, embedder: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(CorpusError, match="cannot be kept from other users; give a folder"):
        Corpus.open("mail", store, embedder=embedder)
