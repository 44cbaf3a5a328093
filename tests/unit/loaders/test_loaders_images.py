"""Folders of images with labels."""

from __future__ import annotations

import pytest

from dpicl_rag.documents import Document, as_documents, group_by_unit
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import load_images
from dpicl_rag.loaders.records import LINK, UNSUPPORTED
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


def test_folders_without_images_are_refused(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    with pytest.raises(LoaderError, match="holds no images; give a folder with a folder for each"):
        load_images(tmp_path / "empty")
    for path in (tmp_path / "missing", folder / "cat" / "1.png"):
        with pytest.raises(LoaderError, match="is no folder"):
            load_images(path)
    with pytest.raises(LoaderError, match="holds no images"):
        load_images(folder / "dog" / "rex")  # no labels


def test_an_image_stays_with_its_document_under_another_unit():
    document = Document("cat", "1", {"owner": "ann"}, image=b"x")
    (found,) = as_documents([document], "owner")
    assert (found.unit, found.image) == ("ann", b"x")
    assert repr(found) == "Document(<private>)"
