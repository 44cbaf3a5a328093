"""Mailboxes: the mbox family, read as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpicl_rag.loaders.records import MAX_RECORD_BYTES, Options, Unparsed
from dpicl_rag.loaders.streams import Stream, lines_of

# "From someone@example.org Mon Dec 13 07:05:00 2000", with a zone or the year before the time.
_POSTMARK = re.compile(
    rb"From .*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*(?:\d:\d\d.*\b\d{4}\b|\b\d{4}\b.*\d:\d\d)"
)
_UNDATED = re.compile(rb"From \S+\s*$")
_UNDATED_ADDRESS = re.compile(rb"From \S+@\S+\s*$")
_MAIL_HEADER = re.compile(
    rb"(?:Return-Path|Received|Delivered-To|Message-ID|MIME-Version|Content-[\w-]+|X-[\w-]+|"
    rb"Date|From|To|Subject|Status|Sender|Reply-To):",
    re.I,
)
_LONGEST_POSTMARK = 200
# What Gmail's archive calls what nobody keeps, in the languages of its users.
_SPAM = frozenset(
    """
    spam/junk/trash/bin/draft/drafts/papierkorb/entwurf/entwürfe/corbeille/brouillon/brouillons/
    correo no deseado/papelera/borrador/borradores/cestino/bozza/bozze/lixeira/lixo/rascunho/
    rascunhos/prullenbak/concept/concepten/kosz/wersja robocza/wersje robocze/skräppost/
    papperskorgen/utkast/papirkurv/søppelpost/kladde/kladder/roskaposti/roskakori/luonnos/
    luonnokset/koš/koncepty/спам/корзина/черновик/черновики/чернетки/кошик/istenmeyen/çöp kutusu/
    taslak/taslaklar/迷惑メール/ゴミ箱/下書き/스팸함/휴지통/임시보관함/垃圾邮件/已删除邮件/草稿/垃圾郵件/
    垃圾桶/ספאם/אשפה/טיוטות/رسائل غير مرغوب فيها/المهملات/المسودات
    """.replace("/\n    ", "/")
    .strip()
    .split("/")
)
_ESCAPED = re.compile(rb"^>(>*From )", re.M)


def begins_mailbox(head: bytes) -> bool:
    """Test for a mailbox, by its first line alone: what follows is somebody's mail."""
    line = head.partition(b"\n")[0][:_LONGEST_POSTMARK]
    return bool(_POSTMARK.match(line) or _UNDATED_ADDRESS.match(line))


def is_spam(labels: str) -> bool:
    """Test for labels of Gmail's archive that say spam, trash or a draft."""
    return not _SPAM.isdisjoint(label.strip(' "').casefold() for label in labels.split(","))


def read_mbox(stream: Stream, prefix: str, options: Options) -> Iterator[Unparsed]:
    """Read a mailbox, holding one message at a time.

    A line "From ..." with a date begins a message if an empty line precedes it or a mail header
    follows it; one without a date must be of one word and have both. So a missing empty line joins
    no messages, and few lines "From ..." of a body that nobody escaped cut one. A body that has
    such a line with a date behind an empty line is cut there: its writer then makes several
    messages. Mail programs escape these lines (">From"), and that is undone.

    Yields:
        Each message.
    """
    for number, (start, raw) in enumerate(_messages(stream), start=1):
        position = f"{prefix}message {number} (byte {start})"
        yield Unparsed(position, "mail", _ESCAPED.sub(rb"\1", raw))


def _messages(stream: Stream) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each message, without its "From " line."""
    parts: list[bytes] = []
    size = offset = start = 0
    begun = False
    after_blank = True
    lines = lines_of(stream)
    line = next(lines, None)
    while line is not None:
        following = next(lines, None)
        if line.startswith(b"From ") and _begins(line, following or b"", after_blank):
            if begun or b"".join(parts).strip():
                yield start, b"".join(parts)
            parts, size, start, begun = [], 0, offset, True
        elif size <= MAX_RECORD_BYTES:
            # One piece beyond the limit is kept, so that the message is seen to be too large.
            parts.append(line)
            size += len(line)
        after_blank = not line.strip()
        offset += len(line)
        line = following
    if begun or b"".join(parts).strip():
        yield start, b"".join(parts)


def _begins(line: bytes, following: bytes, after_blank: bool) -> bool:
    line = line[:_LONGEST_POSTMARK]
    before_header = _MAIL_HEADER.match(following) is not None
    if _POSTMARK.match(line):
        return after_blank or before_header
    return after_blank and before_header and _UNDATED.match(line) is not None
