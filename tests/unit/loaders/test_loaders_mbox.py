"""Where one message of a mailbox ends and the next begins."""

import io
import mailbox
from pathlib import Path

import pytest

from dpicl_rag.loaders import load
from dpicl_rag.loaders.mbox import read_mbox
from dpicl_rag.loaders.parsing import parsed
from dpicl_rag.loaders.records import Options, Record, RecordOrSkipped, Skipped

POSTMARK = b"From a@example.org Mon Dec 13 07:05:00 2000\n"


def read(raw: bytes) -> list[RecordOrSkipped]:
    return list(parsed(read_mbox(io.BufferedReader(io.BytesIO(raw)), "", Options()), Options()))


def bodies(raw: bytes) -> list[str]:
    return [entry.text for entry in read(raw) if isinstance(entry, Record)]


def test_positions() -> None:
    first = POSTMARK + b"Subject: one\n\nx\n\n"
    entries = read(first + POSTMARK + b"no headers\n\n" + POSTMARK + b"Subject: three\n")
    assert [entry.position for entry in entries] == [
        "message 1 (byte 0)",
        f"message 2 (byte {len(first)})",
        f"message 3 (byte {len(first) + len(POSTMARK) + 12})",
    ]
    assert isinstance(entries[1], Skipped)


@pytest.mark.parametrize(
    "postmark",
    [
        b"From a@example.org Mon Dec 13 07:05:00 2000\n",
        b"From a@example.org Mon Dec  3 07:05 2000 -0800\r\n",
        b"From - Mon Dec 13 07:05:00 PST 2000\n",
        b"From 1680@xxx Mon Dec 13 07:05:00 +0000 2000\n",
        b"From MAILER-DAEMON Wed, 13 Dec 2000 07:05:00\n",
        b"From nobody\n",
        b"From a@example.org\n",
    ],
)
def test_postmarks(postmark: bytes) -> None:
    message = postmark + b"Subject: one\n\nx\n\n"
    assert len(bodies(message * 3)) == 3


def test_a_missing_empty_line_joins_nothing() -> None:
    assert len(bodies((POSTMARK + b"Subject: one\n\nx\n") * 3)) == 3


@pytest.mark.parametrize(
    "line",
    [
        b"From what I know, it is late.\n",
        b"From the desk of\nTo: everyone\n",
        b"From Monday on, 10:30 it is\n",
        b"From Mon 10:30 to Tue 11:30\n",
    ],
)
def test_a_body_that_begins_like_a_postmark_is_not_cut(line: bytes) -> None:
    texts = bodies(POSTMARK + b"Subject: one\n\nHello.\n\n" + line + b"the end\n")
    assert len(texts) == 1
    assert texts[0].endswith("the end")


def test_escapes_are_undone() -> None:
    raw = POSTMARK + b"Subject: one\n\n>From here\n>>From there\n"
    assert bodies(raw) == ["Subject: one\n\nFrom here\n>From there"]


def test_what_precedes_the_first_message_is_counted() -> None:
    assert read(b"rubbish\n\n" + POSTMARK + b"Subject: one\n\nx\n")[0] == Skipped(
        "message 1 (byte 0)", "no mail headers"
    )
    assert len(read(b"\n\n" + POSTMARK + b"Subject: one\n\nx\n")) == 1


def test_a_message_without_content_is_counted() -> None:
    assert read(POSTMARK + b"\n" + POSTMARK + b"\n") == [
        Skipped("message 1 (byte 0)", "empty"),
        Skipped(f"message 2 (byte {len(POSTMARK) + 1})", "empty"),
    ]


def test_agrees_with_the_standard_library(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "box")
    for number in range(20):
        box.add(f"Subject: s{number}\n\nFrom here\n\nFrom x Mon Dec 13 07:05:00 2000\n\n".encode())
    box.flush()
    box.close()
    subjects = [text.split("\n")[0] for text in bodies((tmp_path / "box").read_bytes())]
    assert subjects == [f"Subject: s{number}" for number in range(20)]


def test_a_message_beyond_the_limit_is_skipped_and_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpicl_rag.loaders.mbox.MAX_RECORD_BYTES", 100)
    monkeypatch.setattr("dpicl_rag.loaders.parsing.MAX_RECORD_BYTES", 100)
    long = POSTMARK + b"Subject: one\n\n" + b"x\n" * 500 + b"\n"
    entries = read(long + POSTMARK + b"Subject: two\n\nx\n")
    assert entries[0] == Skipped("message 1 (byte 0)", "larger than 16 MiB")
    assert isinstance(entries[1], Record)


@pytest.mark.parametrize("second", [b"Subject: a\n", b"no header\n", b"\x00\n", b"\n", b"\xff:\n"])
@pytest.mark.parametrize("postmark", [POSTMARK, b"From a@example.org\n"])
def test_the_first_line_alone_makes_a_mailbox(
    tmp_path: Path, postmark: bytes, second: bytes
) -> None:
    """What follows is somebody's mail, who would otherwise decide about all of them."""
    other = postmark + b"Subject: one\n\nwords\n"
    (tmp_path / "Inbox").write_bytes(postmark + second + b"\n" + other)
    assert load(tmp_path / "Inbox").documents[-1].text.endswith("words")
    assert load(tmp_path).report.read == 2


def test_a_body_with_a_dated_postmark_is_cut() -> None:
    """As the docstring says: programs escape such lines."""
    assert len(read(POSTMARK + b"Subject: one\n\nHello.\n\n" + POSTMARK + b"the end\n")) == 2
