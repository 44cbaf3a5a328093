"""Parts of a message, cut to public lengths before they are parsed, and its attachments.

The standard library's parser takes time that grows with the square of a header's length, and with
the depth of parts. Texts of attachments are part of their message, so of its privacy unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from email.policy import Policy, compat32
from typing import Any, cast

from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import decode, decode_as, decode_html, is_charset
from dpicl_rag.loaders.markup import text_of_calendar, text_of_enriched, text_of_html
from dpicl_rag.loaders.records import MAX_RECORD_BYTES, Options, Skipped, UnreadableError, tidy
from dpicl_rag.loaders.sources import (
    CONVERTED,
    KINDS,
    FileFormat,
    is_binary,
    suffix_of,
    unsupported,
)
from dpicl_rag.loaders.text_files import converted_text, require_conversions

LONGEST_HEADER = 64 * 2**10
"""Of a header's value the first so many characters are read."""
LONGEST_CONTENT_HEADER = 4_000
"""Of one that tells about content (``Content-Type`` and its like), whose parameters are parsed."""
MOST_HEADERS = 1_000
"""So many headers of a message or of a part are read."""
MOST_PARTS = 1_000
"""A message of more parts is skipped."""
DEEPEST_PART = 20
"""A part within so many parts is not looked into."""

_MANY_PARTS = ("multipart/", "message/")
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
    "application/xhtml+xml": "html",
    "application/json": "text",
    "application/ics": "calendar",
}
_MESSAGES = ("eml", "mbox", "msg")
CALENDAR = "text/calendar"
NO_BODIES = ("text/rtf", "text/rfc822-headers")
"""Texts that are no text of the message that holds them."""
# Why parts of other kinds are not read, and what to do.
_UNREAD = {
    **dict.fromkeys(("application/pkcs7-mime", "application/x-pkcs7-mime"), reasons.SEALED),
    **dict.fromkeys(("application/pgp-encrypted", "application/x-pgp-encrypted"), reasons.SEALED),
    **dict.fromkeys(("application/ms-tnef", "application/vnd.ms-tnef"), reasons.WINMAIL),
    **dict.fromkeys(
        ("text/rfc822-headers", "message/rfc822", "message/global"), reasons.MESSAGE_WITHIN
    ),
    **dict.fromkeys(
        ("message/delivery-status", "message/disposition-notification"), reasons.FOR_MACHINES
    ),
    **dict.fromkeys(
        ("message/feedback-report", "message/global-delivery-status"), reasons.FOR_MACHINES
    ),
}


class MailPart(Message):
    """A message or a part of one."""

    def __init__(self, policy: Policy = compat32) -> None:
        super().__init__(policy)
        self.depth = 0
        self._root = self
        self._parts = 0

    def set_raw(self, name: str, value: str) -> None:
        """A header as it is written, cut; one beyond the limit is left out."""
        if len(self) < MOST_HEADERS:
            is_content = name.lower().startswith("content-")
            most = LONGEST_CONTENT_HEADER if is_content else LONGEST_HEADER
            value = value[:most]
            if is_content and not value.isascii():  # else each letter beyond becomes a mark
                value = decode(value.encode("utf-8", "surrogateescape"))
            super().set_raw(name, value)

    def attach(self, payload: Any) -> None:
        """A part, counted before it is parsed.

        Raises:
            UnreadableError: The message has too many.
        """
        payload.depth, payload._root = self.depth + 1, self._root
        self._root._parts += 1
        if self._root._parts > MOST_PARTS:
            raise UnreadableError(reasons.TOO_MANY_PARTS)
        super().attach(payload)

    def get_content_type(self) -> str:
        """The kind of a part; one that is too deep has no parts."""
        kind = super().get_content_type()
        is_deep = self.depth >= DEEPEST_PART and kind.startswith(_MANY_PARTS)
        return "application/octet-stream" if is_deep else kind

    def get_param(
        self, param: str, failobj: Any = None, header: str = "content-type", unquote: bool = True
    ) -> Any:
        """A parameter of a header; of charsets only those of a public list."""
        value = super().get_param(param, failobj, header, unquote)
        if param == "charset" and value is not failobj:
            name = value[2] if isinstance(value, tuple) else value
            return value if is_charset(name) else failobj
        return value


