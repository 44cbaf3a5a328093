"""Records made to take hours or memory: each costs itself, and is read as if it were alone."""

from __future__ import annotations

import json
import os
import time
from itertools import islice, product
from pathlib import Path

import pytest

from dpicl_rag.conversion import Conversions
from dpicl_rag.conversion.confinement import ProcessLimits
from dpicl_rag.conversion.conversions import REASONS, Outcome
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import LoadResult, characters, load, parsing, reasons
from dpicl_rag.loaders.mail_parts import LONGEST_HEADER, MOST_PARTS

POSTMARK = b"From x Mon Dec 13 07:05:00 2000\n"
MARKS = "\u0315\u0300"
HEAD = b"From: eve@b.c\nMessage-ID: <eve@b.c>\nMIME-Version: 1.0\n"


def nested(depth: int) -> bytes:
    """Parts within parts; the last says something."""
    raw = b""
    for level in range(depth):
        raw += b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (level, level)
    return raw + b"Content-Type: text/plain\n\nin the depth\n"


def parts(count: int) -> bytes:
    return b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nword\n" * count + b"--b--\n"


# What comes behind the first headers of a message, and what becomes of it.
MAILS: dict[str, tuple[bytes, str]] = {
    "parameters": (b'Content-Type: text/plain; a="' + b";" * 400_000 + b'"\n\nwords', "words"),
    "quotes": (b"Content-Type: text/plain; a=" + b'";' * 200_000 + b"\n\nwords", "words"),
    "file name": (
        b'Content-Type: text/plain\nContent-Disposition: inline; a="' + b";" * 400_000
        + b'"\n\nwords', "words"),
    "sections": (
        b"Content-Type: text/plain" + b"".join(b";\n a*%d*=x" % n for n in range(40_000))
        + b"\n\nwords", "words"),
    "wide cell": (
        b"Content-Type: text/html\n\n<table><tr><td>" + b"z" * 30_000 + b"<tr><td>a" * 30_000, "a"),
    "many cells": (
        b"Content-Type: text/html\n\n<table><tr>" + b"<td>b" * 30_000 + b"<tr><td>a" * 30_000, "a"),
    "punycode": (b"Content-Type: text/plain; charset=punycode\n\nwords-" + b"9a" * 100_000, "9a"),
    "punycode beside bytes": (
        b"Content-Type: text/plain; charset=punycode\n\n\xff" + b"9a" * 100_000, "9a"),
    "deep": (nested(900), ""),
    "deeper": (nested(5_000), ""),
    "messages": (b"Content-Type: message/rfc822\n\n" * 900 + b"words", ""),
    "deep lines": (nested(300) + b"a\n" * 300_000, ""),
    "many parts": (parts(MOST_PARTS + 1), "more than 1,000 parts"),
    "marks": (f"Subject: a{MARKS * 50_000}\n\na{MARKS * 50_000} words".encode(), "words"),
    "names": (b"".join(b"X-%d: a\n" % n for n in range(50_000)) + b"\nwords", "words"),
    "references": (b"References: " + b"<a@b> " * 100_000 + b"\n\nwords", "words"),
}  # fmt: skip


def mailbox(path: Path, *between: bytes) -> LoadResult:
    """A mailbox whose messages answer each other, with others between."""
    mails = [b"From: p%d@b.c\nMessage-ID: <%d@b>\n\nhello %d\n" % (n, n, n) for n in range(3)]
    mails.append(b"From: p3@b.c\nIn-Reply-To: <0@b>\nSubject: Re: x\n\nyes\n\n> hello 0\n")
    path.write_bytes(
        b"".join(POSTMARK + one + b"\n\n" for one in (*mails[:2], *between, *mails[2:]))
    )
    return load(path)


def told(found: LoadResult) -> list[tuple[object, ...]]:
    return [(one.text, one.unit, one.metadata, one.origin) for one in found.documents]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", MAILS)
def test_a_mail_that_would_take_hours_changes_no_other(tmp_path: Path, name: str) -> None:
    raw, becomes = MAILS[name]
    alone = told(mailbox(tmp_path / "a.mbox"))
    found = mailbox(tmp_path / "a.mbox", HEAD + raw)
    documents = told(found)
    if found.report.skipped:
        (skipped,) = found.report.skipped
        assert skipped.reason == (becomes or "empty")
        assert documents == alone
    else:
        assert documents[:2] + documents[3:] == alone
        assert str(documents[2][0]).endswith(becomes)


