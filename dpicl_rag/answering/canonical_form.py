"""The canonical form of a sentence: what two experts must have in common to say the same.

It is what is shown, too, so nothing that only one expert said can be in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

CanonicalForm = Callable[[str], str | None]
"""From an expert's words to the words that stand for them; None, or no text, for no vote. Public:
a function of its argument alone."""

# A sentence ends before white space, so that "3.5" and "e.g.that" go on.
_SENTENCE = re.compile(r"[.!?\u3002\uff01\uff1f](?=[\s\"')\]]|$)|\n")
_AROUND = " \t\r\n.,;:!?\"'*`\u3002"


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence, or all of it."""
    text = text.lstrip()
    end = _SENTENCE.search(text)
    return text if end is None else text[: end.start()]


def canonical_form(text: str) -> str | None:
    """NFKC, single spaces, no marks around; letters keep their case."""
    form = " ".join(unicodedata.normalize("NFKC", text).split()).strip(_AROUND)
    printable = all(character.isprintable() for character in form)
    return form if form and printable else None