def parsed_message(raw: bytes) -> MailPart:
    """The tree of a message's parts.

    Raises:
        UnreadableError: It has too many.
    """
    # By the old policy: under the new one a malformed Content-Type raises in the middle.
    return message_from_bytes(raw, MailPart)


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
    """The text of an attachment, or how that is found out. Private.

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
    for number, attachment in enumerate(attachments, 1):
        try:
            if number > reasons.MOST_ATTACHMENTS:
                raise UnreadableError(reasons.TOO_MANY_ATTACHMENTS)
            yield _parsed(attachment)
        except UnreadableError as error:
            yield Attached(attachment.name, reason=str(error))


def read_attachments(
    attachments: Iterable[Attached], options: Options
) -> tuple[list[str], tuple[Skipped, ...]]:
    """The texts of the attachments of a message.

    Returns:
        A text for each, with its name; and those that have none, by their numbers. Their names are
        their senders' words, so the report has none of them.
    """
    texts: list[str] = []
    skipped: list[Skipped] = []
    left = MAX_RECORD_BYTES
    for number, attachment in enumerate(attachments, 1):
        try:
            text = _text(attachment, options)
            left -= len(text)
            if left < 0:
                raise UnreadableError(reasons.TOO_LARGE)
        except UnreadableError as error:
            skipped.append(Skipped(f"attachment {number}", str(error)))
        else:
            texts.append(f"Attachment {attachment.name}:\n\n{text}" if attachment.name else text)
    return texts, tuple(skipped)


def text_of_part(content_type: str, content: str, *, is_mail: bool = False) -> str:
    """The text that a reader sees of a part; quotes are marked in that of a mail itself."""
    if content_type in ("text/html", "application/xhtml+xml"):
        return text_of_html(content, marks_quotes=is_mail)
    if content_type in ("text/enriched", "text/richtext"):
        return text_of_enriched(content)
    return text_of_calendar(content) if content_type == CALENDAR else content


def _parsed(attachment: Attachment) -> Attached:
    kind = KINDS.get(suffix_of(attachment.name)) or _KINDS.get(attachment.content_type)
    reason = _UNREAD.get(attachment.content_type, "")
    if attachment.name.lower() == "winmail.dat":
        reason = reasons.WINMAIL
    if kind is None and attachment.content_type.startswith("text/"):
        kind = "text"
    if reason or attachment.raw is None or kind in _MESSAGES:
        raise UnreadableError(reason or reasons.MESSAGE_WITHIN)
    if kind is None:
        raise UnreadableError(unsupported(attachment.name))
    if not attachment.raw.strip():
        raise UnreadableError(reasons.EMPTY)
    if kind in CONVERTED:
        return Attached(attachment.name, kind=kind, raw=attachment.raw)
    if is_binary(attachment.raw):
        raise UnreadableError(reasons.BINARY)
    read = decode_html if kind == "html" else decode_as
    content = read(attachment.raw, attachment.charset)
    content_type = {"html": "text/html", "calendar": CALENDAR}.get(kind, attachment.content_type)
    text = tidy(text_of_part(content_type, content))
    if not text:
        raise UnreadableError(reasons.EMPTY)
    return Attached(attachment.name, text)


def _text(attachment: Attached, options: Options) -> str:
    if attachment.reason:
        raise UnreadableError(attachment.reason)
    if not attachment.kind:
        return attachment.text
    kind = cast(FileFormat, attachment.kind)
    return converted_text(kind, attachment.raw, require_conversions(kind, options))
