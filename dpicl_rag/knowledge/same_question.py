"""Equality of questions but for case, spacing and the mark at the end."""

from __future__ import annotations

from dpicl_rag.normal_forms import normal_form

_ENDING = " .?!\u061f\u3002"  # the Arabic question mark and the ideographic full stop have no NFKC


def same_words(question: str) -> str:
    """The question as it is compared: two are the same if this is equal.

    Width and other compatible forms (NFKC), case, white space and the mark at the end make no
    difference. Nothing else is taken away: ``C`` and ``C#`` are two questions.
    """
    folded = normal_form("NFKC", question).casefold()
    spaced = " ".join(normal_form("NFKC", folded).split())
    return spaced.rstrip(_ENDING) or spaced
