"""Outlook's messages (.msg) as mail: headers, texts and attachments, as [MS-OXMSG] stores them.

What comes out is a message of RFC 5322, so that it is read as every other mail is.
"""

from __future__ import annotations

import codecs
import io
import struct
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.message import Message
from email.mime.application import MIMEApplication
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from email.mime.text import MIMEText
from email.utils import format_datetime, formataddr

import olefile

from dpicl_rag.conversion.conversions import NotConvertedError, Outcome

# Properties, by the numbers of [MS-OXPROPS].
_SUBJECT, _HEADERS, _BODY, _HTML = "0037", "007D", "1000", "1013"
_SENDER_NAME, _SENDER_ADDRESSES = "0C1A", ("5D01", "0C1F")
_ID_HEADERS = {"Message-ID": "1035", "References": "1039", "In-Reply-To": "1042"}
_NAME, _ADDRESSES = "3001", ("39FE", "3003")
_DATA, _FILE_NAMES, _MIME_TYPE, _CONTENT_ID = "3701", ("3707", "3704", "3001"), "370E", "3712"
_SUBMITTED, _DELIVERED, _RECIPIENT_TYPE, _CODE_PAGES = 0x0039, 0x0E06, 0x0C15, (0x3FDE, 0x3FFD)
_RECIPIENTS, _ATTACHMENTS = "__recip_version1.0_", "__attach_version1.0_"
_TO, _CC = 1, 2
_ENTRY = struct.Struct("<HHIQ")
_HEAD_BYTES = {"": 32, _RECIPIENTS: 8, _ATTACHMENTS: 8}
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_UTF_8 = 65001
# All parts are in base64, which has none of its characters.
_BOUNDARY = "=_outlook_%d"
# The texts and their kinds are put together anew.
_REPLACED = ("content-", "mime-version")


def read_message(content: bytes) -> bytes:
    """A message as mail.

    Raises:
        NotConvertedError: It is none.
    """
    if not olefile.isOleFile(data=content):
        raise NotConvertedError(Outcome.DAMAGED)
    with olefile.OleFileIO(io.BytesIO(content)) as file:
        message = _Storage(file, "", "")
        if not message.names:
            raise NotConvertedError(Outcome.DAMAGED)
        made = _with_attachments(message, _texts(message))
        for name, value in _headers(message):
            if not name.lower().startswith(_REPLACED):
                made[name] = value
        return made.as_bytes()


