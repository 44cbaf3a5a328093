"""Records of a load, those that were skipped and why, and the report of all that was seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dpicl_rag.conversion import Conversions
from dpicl_rag.documents import Document
from dpicl_rag.loaders import reasons

#: A larger message, line, row or text file is skipped: it would be a decompression bomb or no
#: text. Parsers take up to 50 times as much memory.
MAX_RECORD_BYTES = 16 * 2**20

#: A larger file is not converted: what it says is a small part of it.
MAX_CONVERTED_BYTES = 100 * 2**20

#: A row of more fields is skipped: each is stored with every passage, and databases refuse them.
MAX_FIELDS = 1000

_SURROGATES = re.compile("[\ud800-\udfff]")
# Units that are none of a table's columns.
_NO_COLUMNS = (None, "thread", "document", "sender", "file")
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that was seen but did not become a document.

    Attributes:
        position: Where it stands, for example ``"message 17 (byte 10482)"``, ``"row 3 (line 4)"``,
            ``"a.eml, attachment 2"`` or a file's name inside the directory. It is one line: what
            does not print is escaped.
        reason: One of a few fixed phrases. It never carries content.
    """

    position: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", on_one_line(self.position))


@dataclass(frozen=True, slots=True, repr=False)
class ThreadKeys:
    """Keys that tie a message to others.

    Attributes:
        message_id: The message's own id, or a hash of its content where it has none.
        references: Ids of the messages it answers, the root of the conversation first.
        subject: Its subject, decoded.
        timestamp: Seconds since 1970, or None where the date cannot be parsed.
        sender: The address that it is from, in lower case.
        recipients: The addresses that it is to, in lower case.
    """

    message_id: str
    references: tuple[str, ...]
    subject: str
    timestamp: float | None
    sender: str = ""
    recipients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """A message, row or file.

    Attributes:
        position: Where it stands in the source, as in ``Skipped``.
        text: The text of the future document.
        metadata: Fields by name. An absent value is an empty string.
        identity: Names the record when it is a unit of its own; empty for rows of tables.
        content: A hash of the bytes of a file that is one document; empty for other records.
        file: The file that it is from.
        thread: Set for mail.
        fields: Names that could be the privacy unit, where they are not those of ``metadata``.
        key: The column whose value names a row of a table, whatever else it says; empty where no
            column does.
        exact: By field, a mark that separates its value from equal readings: a hash of the bytes,
            where characters do not give them back.
        unread: Attachments of a message that were not read.
        said: The text of a message without its attachments, where some were read.
        persons: Columns of persons within a file that is one record.
    """

    position: str
    text: str
    metadata: Mapping[str, str]
    identity: str = ""
    content: str = ""
    file: str = ""
    thread: ThreadKeys | None = None
    fields: Sequence[str] = ()
    key: str = ""
    exact: Mapping[str, str] = field(default_factory=dict)
    unread: Sequence[Skipped] = ()
    said: str = ""
    persons: Sequence[str] = ()

    @property
    def is_row(self) -> bool:
        """Test for a row of a table."""
        return not (self.identity or self.content)


@dataclass(frozen=True, slots=True, repr=False)
class Unparsed:
    """A message, an HTML file or a calendar before it is parsed; see `dpicl_rag.loaders.parsing`.

    Position, file and exact are those of its record.
    """

    position: str
    kind: Literal["mail", "html", "calendar"]
    raw: bytes
    file: str = ""
    exact: Mapping[str, str] = field(default_factory=dict)


