"""Forgetting one message of a corpus, and with it what it held together.

The units of a corpus are the connected components of its documents, so one message that ties many,
as a stranger's may, is undone by taking it away: what it alone held together is separate again.
Whoever forgets it need not know which units those were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag.corpora.identity import name_key
from dpicl_rag.corpora.passages import TIE_FIELD, UNIT_FIELD, stored_fields
from dpicl_rag.corpora.register import Register, key_hash, pages
from dpicl_rag.corpora.separation import Separation, separate
from dpicl_rag.corpora.unit_accounts import Accounts
from dpicl_rag.errors import CorpusError

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

_PAGE = 1000


def forget(message: str, collection: Collection, register: Register, accounts: Accounts) -> None:
    """Delete the passages of a message, and its ties.

    What is to be done is noted before anything is, and done in an order in which no unit ever has
    a fresh account: a unit that the ledger does not know shares the account of the one that it
    leaves before a passage is moved to it, and a former unit goes on sharing that account until all
    is moved. If the process is killed in between, whoever writes to the corpus next ends it.

    Args:
        message: Its name among the `documents` of a `Join`, or its Message-ID.
        collection: The passages.
        register: Of the corpus.
        accounts: Of its units.

    Raises:
        CorpusError: No message of the corpus is called so, or several are. Whatever ``accounts``
            raises.
    """
    digest = _digest(message, collection, register)
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
    register.begin(separation)
    finish(collection, register, accounts)


def finish(collection: Collection, register: Register, accounts: Accounts) -> bool:
    """End what `forget` has begun, if it did not come to its end; again, nothing happens.

    Returns:
        Whether there was anything to do.

    Raises:
        CorpusError: Accounts are to be separated, and no ledger was given.
        LedgerError: It cannot be written.
    """
    separation = register.pending()
    if separation is None:
        return False
    _delete(collection, separation)
    _move(collection, separation)
    register.separate(separation)
    accounts.separate(separation.freed)
    accounts.join(separation.merged)
    register.end()
    return True


def _digest(message: str, collection: Collection, register: Register) -> str:
    """The name under which the register knows a message."""
    if register.documents([message]):
        return message
    id = message.strip().strip("<>")
    fields = stored_fields(collection, "message_id", [id, f"<{id}>"])
    found = sorted({str(one[TIE_FIELD]) for one in fields.values() if TIE_FIELD in one})
    if not found:
        raise CorpusError(
            "no message of that id is in the corpus; `dpicl-rag corpora joins` names those that "
            "joined units. One that was read by an older version is known once it is read again"
        )
    if len(found) > 1:
        raise CorpusError(f"several messages have that id; name one of {', '.join(found)}")
    return found[0]


def _delete(collection: Collection, separation: Separation) -> None:
    ids = list(stored_fields(collection, TIE_FIELD, [separation.document]))
    for page in pages(ids, _PAGE):
        collection.delete(ids=list(page))


def _move(collection: Collection, separation: Separation) -> None:
    moved = {
        id: separation.documents[str(fields[TIE_FIELD])]
        for id, fields in stored_fields(collection, TIE_FIELD, list(separation.documents)).items()
    }
    for page in pages(list(moved), _PAGE):
        collection.update(list(page), metadatas=[{UNIT_FIELD: moved[id]} for id in page])
