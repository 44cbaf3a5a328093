"""Text of HTML."""

from __future__ import annotations

import html
import re
from itertools import accumulate
from typing import Any

from inscriptis import get_text
from inscriptis.model.config import ParserConfig
from inscriptis.model.table import Table
from inscriptis.model.tag import CustomHtmlTagHandlerMapping
from inscriptis.model.tag.table_tag import table_start_handler

from dpicl_rag.loaders.records import MAX_RECORD_BYTES, clean

# The HTML parser stops without a word where elements nest too deeply, and drops the rest. A mark
# at the end that does not come through tells.
_END = "\ue001"
_INVISIBLE = re.compile(r"<(?:script|style)\b[^<]*", re.I)
_TAG = re.compile(r"<[^<>]*>")

MOST_LAID_OUT = MAX_RECORD_BYTES
"""Characters that the tables of a file have together when they are laid out: every cell is as wide
as the widest of its column, and as high as the highest of its row."""
MOST_CELLS = 1_000_000
"""Rows of a table times columns."""


class _TooLargeError(Exception):
    """Tables take more than they may."""


class _Table(Table):  # type: ignore[misc]  # the library is untyped
    def __init__(self, plain: Table, laid_out: list[int]) -> None:
        super().__init__(plain.left_margin_len, plain.cell_separator)
        self._laid_out = laid_out  # so far, by all tables

    def get_text(self) -> str:
        if len(self.rows) * max((len(row) for row in self.rows), default=0) > MOST_CELLS:
            raise _TooLargeError
        widths: list[int] = []
        heights: list[tuple[int, int]] = []
        for row in self.rows:
            high = max((cell.normalize_blocks() for cell in row.columns), default=0)
            heights.append((high, len(row)))
            wide = [cell.width for cell in row.columns]
            both = zip(wide, widths, strict=False)
            widths = [max(pair) for pair in both] + wide[len(widths) :] + widths[len(wide) :]
        before = list(accumulate(widths, initial=0))
        self._laid_out.append(sum(high * before[count] for high, count in heights))
        if sum(self._laid_out) > MOST_LAID_OUT:
            raise _TooLargeError
        return str(super().get_text())


def _config() -> ParserConfig:
    """For one text, whose tables are measured before they are laid out."""
    laid_out: list[int] = []

    def begin(state: Any, attributes: dict[str, str]) -> None:
        table_start_handler(state, attributes)
        state.current_table[-1] = _Table(state.current_table[-1], laid_out)

    return ParserConfig(
        custom_html_tag_handler_mapping=CustomHtmlTagHandlerMapping({"table": begin}, {})
    )


def text_of_html(markup: str) -> str:
    """The text that a reader sees, laid out in lines; never fails.

    Markup that the parser cannot follow to its end gives all text between tags instead; so does
    markup whose tables take too much when they are laid out.
    """
    markup = clean(markup).replace(_END, "")
    if not markup.strip():
        return ""
    try:
        text = str(get_text(f"{markup}<p>{_END}</p>", _config()))
    except MemoryError:  # how much there is follows from what else this process has read
        raise
    except Exception:  # whatever a stranger's markup does to the parser, the text is there
        text = ""
    if _END in text:
        return text.replace(_END, "").strip()
    return html.unescape(_TAG.sub(" ", _INVISIBLE.sub(" ", markup))).strip()
