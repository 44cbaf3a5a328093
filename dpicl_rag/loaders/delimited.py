"""Rows of delimited tables, as RFC 4180 has them, so that what is damaged costs one line.

A field that begins with a quote ends with a quote; between them a quote is written twice, and lines
may end. Elsewhere no quote stands. A row that keeps to this is read as it was written, whatever its
fields say. One that does not is given up, and the line after its first is read as the next row. So
a quote that nobody closed swallows no row after it: the next quote there opens a field that was
written by these rules, and where it stands none may close one. (It could, if that field begins with
a delimiter or with the end of a line, and the rest fits as well. These bytes have two meanings.)
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.records import MAX_RECORD_BYTES

DELIMITERS = (b",", b";", b"\t", b"|")
# How Excel says in a line above the table what stands between its fields.
_SEPARATOR = re.compile(rb'"?sep=(.)"?\r?\n?', re.IGNORECASE)
# A quote that is not closed within so many bytes, with a hundred for each line, is never.
_FARTHEST = 256 * 2**20
_LINE_BYTES = 100
_QUOTED = re.compile(rb'"(?:[^"]++|"")*+"')
_INSIDE = re.compile(rb'(?:[^"]++|"")*+')
_ENDS = (b"", b"\n", b"\r\n")


@dataclass(frozen=True, slots=True, repr=False)
class Line:
    """A line of a file.

    Attributes:
        raw: Its bytes and its end; None where they are more than a record may have.
        quotes: How many quotes it has.
    """

    raw: bytes | None
    quotes: int


@dataclass(frozen=True, slots=True, repr=False)
class DelimitedRow:
    """A row of a table.

    Attributes:
        line: The number of its first line.
        fields: Its fields; empty where there is a reason.
        reason: Why it cannot be read.
    """

    line: int
    fields: tuple[bytes, ...]
    reason: str = ""


def whole_lines(pieces: Iterable[bytes]) -> Iterator[Line]:
    """Lines from pieces of lines; of an over-long one only its quotes are counted."""
    first: bytes | None = None
    size = quotes = 0
    for piece in pieces:
        first = first if size else piece
        size += len(piece)
        quotes += piece.count(b'"')
        if piece.endswith(b"\n"):
            yield Line(first if size <= MAX_RECORD_BYTES else None, quotes)
            size = quotes = 0
    if size:
        yield Line(first if size <= MAX_RECORD_BYTES else None, quotes)


class DelimitedRows:
    """The rows of a table, one after the other.

    What stands between fields is what the line ``sep=;`` says that Excel writes, or what is given,
    or what is most often in the first line, outside quotes.

    Args:
        lines: Its lines.
        delimiter: What stands between fields, a byte; found out if None.
        start: The number of the line that the table begins with, or of a blank one above it.
    """

    def __init__(
        self, lines: Iterable[Line], delimiter: bytes | None = None, start: int = 1
    ) -> None:
        self._lines = iter(lines)
        self._ahead: deque[Line] = deque()
        self._number = 0  # of the last line that was taken
        first = self._first()
        if first is not None and (said := _SEPARATOR.fullmatch(first.raw or b"")):
            delimiter, first = said[1], self._first()
        while first is not None and self._number < start:
            first = self._first()
        if first is not None:
            self._ahead.append(first)
            self._number -= 1
        header = _QUOTED.sub(b"", (first and first.raw) or b"")
        self.likely: bytes = max(DELIMITERS, key=header.count)
        self.delimiter = delimiter or self.likely
        self._plain = re.compile(rb'[^"\r\n%s]*+' % re.escape(self.delimiter))

    def _first(self) -> Line | None:
        """The next line that is not blank."""
        return next((line for line in self._counted() if line.raw not in _ENDS), None)

    def read(self, width: int) -> DelimitedRow | None:
        """The next row, or None at the end.

        Args:
            width: The most fields that a row may have. One over several lines has as many: it is
                otherwise likely made of several rows.
        """
        first = self._first()
        return None if first is None else self._row(first, width)

    def _counted(self) -> Iterator[Line]:
        while (line := self._next()) is not None:
            self._number += 1
            yield line

    def _next(self) -> Line | None:
        return self._ahead.popleft() if self._ahead else next(self._lines, None)

    def _row(self, line: Line, width: int) -> DelimitedRow:
        """The row that begins with a line that was taken."""
        number = self._number
        if not line.quotes and line.raw is not None and b"\r" not in line.raw[:-2]:
            fields = line.raw.rstrip(b"\r\n").split(self.delimiter, width)
            many = len(fields) > width
            return DelimitedRow(
                number, () if many else tuple(fields), reasons.TOO_MANY_FIELDS if many else ""
            )
        parse = _Parse(self._plain, self.delimiter, width)
        taken = [line]
        farthest = _FARTHEST
        while parse.read(taken[-1]):
            farthest -= _LINE_BYTES + len(taken[-1].raw or b"")
            following = self._next() if farthest > 0 else None
            if following is None:
                parse.reason = reasons.UNCLOSED_QUOTE
                break
            taken.append(following)
        if not parse.reason and len(taken) > 1 and not parse.is_large and len(parse.fields) < width:
            parse.reason = reasons.NOT_CSV
        if parse.reason:
            self._ahead.extendleft(reversed(taken[1:]))
            return DelimitedRow(number, (), parse.reason)
        self._number += len(taken) - 1
        if parse.is_large:
            return DelimitedRow(number, (), reasons.TOO_LARGE)
        return DelimitedRow(number, tuple(parse.fields))


class _Parse:
    """A row as far as it has been read.

    Attributes:
        fields: Those that have ended.
        reason: Why it is none.
        is_large: It is larger than a record may be. It is read to its end all the same, so that no
            line within it is taken for a row.
    """

    def __init__(self, plain: re.Pattern[bytes], delimiter: bytes, width: int) -> None:
        self._plain = plain
        self._delimiter = delimiter
        self._width = width
        self._open: list[bytes] | None = None
        self._size = 0
        self.fields: list[bytes] = []
        self.reason = ""
        self.is_large = False

    def read(self, line: Line) -> bool:
        """Read its next line; whether it goes on after that."""
        raw = line.raw
        self._size += len(raw) if raw is not None else MAX_RECORD_BYTES + 1
        if self._size > MAX_RECORD_BYTES:
            self.is_large = True
            if self._open is not None:
                self._open.clear()
        if raw is None:
            # Nothing is known of it but whether it leaves a quote open.
            if line.quotes % 2:
                self._open = [] if self._open is None else None
            return self._open is not None
        at = 0
        while True:
            if self._open is None and raw[at : at + 1] == b'"':
                self._open = []
                at += 1
            if self._open is not None:
                match = _INSIDE.match(raw, at)
                at = match.end() if match else at
                if not self.is_large and match:
                    self._open.append(match[0])
                if at == len(raw):
                    return True
                self._end(b"".join(self._open).replace(b'""', b'"'))
                self._open = None
                at += 1
            else:
                match = self._plain.match(raw, at)
                at = match.end() if match else at
                self._end(match[0] if match else b"")
            if raw[at:] in _ENDS and not self.reason:
                return False
            if raw[at : at + 1] != self._delimiter and not self.reason:
                self.reason = reasons.NOT_CSV
            if self.reason:
                return False
            at += 1

    def _end(self, field: bytes) -> None:
        if len(self.fields) == self._width:
            self.reason = reasons.TOO_MANY_FIELDS
        elif not self.is_large:
            self.fields.append(field)
