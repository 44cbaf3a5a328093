"""Warning that nothing bounds what is spent."""

from __future__ import annotations

import warnings


class NoBudgetWarning(UserWarning):
    """A ledger has no budget for a corpus: it records what is spent and refuses nothing."""


def warn_of_no_budget(corpus: str) -> None:
    """Say so, to whoever reserves."""
    warnings.warn(
        f"the ledger has no budget for corpus {corpus!r}: nothing bounds what its units lose over "
        f"many answers. Give it one with ledger.set_budget(corpus={corpus!r}, epsilon=...), or "
        "name the corpus that has one; rho=math.inf says that none is wanted",
        NoBudgetWarning,
        stacklevel=3,
    )
