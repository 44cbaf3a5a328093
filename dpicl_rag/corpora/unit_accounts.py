"""Accounts: what the units of a corpus have spent, where units become one and several again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpicl_rag.errors import CorpusError

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
