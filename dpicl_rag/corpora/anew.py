"""A corpus made anew under a chosen privacy unit, with what its units have spent.

Where nobody chose a unit, each record was one by itself, or its thread was. Under a chosen one,
such as a column, several of them are one unit. They are joined as a late reply joins threads: the
documents bring the keys of the units that held them (``Origin.former``), the ledger joins the
spends, passages move, and the register is last. So a process that is killed in between has
forgotten no spend, and to do the same again ends it.

Units are joined and never split. A part of a unit may have lost more than the unit has spent
(``ledger/parts.py``), and how much others of the unit had a part in it: were it given a share, the
one's presence would move the other's budget. So where one unit held records of two chosen ones,
these become one as well.

What the documents do not have leaves the corpus; by its name it is known when it comes back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.register import Register
from dpicl_rag.documents import THREAD_OR_DOCUMENT, Document
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders.shared_keys import Identity, Joins, name_key
from dpicl_rag.retrieval.kinds import in_words


def is_asked_for(corpus: str, recorded: str | None, kind: str | None) -> bool:
    """Whether documents of a kind of unit make a corpus anew: it has another.

    Args:
        corpus: Its name.
        recorded: What a unit of it is.
        kind: What one of the documents is.

    Raises:
        CorpusError: Its units were chosen, and would have to be split.
    """
    if kind is None or recorded is None or recorded == kind:
        return False
    if recorded != THREAD_OR_DOCUMENT:
        raise CorpusError(
            f"a unit of {corpus!r} is {in_words(recorded)}, and a unit cannot be split: "
            "what it has lost, each part of it may have lost. Go on with that unit, or put the "
            "documents into another corpus"
        )
    return True


def tied(documents: Sequence[Document]) -> list[Document]:
    """The documents, each tied to the unit that held it before."""
    return [
        replace(one, origin=replace(one.origin, keys=(*one.origin.keys, *one.origin.former)))
        for one in documents
    ]


def leaving(
    documents: Sequence[Document],
    found: Identity,
    corpus: str,
    contents: Contents,
    joins: Joins,
) -> set[str]:
    """The units of which the documents have nothing.

    Args:
        documents: All that shall be in the corpus.
        found: Their units.
        corpus: Its name.
        contents: What is there.
        joins: ``"allow"`` lets units leave, and chosen units become one.

    Raises:
        CorpusError: Either would be, and is not allowed. Nothing was written.
    """
    chosen: defaultdict[str, set[str]] = defaultdict(set)
    for document, unit in zip(documents, found.units, strict=True):
        chosen[unit].add(document.unit)
    gone = contents.every_unit().difference(found.units, found.merged)
    if joins != "allow":
        if gone:
            raise CorpusError(
                f"corpus {corpus!r} holds records that these files do not have, or have "
                "no value for the unit; nothing was stored. Give all files that it was made of, "
                "with the same --text-field and --key-field, or let the others leave it with --yes "
                "(joins='allow')"
            )
        if any(len(names) > 1 for names in chosen.values()):
            raise CorpusError(
                f"one unit of {corpus!r} holds records of several new units, which would "
                "become one, for a unit cannot be split; nothing was stored. --yes (joins='allow') "
                "accepts that, or put the documents into another corpus"
            )
    return gone


def leave(contents: Contents, register: Register, units: set[str]) -> None:
    """Let units leave the corpus; by their names they are known when they come back."""
    register.record({name_key(unit): unit for unit in units}, {}, {})
    contents.delete(contents.documents("unit", contents.numbers(units).values()))
