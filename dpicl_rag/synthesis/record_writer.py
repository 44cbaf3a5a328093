"""The one way in which records are written: begun in a folder, paid for, drawn and released."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dpicl_rag.accounting.prices import PricedPlan
from dpicl_rag.language_models.base import Progress
from dpicl_rag.ledger.account import Account, open_account
from dpicl_rag.synthesis.released_records import RecordStoppedBy, Synthesis, SyntheticRecord
from dpicl_rag.synthesis.synthesis_folder import Drawn, Run, SynthesisPlan, open_run

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


class RecordWriter(Protocol):
    """Draws the records of one kind of synthesis, and pays for them. It holds private texts."""

    @property
    def total(self) -> int:
        """Records of the plan."""
        ...

    def draw(self, number: int) -> Iterator[int]:
        """Read what a record is drawn from; then its tokens come one by one, each paid for."""
        ...

    def stopped_by(self, tokens: Sequence[int]) -> RecordStoppedBy:
        """The reason for which a record with these tokens ended."""
        ...

    def record(self, number: int, drawn: Drawn) -> SyntheticRecord:
        """A record of the journal as text."""
        ...


def write(
    plan: PricedPlan,
    kept: SynthesisPlan,
    opened: Callable[[Run], AbstractContextManager[RecordWriter]],
    *,
    folder: Path | None,
    on_progress: Progress | None,
) -> Synthesis:
    """Write the records of a plan, or those that a folder's run still lacks.

    Args:
        plan: Price of the whole.
        kept: The part of it that a folder keeps.
        opened: Reads the documents and opens the account of what a run still costs.
        folder: Where the run is kept, so that a kill loses nothing.
        on_progress: Called with records written and records of the plan, after every token.

    Raises:
        ConfigurationError: The folder holds another plan or a damaged run, or another process is
            at it.
    """
    with open_run(folder, kept) as run:
        with opened(run) as writer:
            _draw_all(run, writer, on_progress)
        drawn = run.records
        records = tuple(writer.record(number, drawn[number]) for number in range(writer.total))
    return Synthesis(records, plan.epsilon, plan.delta, plan.rho, kept.settings)


def _draw_all(run: Run, writer: RecordWriter, on_progress: Progress | None) -> None:
    """Draw every record that was not begun yet; a token is on the disk before the next one."""
    begun, total = run.records, writer.total

    def tell(written: int) -> None:
        if on_progress is not None:
            on_progress(written, total)

    tell(0)
    for number in range(total):
        if number not in begun:
            drawing = writer.draw(number)
            run.begin(number)
            for token in drawing:
                run.add(number, token)
                tell(number)
            run.close(number, writer.stopped_by(run.records[number].tokens))
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
