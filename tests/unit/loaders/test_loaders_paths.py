"""Kinds of files, directories, maildirs, units, and errors."""

import gzip
import mailbox
import os
from collections import Counter
from pathlib import Path

import pytest

from dpicl_rag.documents import Document
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import LoadReport, LoadResult, Skipped, load
from dpicl_rag.loaders.characters import decode
from dpicl_rag.loaders.reasons import LINK

MAIL = b"Message-ID: <%d@x>\nFrom: A%d@x.org\nSubject: %s\n\nwords %d\n"


def mail(number: int, subject: str = "", answers: int | None = None) -> bytes:
    raw = MAIL % (number, number, subject.encode(), number)
    return raw if answers is None else b"In-Reply-To: <%d@x>\n" % answers + raw


@pytest.fixture
def maildir(tmp_path: Path) -> Path:
    path = tmp_path / "Maildir"
    box = mailbox.Maildir(path, create=True)
    for number in range(3):
        box.add(mail(number))
    box.add_folder("Sent").add(mail(3, answers=0))
    (path / "tmp" / "1.half").write_bytes(b"half a mess")
    return path


def test_a_maildir_with_a_folder(maildir: Path) -> None:
    found = load(maildir)
    texts = sorted(document.text.split("\n")[-1] for document in found.documents)
    assert texts == ["words 0", "words 1", "words 2", "words 3"]
    assert len({document.unit for document in found.documents}) == 3
    # The marker of a folder is a file and no mail.
    assert [item.reason for item in found.report.skipped] == ["empty"]


