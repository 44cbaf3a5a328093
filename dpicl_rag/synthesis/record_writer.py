"""The loop that writes the records of a run, and the ledger's hold on what they may still cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from dpicl_rag.language_models.base import Progress
from dpicl_rag.ledger.account import Account, open_account
from dpicl_rag.synthesis.released_records import RecordStoppedBy
from dpicl_rag.synthesis.synthesis_folder import Run

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


def write_records(
    run: Run,
    total: int,
    draw: Callable[[int], Iterator[int]],
    stopped_by: Callable[[Sequence[int]], RecordStoppedBy],
    on_progress: Progress | None,
) -> None:
    """Write every record that was not begun yet.

    Args:
        run: Keeps them: a token is on the disk before the next one is drawn.
        total: Records of the plan.
        draw: Reads what a record is drawn from; then its tokens come one by one, each paid for.
        stopped_by: Why a record with these tokens ended.
        on_progress: Called with records written and records of the plan, after every token.
    """
    begun = run.records

    def tell(written: int) -> None:
        if on_progress is not None:
            on_progress(written, total)

    tell(0)
    for number in range(total):
        if number not in begun:
            drawing = draw(number)
            run.begin(number)
            for token in drawing:
                run.add(number, token)
                tell(number)
            run.close(number, stopped_by(run.records[number].tokens))
        tell(number + 1)


def run_account(
    ledger: Ledger | None,
    corpus: str,
    rho: float,
    units: Sequence[str] | None = None,
    *,
    lost: float = 0.0,
) -> Account:
    """The account of the rest of a run; what is not used goes back.

    Args:
        ledger: The ledger, if there is one. It is not asked where nothing is left to pay.
        corpus: Whose budget.
        rho: What the rest costs any unit at most.
        units: All units, where each pays for itself.
        lost: Rho of what kills may have taken for tokens that nobody saw; so much less is enough.
    """
    least = max(0.0, rho - lost)
    if ledger is not None and rho and not least:  # kills may have taken all that is left
        scopes = {(scope.kind, scope.name): scope.remaining for scope in ledger.status()}
        room = scopes.get(("corpus", corpus))
        rho = rho if room is None else min(rho, room)
    payer = ledger if rho else None
    at_least = least if lost and least else None
    return open_account(payer, corpus=corpus, rho=rho, at_least=at_least, units=units)
