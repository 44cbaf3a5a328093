"""Folders of images with labels."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from dpicl_rag.documents import Document, as_documents, group_by_unit
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import load_images
from dpicl_rag.loaders.reasons import LINK, UNREADABLE_FOLDER, UNSUPPORTED
from tests.support.images import an_image, unreadable


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "photos"
    for name in ("cat/1.png", "cat/2.JPG", "dog/1.png", "dog/rex/1.png", "dog/rex/2.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(an_image(format="PNG"))
    (root / "cat" / "rex").mkdir()
    (root / "cat" / "rex" / "3.jpeg").write_bytes(an_image(format="JPEG"))
    return root


def test_a_folder_is_a_label_and_a_folder_inside_is_a_unit(folder):
    found = load_images(folder)
    assert [(d.text, d.image.name) for d in found.documents] == [
        *(("cat", name) for name in ("1.png", "2.JPG", "3.jpeg")),
        *(("dog", name) for name in ("1.png", "1.png", "2.png")),
    ]
    units = group_by_unit(found.documents)
    assert {unit: len(own) for unit, own in units.items()} == {
        "cat/1.png": 1,
        "cat/2.JPG": 1,
        "dog/1.png": 1,
        "rex": 3,
    }
    assert found.documents[0].metadata == {"label": "cat", "file": "cat/1.png"}
    assert found.report.read == found.report.loaded == 6


def test_what_is_no_image_by_its_name_is_accounted_for(folder, tmp_path):
    (folder / "cat" / "notes.txt").write_text("a note")
    (folder / "loose.png").write_bytes(an_image())
    (folder / "cat" / "link.png").symlink_to(folder / "dog" / "1.png")
    (folder / "linked").symlink_to(folder / "dog")
    report = load_images(folder).report
    assert {item.position: item.reason for item in report.skipped} == {
        "cat/notes.txt": UNSUPPORTED,
        "loose.png": UNSUPPORTED,
        "cat/link.png": LINK,
        "linked": LINK,
    }
    assert report.read == report.loaded + len(report.skipped) == 10


@pytest.mark.parametrize("wrong", sorted(unreadable()))
def test_a_damaged_image_is_loaded_like_any_other(folder, wrong):
    before = load_images(folder)
    (folder / "cat" / "1.png").write_bytes(unreadable()[wrong])
    assert load_images(folder) == before


def test_a_folder_without_images_is_no_error(tmp_path, folder):
    """Whether there is a picture at all is told by nobody: one unit would decide it."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "rose").mkdir()
    assert load_images(tmp_path / "empty").documents == []
    no_labels = load_images(folder / "dog" / "rex")
    assert (no_labels.documents, len(no_labels.report.skipped)) == ([], 2)
    for path in (tmp_path / "missing", folder / "cat" / "1.png"):
        with pytest.raises(LoaderError, match="is no folder"):
            load_images(path)


def test_a_folder_that_cannot_be_read_costs_its_own_images_alone(folder, monkeypatch):
    whole = load_images(folder).documents
    scan = os.scandir

    def refuse(path):
        if Path(path).name == "rex":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        found = load_images(folder)
    assert found.documents == [document for document in whole if document.unit != "rex"]
    assert {item.position: item.reason for item in found.report.skipped} == {
        "cat/rex": UNREADABLE_FOLDER,
        "dog/rex": UNREADABLE_FOLDER,
    }


@pytest.mark.heavy
def test_a_folder_of_any_depth_stops_nothing(folder):
    before = load_images(folder).documents
    here = os.open(folder / "cat", os.O_RDONLY)
    for _ in range(3_000):  # by descriptors, for the path itself becomes too long for the system
        os.mkdir("a", dir_fd=here)
        deeper = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    try:
        found = load_images(folder)
    finally:
        subprocess.run(["rm", "-r", folder / "cat" / "a"], check=True)  # Python's own way recurses
    assert found.documents == before
    assert [item.reason for item in found.report.skipped] == [UNREADABLE_FOLDER]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b"m\xfcller", b"m\xf6ller", False),  # Latin-1
        (b"m\xfcller", b"m\\xfcller", False),  # what the escape of the former looks like
        ("josé".encode(), "jose\u0301".encode(), True),  # composed, and not
        (b"patient 7", "patient\u00a07".encode(), True),
    ],
)
def test_a_name_is_one_persons_however_it_is_written(tmp_path, one, other, same):
    root = os.fsencode(tmp_path)
    for label, name in ((b"ill", one), (b"well", other)):
        os.makedirs(os.path.join(root, label, name))
        Path(os.fsdecode(os.path.join(root, label, name, b"1.png"))).write_bytes(an_image())
        Path(os.fsdecode(os.path.join(root, label, name + b".png"))).write_bytes(an_image())
    units = [
        document.unit for document in load_images(tmp_path).documents if "." not in document.unit
    ]
    assert (len(units), len(set(units))) == (2, 1 if same else 2)
    json.dumps(units).encode("utf-8")
    files = {document.unit for document in load_images(tmp_path).documents} - set(units)
    assert len(files) == 2


def test_an_image_stays_with_its_document_under_another_unit():
    document = Document("cat", "1", {"owner": "ann"}, image=b"x")
    (found,) = as_documents([document], "owner")
    assert (found.unit, found.image) == ("ann", b"x")
    assert repr(found) == "Document(<private>)"
