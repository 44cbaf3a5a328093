"""Kinds of privacy unit of a corpus: public, and for life."""

from __future__ import annotations

from dpicl_rag.documents import THREAD_OR_DOCUMENT
from dpicl_rag.errors import CorpusError


def require(corpus: str, recorded: str | None, kind: str) -> bool:
    """Refuse another kind of privacy unit than a corpus has.

    Args:
        corpus: Its name.
        recorded: What a unit of it is, such as ``"sender"``; None where that is not on record.
        kind: What a unit of documents is. Public.

    Returns:
        Whether its kind is on record.

    Raises:
        CorpusError: It is another.
    """
    if recorded is None or recorded == kind:
        return recorded is not None
    if recorded == THREAD_OR_DOCUMENT:
        remedy = (
            "Leave the unit out (--unit), or make the corpus anew under it, with what was spent: "
            f"`dpicl-rag ingest` of all its files with --unit {kind} --anew (anew=True)"
        )
    else:
        remedy = f"Use {recorded!r} (--unit {recorded}), or put the documents into another corpus"
    raise CorpusError(
        f"a unit of {corpus!r} is {in_words(recorded)}, not {in_words(kind)}: a person "
        f"who is in two units has two budgets. {remedy}"
    )


def in_words(kind: str) -> str:
    """A kind of unit, as users know it."""
    if kind == THREAD_OR_DOCUMENT:
        return "one document, of mail one email thread"
    if kind in ("document", "thread"):
        return {"document": "one document", "thread": "one email thread"}[kind]
    return f"the same {kind}"
