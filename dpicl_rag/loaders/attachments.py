"""Attachments of a message: their texts are part of it, so they belong to its privacy unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from dpicl_rag.loaders.characters import decode_as
from dpicl_rag.loaders.file_kinds import (
    CONVERTED,
    KINDS,
    FileFormat,
    is_binary,
    suffix_of,
    unsupported,
)
from dpicl_rag.loaders.load_report import Skipped
from dpicl_rag.loaders.markup import text_of_html
from dpicl_rag.loaders.records import (
    BINARY,
    EMPTY,
    MAX_RECORD_BYTES,
    MESSAGE_WITHIN,
    MOST_ATTACHMENTS,
    TOO_LARGE,
    TOO_MANY_ATTACHMENTS,
    Options,
    UnreadableError,
    tidy,
)
from dpicl_rag.loaders.text_files import converted_text, require_conversions

_KINDS: dict[str, FileFormat] = {
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "text/rtf": "rtf",
    "application/epub+zip": "epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "sheet",
    "application/vnd.ms-excel": "sheet",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.oasis.opendocument.spreadsheet": "sheet",
    "text/html": "html",
    "application/json": "text",
}
_MESSAGES = ("eml", "mbox", "msg")


@dataclass(frozen=True, slots=True, repr=False)
class Attachment:
    """An attachment, as its sender made it. Private.

    Attributes:
        name: Its file's name; empty where it has none.
        content_type: What it is said to be.
        raw: Its bytes; None where it is a message.
        charset: What its characters are said to be in.
    """

    name: str
    content_type: str
    raw: bytes | None
    charset: str | None


@dataclass(frozen=True, slots=True, repr=False)
class Attached:
    """What an attachment says, or how that is found out. Private.

    Attributes:
        name: Its file's name; empty where it has none.
        text: Its text, where it was read.
        reason: Why it cannot be.
        kind: The kind of a file that is to be converted.
        raw: The bytes of such a file.
    """

    name: str
    text: str = ""
    reason: str = ""
    kind: str = ""
    raw: bytes = b""


def parse_attachments(attachments: Iterable[Attachment]) -> Iterator[Attached]:
    """Read attachments of a message, in their order, but for files that are converted."""
    for number, one in enumerate(attachments, 1):
        try:
            if number > MOST_ATTACHMENTS:
                raise UnreadableError(TOO_MANY_ATTACHMENTS)
            yield _parsed(one)
        except UnreadableError as error:
            yield Attached(one.name, reason=str(error))


def read_attachments(
    attachments: Iterable[Attached], options: Options
) -> tuple[list[str], tuple[Skipped, ...]]:
    """The texts of the attachments of a message.

    Args:
        attachments: In their order.
        options: With what converts files.

    Returns:
        A text for each, with its name; and those that have none, by their numbers. Their names are
        their senders' words, so the report has none of them.
    """
    texts: list[str] = []
    skipped: list[Skipped] = []
    left = MAX_RECORD_BYTES
    for number, one in enumerate(attachments, 1):
        try:
            text = _text(one, options)
            left -= len(text)
            if left < 0:
                raise UnreadableError(TOO_LARGE)
        except UnreadableError as error:
            skipped.append(Skipped(f"attachment {number}", str(error)))
        else:
            texts.append(f"Attachment {one.name}:\n\n{text}" if one.name else text)
    return texts, tuple(skipped)


def _parsed(one: Attachment) -> Attached:
    kind = KINDS.get(suffix_of(one.name)) or _KINDS.get(one.content_type)
    if kind is None and one.content_type.startswith("text/"):
        kind = "text"
    if one.raw is None or kind in _MESSAGES:
        raise UnreadableError(MESSAGE_WITHIN)
    if kind is None:
        raise UnreadableError(unsupported(one.name))
    if not one.raw.strip():
        raise UnreadableError(EMPTY)
    if kind in CONVERTED:
        return Attached(one.name, kind=kind, raw=one.raw)
    if is_binary(one.raw):
        raise UnreadableError(BINARY)
    told = decode_as(one.raw, one.charset)
    text = tidy(text_of_html(told) if kind == "html" else told)
    if not text:
        raise UnreadableError(EMPTY)
    return Attached(one.name, text)


def _text(one: Attached, options: Options) -> str:
    if one.reason:
        raise UnreadableError(one.reason)
    if not one.kind:
        return one.text
    kind = cast(FileFormat, one.kind)
    return converted_text(kind, one.raw, require_conversions(kind, options))
