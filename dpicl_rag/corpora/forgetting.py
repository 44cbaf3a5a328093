"""Forgetting one message of a corpus, and with it what it held together.

The units of a corpus are the connected components of its documents, so one message that ties many,
as a stranger's may, is undone by taking it away: what it alone held together is separate again.
Whoever forgets it need not know which units those were.
"""

from __future__ import annotations

from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.holdings import Holdings
from dpicl_rag.corpora.register import Register, key_hash
from dpicl_rag.corpora.separation import Separation, separate
from dpicl_rag.corpora.unit_accounts import Accounts
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders.shared_keys import name_key


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
    separate_in(contents, register, separation)


def units_of(message: str, contents: Contents, register: Register) -> set[str]:
    """The unit of a message, if it was not forgotten before; see `forget`."""
    digest = _digest(message, contents, register)
    unit = register.documents([digest])[digest]
    return set() if unit is None else {unit}


def separate_in(contents: Contents, register: Register, separation: Separation) -> None:
    """Delete the document, move the others, and note what is left for the ledger."""
    contents.delete(contents.documents("tie", [separation.document]))
    moved = contents.documents("tie", separation.documents)
    contents.move({one.number: separation.documents[one.tie] for one in moved})
    register.separate(separation)
    register.begin(separation)


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
    found = sorted({one.tie for one in called_so if one.tie})
    if not found:
        raise CorpusError(
            "no message of that id is in the corpus; `dpicl-rag corpora joins` names those that "
            "joined units"
        )
    if len(found) > 1:
        raise CorpusError(f"several messages have that id; name one of {', '.join(found)}")
    return found[0]
