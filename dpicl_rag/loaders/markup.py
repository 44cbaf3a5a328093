"""Text of HTML."""

from __future__ import annotations

import html
import re

from inscriptis import get_text

from dpicl_rag.loaders.records import clean

# The HTML parser stops without a word where elements nest too deeply, and drops the rest. A mark
# at the end that does not come through tells.
_END = "\ue001"
_INVISIBLE = re.compile(r"<(?:script|style)\b[^<]*", re.I)
_TAG = re.compile(r"<[^<>]*>")


def text_of_html(markup: str) -> str:
    """The text that a reader sees, laid out in lines; never fails.

    Markup that the parser cannot follow to its end gives all text between tags instead.
    """
    markup = clean(markup).replace(_END, "")
    if not markup.strip():
        return ""
    try:
        text = str(get_text(f"{markup}<p>{_END}</p>"))
    except MemoryError:  # how much there is follows from what else this process has read
        raise
    except Exception:  # whatever a stranger's markup does to the parser, the text is there
        text = ""
    if _END in text:
        return text.replace(_END, "").strip()
    return html.unescape(_TAG.sub(" ", _INVISIBLE.sub(" ", markup))).strip()
