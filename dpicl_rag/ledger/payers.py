"""Payers: the scopes of the ledger that have paid for answers from a corpus.

An answer from the corpus "mail" may be booked under "letters". Units of "mail" that turn out to be
one are then one in "letters" as well, or a person has two budgets there. But they are not one in
"legal", whatever the owner of "mail" says: otherwise anybody who fills a corpus could empty the
budgets of another. So joins go over

- the scope of the corpus's own name, and
- the scopes that have ever paid for the corpus, noted in the transaction that holds their budget.
"""

from __future__ import annotations

import sqlite3

from dpicl_rag.files.tables import require_whole
from dpicl_rag.ledger.copies import whole
from dpicl_rag.ledger.scope import Scope, every_scope, find_or_add


def note(connection: sqlite3.Connection, scope: Scope, corpus: str) -> None:
    """Note that a scope pays for answers from a corpus."""
    connection.execute(
        "INSERT OR IGNORE INTO payer (corpus, scope) VALUES (?, ?)", (corpus, scope.id)
    )


def payers(connection: sqlite3.Connection, corpus: str) -> list[Scope]:
    """The scopes that follow what becomes of the units of a corpus, its own among them."""
    note(connection, find_or_add(connection, "corpus", corpus), corpus)
    known = set()
    for scope, sound in connection.execute(
        f"SELECT scope, {whole('payer')} FROM payer WHERE corpus = ?",  # noqa: S608
        (corpus,),
    ):
        require_whole(sound)
        known.add(scope)
    return [scope for scope in every_scope(connection) if scope.id in known]