TableHeader = int | Sequence[str] | None
"""Where the names of a table's columns are: the number of a line, or names that the owner gives, of
which there may be none; found out if None."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the caller, as in ``load``, and what converts files.

    Attributes:
        conversions: Those of this load; where there are none, such files are skipped.
        parser: What parses mail and HTML; where there is none, this process does.
        header: As there, and no names where it is False there.
    """

    unit: str | None = None
    text_field: str | None = None
    key_field: str | None = None
    conversions: Conversions | None = None
    parser: Conversions | None = None
    header: TableHeader = None
    delimiter: str | None = None
    spam: bool = False
    records: str | None = None

    @property
    def has_header(self) -> bool:
        """A row of each table names its columns."""
        return self.header is None or isinstance(self.header, int)

    @property
    def given(self) -> list[str]:
        """The names of columns that the owner gives."""
        return [] if self.header is None or isinstance(self.header, int) else list(self.header)

    @property
    def separator(self) -> bytes | None:
        """What stands between the fields of a table, a byte; found out if None."""
        return self.delimiter.encode() if self.delimiter else None

    @property
    def names_column(self) -> bool:
        """A column of a table is named, so that each of its rows is a record."""
        return bool(self.text_field or self.key_field) or self.unit not in _NO_COLUMNS


RecordOrSkipped = Record | Skipped
LoaderItem = RecordOrSkipped | Unparsed


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The account of one load; ``read == loaded + len(skipped)`` always.

    Attributes:
        read: Records seen: messages, rows, lines, files, and attachments that were not read.
        loaded: Records that became a document.
        skipped: The others, in the order of the source.
        joined: Where messages stand that are in one thread by their subjects alone, two by two. Who
            writes to somebody can choose a subject, so the owner may look at them.
        columns: Names that the records have for what they say, at most 30, where no record has the
            one that was asked for as unit, text or key.
        unit: What a unit is, in words: "one row", "the same customer".
        text: Columns that the text was taken from.
        unread: Columns that were not read, at most 30.
        persons: Those of them whose name looks like a person's.
        illegible: Records that were loaded, with letters that cannot be read: they are replaced.
    """

    read: int
    loaded: int
    skipped: tuple[Skipped, ...]
    joined: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    unit: str = "one document"
    text: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()
    illegible: int = 0

    @property
    def misread(self) -> str:
        """What shows that the columns of tables are named wrongly; empty where nothing does."""
        if self.loaded or {one.reason for one in self.skipped} != {reasons.TOO_MANY_FIELDS}:
            return ""
        return (
            "every row has more fields than there are names of columns; say which line names them "
            "by --header LINE, or name them all"
        )

    @property
    def summary(self) -> str:
        """The unit, the columns that were read and those that were not, and lost letters."""
        said = [f"A unit is: {self.unit}."]
        said += [f"Nothing was loaded: {self.misread}."] if self.misread else []
        said += [f"Text: {', '.join(self.text)}."] if self.text else []
        said += [f"Not read: {', '.join(self.unread)}."] if self.unread else []
        lost = "letters that cannot be read"
        said += [f"Records with {lost}: {self.illegible}."] if self.illegible else []
        return " ".join(said)

    @property
    def doubt(self) -> str:
        """Reason to doubt that this unit is the one to protect; empty where no column gives one."""
        if not self.persons:
            return ""
        looks = "looks" if len(self.persons) == 1 else "look"
        persons = ", ".join(map(repr, self.persons))
        return f"a unit would be {self.unit}, but {persons} {looks} like a person"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Documents in the order of the source, and the account of how they came about."""

    documents: list[Document]
    report: LoadReport


class UnreadableError(Exception):
    """Nothing of a file is loaded; it says why.

    Attributes:
        hint: What is told beside that to the owner who named the file itself.
    """

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def clean(text: str) -> str:
    """Drop what later stages cannot store: lone surrogates and NUL characters."""
    return _SURROGATES.sub("\ufffd", text).replace("\x00", "")


def tidy(text: str) -> str:
    """Clean a text, unify line ends, and drop trailing blanks and runs of empty lines."""
    if text.isascii() and text.isprintable():  # most values are one plain line
        return text.strip()
    lines = clean(text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in lines)).strip()


def on_one_line(text: str) -> str:
    """The text, in which what does not print is escaped: no file's name forges a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
