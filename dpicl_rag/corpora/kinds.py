"""What a privacy unit of a corpus is: its kind, public and for life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag.documents import THREAD_OR_DOCUMENT
from dpicl_rag.errors import CorpusError

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

MADE_ANEW = "dpicl_made_anew"
"""Field of a collection whose units were others before."""

_KIND = "dpicl_privacy_unit"


def kind_of(collection: Collection) -> str | None:
    """What a unit of a collection is; None where that is not on record."""
    kind = (collection.metadata or {}).get(_KIND)
    return None if kind is None else str(kind)


def require(collection: Collection, kind: str) -> bool:
    """Refuse another kind of privacy unit than the collection has.

    Args:
        collection: The passages.
        kind: What a unit is, such as ``"sender"``. Public.

    Returns:
        Whether its kind is on record.

    Raises:
        CorpusError: It is another.
    """
    recorded = kind_of(collection)
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
        f"a unit of {collection.name!r} is {in_words(recorded)}, not {in_words(kind)}: a person "
        f"who is in two units has two budgets. {remedy}"
    )


def write(collection: Collection, kind: str, *, made_anew: bool = False) -> None:
    """Note what a unit of the collection is."""
    metadata = dict(collection.metadata or {})
    # Chroma refuses to write this one again; it is in the collection's configuration as well.
    metadata.pop("hnsw:space", None)
    anew = {MADE_ANEW: True} if made_anew else {}
    collection.modify(metadata={**metadata, _KIND: kind, **anew})


def in_words(kind: str) -> str:
    """A kind of unit, as users know it."""
    if kind == THREAD_OR_DOCUMENT:
        return "one document, of mail one email thread"
    if kind in ("document", "thread"):
        return {"document": "one document", "thread": "one email thread"}[kind]
    return f"the same {kind}"