def test_a_directory_of_anything(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.eml").write_bytes(mail(1, "Plans"))
    (tmp_path / "b.txt").write_text("a note")
    (tmp_path / "c.csv").write_text("name,age\nAnn,41\n,\n")
    (tmp_path / "d.html").write_text("<p>a page</p>")
    (tmp_path / "e.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    (tmp_path / "f.txt").write_text(" \n")
    (tmp_path / "g.txt").write_bytes(b"a\x00b")
    (tmp_path / "sub" / "box.mbox").write_bytes(
        b"From x Mon Dec 13 07:05:00 2000\n" + mail(2, "Re: plans", 1) + b"\n"
        b"From x Mon Dec 13 07:05:00 2000\nnonsense\n"
    )
    (tmp_path / "sub" / "7.").write_bytes(mail(7))
    (tmp_path / "sub" / "h.txt.gz").write_bytes(gzip.compress(b"a packed note"))
    found = load(tmp_path)
    texts = [document.text.split("\n")[-1] for document in found.documents]
    assert texts == [
        "words 1", "a note", "age: 41", "a page", "words 7", "words 2", "a packed note",
    ]  # fmt: skip
    assert found.report == LoadReport(
        12,
        7,
        (
            Skipped("c.csv: row 2 (line 3)", "empty"),
            Skipped("e.png", "not a supported kind of file"),
            Skipped("f.txt", "empty"),
            Skipped("g.txt", "binary data"),
            Skipped("sub/box.mbox: message 2 (byte 113)", "no mail headers"),
        ),
        unit="one document or one email thread or one row",
        text=("name", "age"),
        persons=("name",),
    )
    assert found.documents[0].unit == found.documents[5].unit


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"From x Mon Dec 13 07:05:00 2000\n" + MAIL % (1, 1, b"s", 1), "words 1"),
        (MAIL % (1, 1, b"s", 1), "words 1"),
        (b"just a note", "just a note"),
        ("ein Gruß".encode(), "ein Gruß"),
        ("ein Gruß".encode("utf-16"), "ein Gruß"),
        (b"Note: this is no mail\n\nat all", "at all"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_name_that_says_nothing(
    tmp_path: Path, content: bytes, expected: str, zipped: bool
) -> None:
    path = tmp_path / "Inbox"
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert load(path).documents[0].text.endswith(expected)


def test_default_units(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(mail(1))
    (tmp_path / "b.eml").write_bytes(mail(2, answers=1))
    (tmp_path / "c.txt").write_text("a note")
    one, two, three = (document.unit for document in load(tmp_path).documents)
    assert one == two != three
    assert len({document.unit for document in load(tmp_path, unit="document").documents}) == 3


def test_sender_as_unit(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(b"From: Ann <A@X.org>\n\nx")
    (tmp_path / "b.eml").write_bytes(b"From: a@x.ORG\n\ny")
    (tmp_path / "c.eml").write_bytes(b"Subject: from nobody\n\nz")
    found = load(tmp_path, unit="sender")
    assert [document.unit for document in found.documents] == ["a@x.org", "a@x.org"]
    assert found.report.skipped == (Skipped("c.eml", "no value for the privacy unit"),)


def test_a_header_as_unit(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(b"X-Folder: Inbox\n" + mail(1))
    (tmp_path / "b.eml").write_bytes(mail(2))
    found = load(tmp_path, unit="X-Folder")
    assert [document.unit for document in found.documents] == ["Inbox"]
    assert found.report.columns == ()
    nobody = load(tmp_path, unit="X-Case")
    assert nobody.documents == []
    assert {"sender", "x-folder"} <= set(nobody.report.columns)


def test_the_thread_is_in_the_metadata(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(mail(1))
    document = load(tmp_path / "a.eml", unit="sender").documents[0]
    assert document.metadata["thread"] == load(tmp_path).documents[0].unit
    assert document.unit == document.metadata["sender"] == "a1@x.org"


def test_an_edited_file_stays_one_unit(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    before = load(path).documents[0]
    path.write_text("two")
    after = load(path).documents[0]
    assert before.text != after.text
    assert before.unit == after.unit
    assert before.metadata == {"file": "a.txt"}


def test_progress_counts_every_record(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\nbroken\n{"a": 2}\n')
    seen: list[tuple[float, float | None]] = []
    load(tmp_path, on_progress=lambda *at: seen.append(at))
    assert seen == [(1, None), (2, None), (3, None)]


def test_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(LoaderError, match="does not exist"):
        load(tmp_path / "none")
    with pytest.raises(LoaderError, match="does not exist"):
        load("nul\x00name")


@pytest.mark.parametrize("name", ["a.mbox", "a.csv", "a.jsonl"])
def test_a_file_without_records(tmp_path: Path, name: str) -> None:
    """An error would tell that nobody is there."""
    (tmp_path / name).write_bytes(b"")
    assert load(tmp_path / name) == LoadResult([], LoadReport(0, 0, ()))


def test_an_empty_directory(tmp_path: Path) -> None:
    assert load(tmp_path) == LoadResult([], LoadReport(0, 0, ()))


def test_a_kind_that_is_not_supported(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"PK\x03\x04\x00")
    with pytest.raises(LoaderError, match="not a supported kind of file; supported: mbox"):
        load(tmp_path / "a.bin")


def test_a_file_of_nothing_readable_tells_why_and_not_what(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("my secret\n")
    report = LoadReport(1, 0, (Skipped("line 1", "not valid JSON"),))
    assert load(tmp_path / "a.jsonl") == LoadResult([], report)


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "a.txt").write_text("a note")
    assert load(tmp_path).report.skipped == (Skipped("pipe.txt", "not a supported kind of file"),)
    with pytest.raises(LoaderError, match="neither a file nor a directory"):
        load(tmp_path / "pipe.txt")


def test_links_are_not_followed_and_each_is_reported(tmp_path: Path) -> None:
    outside, given = tmp_path / "outside", tmp_path / "given"
    for folder in (outside, given, given / "sub"):
        folder.mkdir()
        (folder / "note.txt").write_text(f"in {folder.name}")
    (given / "a.txt").symlink_to(outside / "note.txt")
    (given / "b.txt").symlink_to("note.txt")  # the same text would be two units
    (given / "dir").symlink_to(outside)
    (given / "sub" / "up").symlink_to("..")
    found = load(given)
    assert [document.text for document in found.documents] == ["in given", "in sub"]
    names = ["a.txt", "b.txt", "dir", "sub/up"]
    assert found.report.skipped == tuple(Skipped(name, LINK) for name in names)
    assert found.report.read == 6
    # What the owner names may be a link.
    (tmp_path / "link").symlink_to(given)
    assert load(tmp_path / "link").documents == found.documents
    assert load(given / "a.txt").documents[0].text == "in outside"


def test_a_file_that_cannot_be_opened_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a note")
    (tmp_path / "b.txt").symlink_to(tmp_path / "gone")
    (tmp_path / "c.txt.gz").write_bytes(b"\x1f\x8b broken")
    assert Counter(item.reason for item in load(tmp_path).report.skipped) == {
        LINK: 1,
        "the file is damaged; nothing of it is loaded": 1,
    }


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("naïve".encode(), "naïve"),
        ("naïve".encode("utf-8-sig"), "naïve"),
        ("naïve".encode("utf-16"), "naïve"),
        ("naïve".encode("cp1252"), "naïve"),
        ("“naïve”".encode("cp1252"), "“naïve”"),
        ("naïve café ".encode() * 3 + b"\xff", "naïve café " * 3 + "\ufffd"),
        (b"\x81", "\ufffd"),
        (b"", ""),
    ],
)
def test_decode(raw: bytes, expected: str) -> None:
    assert decode(raw) == expected


def test_documents_do_not_show_their_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("my secret")
    found = load(tmp_path / "a.txt")
    assert isinstance(found.documents[0], Document)
    assert "my secret" not in repr(found)
