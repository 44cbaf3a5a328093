"""Text of HTML, of enriched text and of calendars."""

from __future__ import annotations

import html
import re
from itertools import accumulate, islice
from typing import Any

from inscriptis.html_engine import Inscriptis
from inscriptis.model.config import ParserConfig
from inscriptis.model.table import Table
from inscriptis.model.tag import CustomHtmlTagHandlerMapping
from inscriptis.model.tag.table_tag import table_start_handler
from lxml import etree
from lxml.html import HtmlElement, document_fromstring

from dpicl_rag.loaders.records import MAX_RECORD_BYTES, clean

ORIGINAL_MESSAGE = "-----Original Message-----"
"""A line below which all is quoted."""

# The HTML parser stops without a word where elements nest too deeply, and drops the rest. A mark
# at the end that does not come through tells. It drops what stands behind the document, too: so
# the document must not end, as it need not by the standard.
_END, _QUOTE, _UNQUOTE = "\ue001", "\ue002", "\ue003"
_MARKS = re.compile(f"[{_END}{_QUOTE}{_UNQUOTE}]")
_DECLARATION = re.compile(r"\A\s*<\?xml [^>]*>")
_DOCUMENT_END = re.compile(r"</(?:body|html)\s*>", re.I)
_TAG = re.compile(r"(<[^<>]*>)")
_TAG_NAME = re.compile(r"<(/?)\s*([a-z][a-z0-9]*)", re.I)
_INVISIBLE = ("script", "style", "title")
_INLINE = frozenset(
    "a abbr b big code em font i img s small span strong sub sup tt u".split()  # noqa: SIM905
)

# How mail programs mark what they quote: the elements that hold it, and those which it follows.
_QUOTE_IDS = frozenset(
    ["OLK_SRC_BODY_SECTION", "mail-editor-reference-message-container", "reply-intro"]
)
_QUOTE_CLASSES = frozenset(
    "gmail_attr moz-cite-prefix yahoo_quoted zmail_extra protonmail_quote tutanota_quote".split()  # noqa: SIM905
)
_BEFORE_QUOTE = ("divrplyfwdmsg", "appendonsend")
_FEWEST_LABELS = 3  # "From:", "Sent:", "To:", in whatever language

_ENRICHED_TAG = re.compile(r"<param>[^<]{0,200}</param>|</?[a-z-]{1,60}>", re.I)
_LINE_ENDS = re.compile(r"\n+")

_FOLD = re.compile(r"\r?\n[ \t]")
_PROPERTY = re.compile(r"([A-Za-z-]{1,60})((?:;[^:\"]{0,500}|\"[^\"]{0,500}\")*):(.*)")
_PARAMETER = re.compile(r";([A-Za-z-]+)=\"?([^\";:]*)")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?")
_ESCAPED = re.compile(r"\\([\\;,nN])")
_ENTRIES = ("VEVENT", "VTODO", "VJOURNAL")
_TOLD = {
    "SUMMARY": "Summary",
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "LOCATION": "Location",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "STATUS": "Status",
    "DESCRIPTION": "Description",
    "COMMENT": "Comment",
}
_ANSWERS = ("REPLY", "COUNTER", "REFRESH", "DECLINECOUNTER")

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


def text_of_html(markup: str, *, marks_quotes: bool = False) -> str:
    """The text that a reader sees, laid out in lines; never fails.

    Markup that the parser cannot follow to its end gives all text between tags instead; so does
    markup whose tables take too much when they are laid out.

    Args:
        markup: A document, or a part of one.
        marks_quotes: Of a mail: put ``> `` before each line of what the elements of mail programs
            quote, and `ORIGINAL_MESSAGE` before that which stands below a header of theirs.
    """
    markup = _MARKS.sub("", clean(markup))
    if not markup.strip():
        return ""
    try:
        open_ended = _DOCUMENT_END.sub("", _DECLARATION.sub("", markup, count=1))
        tree = document_fromstring(f"{open_ended}<p>{_END}</p>")
        etree.strip_elements(tree, etree.Comment, etree.ProcessingInstruction, with_tail=False)
        if marks_quotes:
            _mark_quotes(tree)
        text = Inscriptis(tree, _config()).get_text()
    except MemoryError:  # how much there is follows from what else this process has read
        raise
    except Exception:  # whatever a stranger's markup does to the parser, the text is there
        text = ""
    if _END not in text:
        text = _between_tags(markup, marks_quotes)
    return _quoted(text.replace(_END, "")).strip()


def _mark_quotes(tree: HtmlElement) -> None:
    for element in list(tree.iter(etree.Element)):
        if _is_before_quote(element):
            _put(element, 0, ORIGINAL_MESSAGE)
        elif _is_quote(element):
            _put(element, 0, _QUOTE)
            _put(element, len(element), _UNQUOTE)


def _put(element: HtmlElement, at: int, line: str) -> None:
    mark = etree.Element("div")
    mark.text = line
    if not at:
        mark.tail, element.text = element.text, None
    element.insert(at, mark)