def test_a_header_is_read_to_a_public_length(tmp_path: Path) -> None:
    known = b"References: " + b"<z@b> " * (LONGEST_HEADER // 6 + 1)
    found = mailbox(tmp_path / "a.mbox", HEAD + known + b"<0@b>\n\nwords")
    assert len({one.unit for one in found.documents}) == 4
    found = mailbox(tmp_path / "a.mbox", HEAD + known[: -6 * 10] + b"<0@b>\n\nwords")
    assert len({one.unit for one in found.documents}) == 3


def test_charsets_are_those_of_a_public_list() -> None:
    for name in characters.CHARSETS:
        assert characters.is_charset(name)
        assert "words".encode(name).decode(name) == "words"
    for name in ("latin1", "Windows-1252", "UTF8", "shift-jis", "ISO-2022-JP"):
        assert characters.is_charset(name)
    for name in ("punycode", "idna", "unicode_escape", "base64", "x" * 10_000, "", "\x00", "ü"):
        assert not characters.is_charset(name)
    assert characters.decode_as(b"a-\xe4", "punycode") == "a-ä"


def test_a_cell_of_marks_names_its_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = ["who,note", "ann,yes", f"eve{MARKS * 50_000},no", "bo,maybe"]
    path.write_text("\n".join(rows))
    found = load(path, unit="who")
    path.write_text("\n".join(rows[:2] + rows[3:]))
    rest = load(path, unit="who")
    assert told(found)[:1] + told(found)[2:] == told(rest)
    assert len(found.documents[1].unit) < 100


def test_a_row_of_one_name_again_and_again_costs_no_other_its_time(tmp_path: Path) -> None:
    blanks = [one for one in map(chr, range(0x3001)) if one.isspace()]
    names = [f"a{''.join(some)}" for some in islice(product(blanks, repeat=4), 12_000)]
    rows = [dict.fromkeys(names, 1), {"text": "of another"}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    begun = time.process_time()
    found = load(tmp_path / "a.jsonl")
    assert time.process_time() - begun < 2  # of hours, at 16 MiB
    assert [one.reason for one in found.report.skipped] == [reasons.TOO_MANY_COLUMNS]
    assert [document.text for document in found.documents] == ["of another"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("spin", Outcome.TIME, marks=pytest.mark.heavy),
        ("eat", Outcome.MEMORY),
        ("crash", Outcome.BROKE_OFF),
        ("raise", Outcome.DAMAGED),
    ],
)
def test_the_last_wall_costs_its_mail_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: Outcome
) -> None:
    """With a reader planted that misbehaves at one message: first of its batch, or within it."""
    monkeypatch.setattr(parsing, "_idle", [])
    limits = ProcessLimits(cpu_seconds=1, memory=2**29)
    monkeypatch.setattr(
        parsing, "Conversions", lambda *_: Conversions(limits, "tests.support.planted_parsers")
    )
    alone = told(mailbox(tmp_path / "a.mbox"))
    found = mailbox(tmp_path / "a.mbox", HEAD + b"\n%b\n" % name.encode())
    (skipped,) = found.report.skipped
    assert skipped.position.startswith("message 3 ")
    assert skipped.reason == REASONS[why]
    assert told(found) == alone
    for _, kept in parsing._idle:
        kept.close()


def test_a_load_is_stopped_while_one_record_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopError(Exception):
        pass

    calls: list[int] = []

    def progress(done: float, total: float | None) -> None:
        calls.append(int(done))
        if len(calls) > 2:
            raise StopError

    made: list[Conversions] = []

    def planted(*_: object) -> Conversions:
        made.append(Conversions(ProcessLimits(), "tests.support.planted_parsers"))
        return made[-1]

    monkeypatch.setattr(parsing, "_idle", [])
    monkeypatch.setattr(parsing, "Conversions", planted)
    (tmp_path / "a.eml").write_bytes(HEAD + b"\nspin\n")
    with pytest.raises(StopError):
        load(tmp_path, on_progress=progress)
    assert calls == [0, 0, 0]
    assert made[0]._child is None  # it has ended


def test_where_no_process_starts_nothing_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else mail that is followed would be gone."""
    monkeypatch.setattr(parsing, "_idle", [])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(LoaderError, match="no process can be started"):
        mailbox(tmp_path / "a.mbox")


def test_a_child_that_another_process_has_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [(os.getpid() + 1, Conversions())]
    monkeypatch.setattr(parsing, "_idle", others)
    with parsing.parser(lambda: None) as one:
        assert one is not others[0][1]
    monkeypatch.setattr(parsing, "_idle", [])
    with parsing.parser(lambda: None) as first:
        pass
    with parsing.parser(lambda: None) as second:
        assert second is first
