"""Changes of a corpus's units and their accounts: made anew under a chosen unit, or separated.

Where nobody chose a unit, each record was one by itself, or its thread was. Under a chosen one,
such as a column, several of them are one unit. They are joined as a late reply joins threads: the
documents bring the keys of the units that held them (``Origin.former``), the ledger joins the
spends, passages move, and the register is last. So a process that is killed in between has
forgotten no spend, and to do the same again ends it.

Then units are joined and never split. A part of a unit may have lost more than the unit has spent
(``ledger/parts.py``), and how much others of the unit had a part in it: were it given a share, the
one's presence would move the other's budget. So where one unit held records of two chosen ones,
these become one as well. What the documents do not have leaves the corpus; by its name it is known
when it comes back.

A message that ties many units, as a stranger's may, is undone by forgetting it: what it alone held
together is separate again. Whoever forgets it need not know which units those were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.holdings import Holdings
from dpicl_rag.corpora.joins import separate
from dpicl_rag.corpora.register import Register, key_hash
from dpicl_rag.documents import THREAD_OR_DOCUMENT, Document
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders.shared_keys import Identity, Joins, name_key
from dpicl_rag.retrieval.stored_record import in_words

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


class Accounts:
    """The accounts of the units of one corpus.

    Args:
        corpus: Its name.
        ledger: Where they are kept.
        none: That nothing pays for answers from the corpus, so that there are none.
    """

    def __init__(self, corpus: str, ledger: Ledger | None, *, none: bool) -> None:
        self._corpus = corpus
        self._ledger = ledger
        self._none = none

    def join(self, survivors: Mapping[str, str]) -> None:
        """Join accounts; given, for each unit that goes, the one that it is part of now.

        Raises:
            CorpusError: No ledger was given.
            LedgerError: It cannot be written.
        """
        if survivors and (ledger := self.require()):
            ledger.merge_units(self._corpus, survivors)

    def separate(self, units: Sequence[str]) -> None:
        """Give each former unit an account of its own again, of all that it may have lost.

        Raises:
            CorpusError: No ledger was given.
            LedgerError: It cannot be written.
        """
        if units and (ledger := self.require()):
            ledger.separate_units(self._corpus, units)

    def require(self) -> Ledger | None:
        """The ledger; None where there is none to be.

        Raises:
            CorpusError: It was not given.
        """
        if self._ledger is None and not self._none:
            raise CorpusError(
                "units become one, or several again, and what they have spent must follow; give "
                "the ledger (ledger=..., or --ledger FILE), or say that there is none "
                "(no_ledger=True, or --no-ledger)"
            )
        return self._ledger


def is_asked_for(corpus: str, recorded: str | None, kind: str | None) -> bool:
    """Test for a corpus of another kind of unit than its documents: it is to be made anew.

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
    identity: Identity,
    corpus: str,
    contents: Contents,
    joins: Joins,
) -> set[str]:
    """The units of which the documents have nothing.

    Args:
        documents: All that shall be in the corpus.
        identity: Their units.
        corpus: Its name.
        contents: What is there.
        joins: ``"allow"`` lets units leave, and chosen units become one.

    Raises:
        CorpusError: Either would be, and is not allowed. Nothing was written.
    """
    chosen: defaultdict[str, set[str]] = defaultdict(set)
    for document, unit in zip(documents, identity.units, strict=True):
        chosen[unit].add(document.unit)
    gone = contents.every_unit().difference(identity.units, identity.merged)
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


def forget(
    message: str, contents: Contents, register: Register, holdings: Holdings, accounts: Accounts
) -> None:
    """Delete the passages of a message, and its ties; `finish` comes after the commit.

    No unit ever has a fresh account: a unit that the ledger does not know shares the account of the
    one that it leaves before the commit, and a former unit goes on sharing that account until
    `finish`. If the process is killed in between, whoever writes to the corpus next finishes it.

    Args:
        message: Its name among the `documents` of a `Join`, or its Message-ID.
        contents: Of the corpus.
        register: Of the corpus.
        holdings: Of the corpus.
        accounts: Of its units.

    Raises:
        CorpusError: No message of the corpus is called so, or several are. Whatever ``accounts``
            raises.
    """
    digest = _digest(message, contents, register)
    unit = register.documents([digest])[digest]
    if unit is None:
        return  # it was forgotten before
    separation = separate(
        unit,
        register.ties(unit),
        digest,
        register.former_names().get(unit, ()),
        register.stored_names().get(unit, ()),
        lambda name: key_hash(name_key(name)),
    )
    accounts.join(separation.fresh)
    if separation.freed:
        accounts.require()
    # Another message of the same unit may have the same text: who reads it again finds out.
    holdings.release_shared(one.digest.hex() for one in contents.documents("tie", [digest]))
    contents.delete(contents.documents("tie", [digest]))
    moved = contents.documents("tie", separation.documents)
    contents.move({one.number: separation.documents[one.tie] for one in moved})
    register.separate(separation)
    register.begin(separation)


def units_of(message: str, contents: Contents, register: Register) -> set[str]:
    """The unit of a message, if it was not forgotten before; see `forget`."""
    digest = _digest(message, contents, register)
    unit = register.documents([digest])[digest]
    return set() if unit is None else {unit}


def finish(register: Register, accounts: Accounts) -> None:
    """Give former units their accounts, if that is to be done; again, nothing happens.

    Raises:
        CorpusError: Accounts are to be separated, and no ledger was given.
        LedgerError: It cannot be written.
    """
    separation = register.pending()
    if separation is not None:
        accounts.separate(separation.freed)
        accounts.join(separation.merged)
        register.end()


def _digest(message: str, contents: Contents, register: Register) -> str:
    """The name under which the register knows a message."""
    if register.documents([message]):
        return message
    id = message.strip().strip("<>")
    called_so = contents.documents("json_extract(fields, '$.message_id')", [id, f"<{id}>"])
    digests = sorted({one.tie for one in called_so if one.tie})
    if not digests:
        raise CorpusError(
            "no message of that id is in the corpus; `dpicl-rag corpora joins` names those that "
            "joined units"
        )
    if len(digests) > 1:
        raise CorpusError(f"several messages have that id; name one of {', '.join(digests)}")
    return digests[0]