def _is_quote(element: HtmlElement) -> bool:
    classes = element.get("class", "").split()
    return (
        element.tag == "blockquote"
        or element.get("id") in _QUOTE_IDS
        or element.get("name") == "quote"
        or not _QUOTE_CLASSES.isdisjoint(classes)
        # What Gmail forwards stands in no block of its own.
        or ("gmail_quote" in classes and element.find(".//blockquote") is None)
    )


def _is_before_quote(element: HtmlElement) -> bool:
    if element.get("id", "").lower().removeprefix("x_") in _BEFORE_QUOTE:
        return True
    # Outlook rules off the header of what it quotes; its labels are in the writer's language.
    if element.tag != "div" or "border-top" not in element.get("style", "").lower():
        return False
    labels = element.iter("b", "strong")
    return sum(_is_label(label) for label in islice(labels, 2 * _FEWEST_LABELS)) >= _FEWEST_LABELS


def _is_label(element: HtmlElement) -> bool:
    return (element.text or "").rstrip().endswith((":", "："))


def _quoted(text: str) -> str:
    """The text with marks of quotes as ``>`` before lines."""
    if _QUOTE not in text:
        return text
    depth = 0
    lines: list[str] = []
    for line in text.split("\n"):
        begins, ends = line.count(_QUOTE), line.count(_UNQUOTE)
        said = line.replace(_QUOTE, "").replace(_UNQUOTE, "")
        depth += begins
        if said.strip() or not (begins or ends):
            lines.append(f"> {said.strip()}".rstrip() if depth else said)
        depth = max(0, depth - ends)
    return "\n".join(lines)


def _between_tags(markup: str, marks_quotes: bool) -> str:
    """All text between tags but scripts, styles and titles: a block is a line."""
    lower = markup.lower()
    last = {name: lower.rfind(f"</{name}") for name in _INVISIBLE}
    hidden = ""
    at = 0
    kept: list[str] = []
    for piece in _TAG.split(markup):
        at += len(piece)
        found = _TAG_NAME.match(piece)
        if found is None:
            # Line ends of markup are blanks; what only looks like a tag is text.
            kept.append("" if hidden or piece.startswith("<!") else " ".join(piece.split("\n")))
            continue
        closes, name = bool(found[1]), found[2].lower()
        if hidden:
            hidden = "" if closes and name == hidden else hidden
        elif name in last and not closes and last[name] >= at:
            hidden = name
        elif name == "blockquote" and marks_quotes:
            kept.append(f"\n{_UNQUOTE if closes else _QUOTE}\n")
        else:
            kept.append("" if name in _INLINE else "\n")
    lines = (" ".join(line.split()) for line in html.unescape("".join(kept)).split("\n"))
    return "\n".join(line for line in lines if line)


def text_of_enriched(markup: str) -> str:
    """The text of ``text/enriched`` (RFC 1896) and of ``text/richtext``."""
    markup = markup.replace("\r\n", "\n").replace("<nl>", "\n\n").replace("<<", "\ue001")
    lines = _LINE_ENDS.sub(lambda ends: "\n" * (len(ends[0]) - 1) or " ", markup)
    return _ENRICHED_TAG.sub("", lines).replace("\ue001", "<").strip()


def text_of_calendar(markup: str) -> str:
    """What entries of a calendar say (RFC 5545), a line each.

    Of an answer to an invitation only what its sender says: the rest is the inviter's.
    """
    method, within = "", []
    entries: list[list[str]] = []
    for line in _FOLD.sub("", markup).splitlines():
        found = _PROPERTY.fullmatch(line.strip())
        if found is None:
            continue
        name, parameters, value = found[1].upper(), found[2], found[3]
        if name == "BEGIN":
            within.append(value.upper())
            entries += [[]] if within[-1] in _ENTRIES else []
        elif name == "END":
            del within[-1:]
        elif name == "METHOD":
            method = value.upper()
        elif within and within[-1] in _ENTRIES:
            entries[-1] += _told(name, dict(_PARAMETER.findall(parameters)), value, method)
    if not entries:
        return markup
    return "\n\n".join("\n".join(lines) for lines in entries)


def _told(name: str, parameters: dict[str, str], value: str, method: str) -> list[str]:
    if method in _ANSWERS and name not in ("ATTENDEE", "COMMENT"):
        return []
    if name not in _TOLD or not value.strip():
        return []
    if date := _DATE.fullmatch(value):
        year, month, day, hour, minute, is_utc = date.groups()
        zone = "UTC" if is_utc else parameters.get("TZID", "")
        value = f"{year}-{month}-{day}" + (f" {hour}:{minute} {zone}".rstrip() if hour else "")
    value = _ESCAPED.sub(lambda one: "\n" if one[1] in "nN" else one[1], value)
    if name in ("ATTENDEE", "ORGANIZER"):
        address = re.sub("(?i)^mailto:", "", value)
        who = f"{parameters['CN']} <{address}>" if parameters.get("CN") else address
        value = f"{who} {parameters.get('PARTSTAT', '').lower()}".rstrip()
    return [f"{_TOLD[name]}: {value.strip()}"]
