"""Spreadsheets: their cells as they are written, row by row."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import python_calamine

from dpicl_rag.conversion.outcomes import NotConvertedError, Outcome
from dpicl_rag.conversion.packages import check_package, is_compound

_WHOLE = 2**53  # beyond it a float is not one whole number


def read_sheets(content: bytes) -> bytes:
    """A spreadsheet as text: a line for each row that is not blank, its cells apart by bars."""
    sheets = []
    for sheet in _sheets(content):
        lines = (" | ".join(cell for cell in cells if cell) for _, cells in sheet)
        sheets.append("\n".join(line for line in lines if line))
    return "\n\n".join(sheet for sheet in sheets if sheet).encode("utf-8", "replace")


def read_rows(content: bytes) -> bytes:
    """A spreadsheet as JSON: sheets of rows that are not blank, each its number and its cells."""
    return json.dumps([list(sheet) for sheet in _sheets(content)]).encode()


def _sheets(content: bytes) -> Iterator[Iterator[tuple[int, list[str]]]]:
    if not is_compound(content):
        check_package(content)
    try:
        book = python_calamine.load_workbook(io.BytesIO(content))
    except python_calamine.PasswordError:
        raise NotConvertedError(Outcome.PASSWORD) from None
    for name in book.sheet_names:
        yield _rows(book.get_sheet_by_name(name))


def _rows(sheet: python_calamine.CalamineSheet) -> Iterator[tuple[int, list[str]]]:
    first = sheet.start[0] if sheet.start else 0
    for number, row in enumerate(sheet.to_python(), first + 1):
        cells = [_written(value) for value in row]
        if any(cells):
            yield number, cells


def _written(value: object) -> str:
    """A cell in words: whole numbers without a fraction, times as ISO 8601 has them."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    return str(value).strip()
