"""What ``load`` promises for any bytes on disk, and bytes that try to break it."""

import gzip
from pathlib import Path

from hypothesis import strategies as st

from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders import LoadResult, load

SECRET = "Zxqv7-secret"

NAMES = [
    "a.mbox", "a.eml", "a.csv", "a.tsv", "a.jsonl", "a.json", "a.txt", "a.html", "a", "a.bin",
    "a.mbox.gz",
]  # fmt: skip
UNITS = [None, "thread", "document", "sender", "subject", "List-Id", "a"]

_TOKENS = [
    b"From a@example.org Mon Dec 13 07:05:00 2000\n",
    b"From x\n",
    b">From y\n",
    b"From: ",
    b"Subject: ",
    b"Re: ",
    b"To: undisclosed:;\n",
    b"Date: Wed, 13 Dec 2000 07:05:00 -0800\n",
    b"Date: Wed, 99 Dec 99999 77:05:00 -9999\n",
    b"Message-ID: <a@b>\n",
    b"References: <a@b> <c@d>\n",
    b"List-Id: <a.b>\n",
    b"MIME-Version: 1.0\n",
    b"Content-Type: text/plain; charset=utf-8\n",
    b"Content-Type: text/plain; charset=no-such\n",
    b"Content-Type: text/html; charset*=utf-7''x\n",
    b"Content-Type: multipart/mixed; boundary=x\n",
    b"Content-Type: multipart/alternative; boundary=\"x\"\n",
    b"Content-Type: message/rfc822\n",
    b"Content-Transfer-Encoding: base64\n",
    b"Content-Transfer-Encoding: quoted-printable\n",
    b"Content-Transfer-Encoding: x-uuencode\n",
    b"Content-Disposition: attachment; filename*0*=u'\n",
    b"\n--x\n",
    b"\n--x--\n",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r",
    b" ",
    b"\t",
    b"=?utf-8?q?=E4?=",
    b"=?utf-8?b?w6Q=?=",
    b"=?x?x?x?=",
    b"<a@b>",
    b"\"a\" <A@Example.ORG>",
    b"a@b,",
    b"(",
    b"> ",
    b"On Monday a wrote:\n",
    b"-----Original Message-----\n",
    b"Best regards\n",
    b"-- \n",
    b"a,b\n",
    b"a;b;text\n",
    b"\"",
    b"'",
    b",",
    b";",
    b"{\"a\": ",
    b"\"text\": \"\\ud800\"",
    b"[1, null, {}]",
    b"}\n",
    b"1e999",
    b"<p>",
    b"<div style='padding-left:9e9em'>",
    b"<table><tr><td>",
    b"<![CDATA[",
    b"<!--",
    b"<?xml version='1.0' encoding='utf-16'?>",
    b"&#xd800;",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x00",
    b"\x1b$B",
    b"\xe4\xf6",
    b"\x1f\x8b",
    SECRET.encode(),
]  # fmt: skip


_MAIL = (
    b"Message-ID: <a@b>\nFrom: Ann <a@b.c>\nTo: b@b.c\nList-Id: <x>\nSubject: Re: =?utf-8?q?a?=\n"
    b"Date: Wed, 13 Dec 2000 07:05:00 -0800\nMIME-Version: 1.0\n"
    b"Content-Type: multipart/alternative; boundary=x\n\n--x\n"
    b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n"
    b"--x\nContent-Type: text/html\n\n<table><tr><td>hello <b>you</b></table>\n--x--\n"
)
_REPLY = (
    b"From: b@b.c\nReferences: <a@b>\nSubject: Re: a\n\nhello\nBest regards,\nBob\n"
    b"On Monday Ann wrote:\n> hello\n-----Original Message-----\nFrom: a\nSent: b\n\nhello\n"
)
_POSTMARK = b"From a@example.org Mon Dec 13 07:05:00 2000\n"
# Well-formed files, into which other words are thrown.
_FILES = [
    _MAIL,
    _REPLY,
    _POSTMARK + _MAIL + b"\n" + _POSTMARK + _REPLY + b"\n" + _POSTMARK + _MAIL,
    b'a,text,c\n1,"one, two",3\n4,"five\nsix",7\n8,9,\n',
    b'{"a": 1, "text": "one"}\n{"a": [1, "x"], "text": null, "subject": {}}\n',
    b'[{"a": 1, "text": "one"},\n {"a": [1, "x"], "text": null, "subject": {}}]',
    b"<html><body><p>one</p><blockquote>two</blockquote></body></html>",
]


def contents() -> st.SearchStrategy[bytes]:
    """Bytes, words of the formats, or spoiled files; plain or compressed or cut short."""
    word = st.sampled_from(_TOKENS) | st.binary(max_size=6)
    soup = st.lists(word, max_size=60).map(b"".join)
    spoils = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), word), max_size=8)
    spoiled = st.builds(_spoil, st.sampled_from(_FILES), spoils)
    plain = st.binary(max_size=400) | soup | spoiled | spoiled
    zipped = plain.map(gzip.compress)
    cut = st.tuples(zipped, st.integers(2, 60)).map(lambda pair: pair[0][: -pair[1]])
    return plain | zipped | cut


def _spoil(content: bytes, spoils: list[tuple[float, int, bytes]]) -> bytes:
    """Put each word in at a place, given as a fraction, over a number of the bytes there."""
    for place, length, word in spoils:
        start = int(place * len(content))
        content = content[:start] + word + content[start + length :]
    return content


def check_load(path: Path, unit: str | None, text_field: str | None = None) -> LoadResult | None:
    """Load, and check all that holds whatever the path holds."""
    progress: list[float] = []
    try:
        result = load(
            path,
            unit=unit,
            text_field=text_field,
            on_progress=lambda seen, _: progress.append(seen),
        )
    except LoaderError as error:
        message = str(error)
    except ConfigurationError:
        assert unit is not None or text_field is not None
        return None
    else:
        message = ""
    assert SECRET not in message
    if message:
        return None
    report = result.report
    assert report.read == report.loaded + len(report.skipped)
    assert progress == sorted(progress)
    assert set(progress) - {0} == set(range(1, report.read + 1))
    assert report.loaded == len(result.documents)
    for item in report.skipped:
        assert item.position
        assert item.reason
        assert SECRET not in item.position + item.reason
    for document in result.documents:
        assert document.text.strip()
        assert document.unit
        for text in (document.text, document.unit, *document.metadata, *document.metadata.values()):
            assert "\x00" not in text
            text.encode("utf-8")
    return result
