"""Bundles: read without their corpus, found by questions, and refused where they were changed."""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from dpicl_rag import Bundle, KnowledgeError
from dpicl_rag.knowledge import PublishedItem
from tests.support.bucket_embedder import BucketEmbedder

POOL = "When does the new pool in the old town open?"


def item(question, text, kind="answer", **given):
    return PublishedItem(kind, question, text, {}, epsilon=1.0, delta=1e-5, rho=0.1, **given)


ITEMS = (
    item(POOL, "At seven."),
    item("Is it about a parcel?", "About 22 (18 to 26) say yes.", "count"),
    item(None, "parcels: about 30", "survey"),
    item("Who repairs the lift?", "The documents do not say.", supported=False),
)


@pytest.fixture
def folder(tmp_path):
    made = Bundle("mail", "thread", 2.0, 1e-5, 0.1, "add_or_remove_one", "2026-11-28", 1, ITEMS)
    files = [f"item-{number}.json" for number in range(len(ITEMS))]
    for file, one in zip(files, ITEMS, strict=True):
        (tmp_path / file).write_bytes(one.content())
    made.write(tmp_path, files)
    return tmp_path


@pytest.fixture
def bundle(folder):
    return Bundle.open(folder, embedder=BucketEmbedder())


@pytest.mark.parametrize(
    ("question", "kind", "text"),
    [
        ("when does the new  pool in the old town open", None, "At seven."),
        (f"Hello. {POOL}", None, "At seven."),
        ("When will the new pool in the old town open?", "answer", "At seven."),
        ("Why does the new pool in the old town open?", None, None),
        ("When does the new pool in the old town close?", None, None),
        (POOL, "count", None),
        ("Is it about a parcel?", None, "About 22 (18 to 26) say yes."),
        ("What are the documents about?", "survey", "parcels: about 30"),
        ("Who repairs the lift?", None, None),
    ],
)
def test_a_question_finds_what_answers_it(bundle, question, kind, text):
    found = bundle.find(question, kind)
    assert (found and found.text) == text


def test_answers_inform_and_counts_do_not(bundle):
    assert bundle.recall(POOL) == [f"Question: {POOL}\nAnswer: At seven."]
    assert bundle.recall("Is it about a parcel?") == []


def test_it_is_read_where_it_was_copied_to(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert Bundle.open(tmp_path / "elsewhere") == Bundle.open(folder)


def test_another_release_may_take_its_place_while_it_is_read(folder, tmp_path, monkeypatch):
    """`publish --again` writes the manifest, and removes what the former one names."""
    later = tmp_path / "later"
    shutil.copytree(folder, later, ignore=shutil.ignore_patterns("later"))
    made = Bundle("mail", "thread", 2.0, 1e-5, 0.1, "add_or_remove_one", "2026-11-29", 2, ITEMS[:1])
    (later / "item-9.json").write_bytes(ITEMS[0].content())
    made.write(later, ["item-9.json"])
    reads, path_read = len(ITEMS) + 1, Path.read_bytes
    for last in range(1, reads + 1):
        place, left = tmp_path / f"at-{last}", [last]
        shutil.copytree(folder, place, ignore=shutil.ignore_patterns("later", "at-*"))

        def read(path, place=place, left=left):
            content = path_read(path)
            left[0] -= 1
            if not left[0]:
                shutil.copytree(later, place, dirs_exist_ok=True)
                for number in range(len(ITEMS)):
                    (place / f"item-{number}.json").unlink()
            return content

        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", read)
            packed = Bundle.packed(place)
        with ZipFile(BytesIO(packed)) as archive:
            archive.extractall(tmp_path / f"out-{last}")
        release = 1 if last == reads else 2
        assert Bundle.open(tmp_path / f"out-{last}").release == release


@pytest.mark.parametrize("file", ["manifest.json", "item-0.json", "item-3.json"])
def test_a_changed_byte_is_refused(folder, file):
    place = folder / file
    place.write_bytes(place.read_bytes().replace(b"1e-05", b"1e-15"))
    with pytest.raises(KnowledgeError, match=rf"{file}: is not as it was published") as refused:
        Bundle.open(folder)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": "dpicl-rag bundle"}', b"\xff"])
def test_what_is_no_manifest_is_refused(folder, content):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(KnowledgeError, match=r"not as it was published|another version"):
        Bundle.open(folder)


def test_a_missing_file_is_refused(folder):
    (folder / "item-1.json").unlink()
    with pytest.raises(KnowledgeError, match=r"item-1\.json"):
        Bundle.open(folder)
    with pytest.raises(KnowledgeError, match="holds no bundle"):
        Bundle.open(folder / "none")
