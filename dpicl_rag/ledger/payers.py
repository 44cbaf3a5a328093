"""Payers: the scopes of the ledger that have paid for answers from a corpus.

An answer from the corpus "mail" may be booked under "letters". Units of "mail" that turn out to be
one are then one in "letters" as well, or a person has two budgets there. But they are not one in
"legal", whatever the owner of "mail" says: otherwise anybody who fills a corpus could empty the
budgets of another. So joins go over

- the scope of the corpus's own name, and
- the scopes that have ever paid for the corpus, noted in the transaction that holds their budget.

Files of version 2 have no notes. Each scope of theirs may have paid for any corpus, so it follows
the joins of every corpus, for units that it knows. This ends when the scope is known to be a
corpus's own: with the first answer from that corpus that is booked under its own name, or when
units of that corpus are joined, separated or forgotten. From then on it follows its own corpus and
those that are noted. Answers that it paid for another corpus before there were notes, and none
after, are then forgotten: budgets that two corpora share are rare, and are named as such.
"""

from __future__ import annotations

import sqlite3

from dpicl_rag.files.database import require_whole
from dpicl_rag.ledger.copies import whole
from dpicl_rag.ledger.scope import Scope, every_scope, find_or_add

_ANY = ""  # no corpus has this name


def note(connection: sqlite3.Connection, scope: Scope, corpus: str) -> None:
    """Note that a scope pays for answers from a corpus."""
    connection.execute(
        "INSERT OR IGNORE INTO payer (corpus, scope) VALUES (?, ?)", (corpus, scope.id)
    )
    if corpus == scope.name:
        connection.execute("DELETE FROM payer WHERE corpus = ? AND scope = ?", (_ANY, scope.id))


def payers(connection: sqlite3.Connection, corpus: str) -> list[tuple[Scope, bool]]:
    """The scopes that follow what becomes of the units of a corpus, its own among them.

    Returns:
        Each scope, and whether it is known to have paid for the corpus. Where it is not, only units
        count that the scope knows.
    """
    note(connection, find_or_add(connection, "corpus", corpus), corpus)
    known: dict[int, bool] = {}
    for scope, named, sound in connection.execute(
        f"SELECT scope, max(corpus != ?), min({whole('payer')}) FROM payer"  # noqa: S608
        " WHERE corpus IN (?, ?) GROUP BY scope",
        (_ANY, _ANY, corpus),
    ):
        require_whole(sound)
        known[scope] = bool(named)
    return [(scope, known[scope.id]) for scope in every_scope(connection) if scope.id in known]