class _Storage:
    """A message, a recipient or an attachment: its properties.

    Args:
        file: The file.
        path: The storage that has them; nothing for the message itself.
        kind: How the names of such storages begin.
    """

    def __init__(self, file: olefile.OleFileIO, path: str, kind: str) -> None:
        self.file = file
        self.path = path
        prefix = f"{path}/" if path else ""
        depth = 2 if path else 1
        entries = ["/".join(entry) for entry in file.listdir() if len(entry) == depth]
        self.names = {
            entry[-8:].upper(): entry
            for entry in entries
            if entry.startswith(f"{prefix}__substg1.0_")
        }
        self.numbers: dict[int, int] = {}
        stored = f"{prefix}__properties_version1.0"
        if file.exists(stored):
            raw = file.openstream(stored).read()[_HEAD_BYTES[kind] :]
            for _, number, _, value in _ENTRY.iter_unpack(raw[: len(raw) // 16 * 16]):
                self.numbers[number] = value

    def raw(self, name: str) -> bytes | None:
        """The bytes of a property."""
        stored = self.names.get(f"{name}0102")
        return self.file.openstream(stored).read() if stored else None

    def text(self, *names: str, encoding: str = "cp1252") -> str:
        """The first of some properties that is there as characters."""
        for name in names:
            if stored := self.names.get(f"{name}001F"):
                return _decoded(self.file.openstream(stored).read(), "utf-16-le")
            if stored := self.names.get(f"{name}001E"):
                return _decoded(self.file.openstream(stored).read(), encoding)
        return ""

    @property
    def encoding(self) -> str:
        """Of characters that are kept as bytes."""
        pages = (self.numbers.get(page, 0) & 0xFFFFFFFF for page in _CODE_PAGES)
        page = next((one for one in pages if one), 1252)
        name = "utf-8" if page == _UTF_8 else f"cp{page}"
        try:
            return codecs.lookup(name).name
        except LookupError:
            return "cp1252"

    def children(self, kind: str) -> list[_Storage]:
        """The recipients or the attachments, in their order."""
        tops = sorted({entry[0] for entry in self.file.listdir() if entry[0].startswith(kind)})
        return [_Storage(self.file, top, kind) for top in tops]


def _decoded(raw: bytes, encoding: str) -> str:
    return raw.decode(encoding, "replace").rstrip("\x00")


def _headers(message: _Storage) -> list[tuple[str, str]]:
    """Headers as they came over the wire, or what stands in their place in a message kept here."""
    encoding = message.encoding
    wire = message.text(_HEADERS, encoding=encoding)
    came = list(message_from_string(wire.lstrip()).items()) if wire.strip() else []
    names = {name.lower() for name, _ in came}
    kept = [("Subject", message.text(_SUBJECT, encoding=encoding))]
    sender = message.text(*_SENDER_ADDRESSES, encoding=encoding)
    kept.append(("From", _address(message.text(_SENDER_NAME, encoding=encoding), sender)))
    people = message.children(_RECIPIENTS)
    for header, kind in (("To", _TO), ("Cc", _CC)):
        those = [one for one in people if one.numbers.get(_RECIPIENT_TYPE, _TO) & 0xF == kind]
        addresses = (
            _address(one.text(_NAME, encoding=encoding), one.text(*_ADDRESSES, encoding=encoding))
            for one in those
        )
        kept.append((header, ", ".join(address for address in addresses if address)))
    when = message.numbers.get(_SUBMITTED) or message.numbers.get(_DELIVERED)
    kept.append(("Date", _date(when) if when else ""))
    kept += [(name, message.text(number)) for name, number in _ID_HEADERS.items()]
    one_line = [(name, " ".join(value.split())) for name, value in kept]
    return came + [(name, value) for name, value in one_line if value and name.lower() not in names]


def _address(name: str, address: str) -> str:
    if "@" not in address:
        return name
    return formataddr((name, address)) if name and name != address and name.isascii() else address


def _date(ticks: int) -> str:
    """A number of tenths of a microsecond since 1601."""
    try:
        return format_datetime(_EPOCH + timedelta(microseconds=ticks // 10))
    except OverflowError:
        return ""


def _texts(message: _Storage) -> Message:
    plain = message.text(_BODY, encoding=message.encoding)
    markup = message.text(_HTML, encoding=message.encoding)
    if not markup and (raw := message.raw(_HTML)):
        markup = _decoded(raw, message.encoding)
    parts = [MIMEText(plain.replace("\r\n", "\n"), "plain", "utf-8")] if plain.strip() else []
    if markup.strip():
        parts.append(MIMEText(markup, "html", "utf-8"))
    if len(parts) == 1:
        return parts[0]
    return MIMEMultipart("alternative", _BOUNDARY % 1, parts)


def _with_attachments(message: _Storage, texts: Message) -> Message:
    attached = message.children(_ATTACHMENTS)
    if not attached:
        return texts
    made = MIMEMultipart("mixed", _BOUNDARY % 2, [texts])
    for one in attached:
        raw = one.raw(_DATA)
        # Without its own bytes it is a message within this one.
        part: MIMENonMultipart = MIMEMessage(Message()) if raw is None else MIMEApplication(raw)
        mime = one.text(_MIME_TYPE)
        if raw is not None and mime.count("/") == 1 and mime.replace("/", "").isprintable():
            part.replace_header("Content-Type", mime)
        name = " ".join(one.text(*_FILE_NAMES, encoding=message.encoding).split())
        part.add_header("Content-Disposition", "attachment", filename=("utf-8", "", name))
        if content_id := one.text(_CONTENT_ID).strip():
            part["Content-ID"] = " ".join(content_id.split())
        made.attach(part)
    return made
