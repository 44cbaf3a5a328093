"""A run of a synthesis: its folder, its account, and the loop that all kinds of records come from.

The order is: charge, draw, commit to the ledger, write to the folder, show. So a kill at any
instant leaves at most one paid token that nobody saw. The run that goes on in the folder draws
nothing twice: released numbers are read back, finished records stay, and the record under way is
closed with the tokens it has, since drawing it on would need what its units have spent in it.

Everything in a folder but the key is public: settings, and what was released.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dpicl_rag.accounting.prices import PricedPlan
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import alone_in, cut_tail, whole_lines, write_line, write_whole
from dpicl_rag.language_models.base import Progress
from dpicl_rag.ledger.account import Account, open_account
from dpicl_rag.synthesis.released_records import RecordStoppedBy, Synthesis, SyntheticRecord

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger

_VERSION = 1
_PLAN, _KEYS, _JOURNAL, _KEY = "plan.json", "keys.json", "journal.jsonl", "run.key"
_KEY_BYTES = 32
_ANOTHER = "give another folder, or the same plan to go on with it"


@dataclass(frozen=True, slots=True)
class Drawn:
    """The tokens of one record.

    Attributes:
        tokens: What was drawn, in order.
        stopped_by: Why it ended; None while it is under way.
    """

    tokens: tuple[int, ...] = ()
    stopped_by: RecordStoppedBy | None = None

    def record(
        self, text: str, *, label: str | None = None, key: str | None = None
    ) -> SyntheticRecord:
        """The record whose text these tokens make."""
        many, end = len(self.tokens), self.stopped_by or "interrupted"
        return SyntheticRecord(text, label, key, many, end)


@dataclass(frozen=True, slots=True)
class SynthesisPlan:
    """The work and the cost of a run: fixed before any data are read, and public.

    Attributes:
        settings: All that the records depend on, as JSON has it; the model's fingerprint too.
        charges: What the parts of the run cost a unit at most.
    """

    settings: Mapping[str, Any]
    charges: Mapping[str, float]

    @property
    def digest(self) -> str:
        """A digest that distinguishes plans."""
        text = json.dumps([self.settings, self.charges], sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


class Run:
    """A run that is under way. Made by `open_run`.

    Attributes:
        key: Secret bytes of this run, for coins that must come out the same again.
    """

    def __init__(
        self,
        folder: Path | None,
        key: bytes,
        records: Mapping[int, Drawn],
        released: Mapping[str, Any],
    ) -> None:
        self.key = key
        self._folder = folder
        self._records = dict(records)
        self._released = dict(released)

    def __repr__(self) -> str:
        return "Run()"

    @property
    def records(self) -> Mapping[int, Drawn]:
        """The records that were begun, by their number in the plan."""
        return dict(self._records)

    def released(self, name: str, draw: Callable[[], Any]) -> Any:
        """Numbers that were released under a name, or else what is drawn and paid for now.

        Args:
            name: Of the round of counts.
            draw: Pays, draws and gives what JSON can hold. It is written before it is used.
        """
        if name not in self._released:
            self._released[name] = draw()
            if self._folder is not None:
                text = json.dumps(self._released, allow_nan=False)
                write_whole(self._folder / _KEYS, f"{text}\n".encode())
        return self._released[name]

    def has_released(self, names: Iterable[str]) -> bool:
        """True where all these rounds were released before."""
        return set(names) <= self._released.keys()

    def begin(self, record: int) -> None:
        """Begin a record. Call it before anything is paid for it.

        Raises:
            ConfigurationError: It was begun before: it would be paid for twice.
        """
        if record in self._records:
            raise ConfigurationError("a record is drawn once; its tokens are in the journal")
        self._write(record, {"record": record}, Drawn())

    def add(self, record: int, token: int) -> None:
        """Keep a token that was paid for; it is on the disk when this returns."""
        before = self._records[record]
        line = {"record": record, "token": token}
        self._write(record, line, Drawn((*before.tokens, token)))

    def close(self, record: int, stopped_by: RecordStoppedBy) -> None:
        """End a record."""
        line = {"record": record, "stopped_by": stopped_by}
        self._write(record, line, Drawn(self._records[record].tokens, stopped_by))

    def _write(self, record: int, line: Mapping[str, Any], drawn: Drawn) -> None:
        if self._folder is not None:
            write_line(self._folder / _JOURNAL, line)
        self._records[record] = drawn


@dataclass(frozen=True, slots=True)
class Kept(SynthesisPlan):
    """A run read back, finished or not: its plan, and what was released.

    Attributes:
        records: Those that were begun, by number.
        released: Rounds of counts, by name.
    """

    records: Mapping[int, Drawn]
    released: Mapping[str, Any] = field(default_factory=dict)


def read_run(folder: Path) -> Kept:
    """Read a run, whether or not another process is at it.

    Raises:
        ConfigurationError: The folder holds no run, or a damaged one.
    """
    plan = _read_plan(folder)
    records, _ = _read_journal(folder)
    return Kept(plan["settings"], plan["charges"], records, _read_keys(folder))


@contextmanager
def open_run(folder: Path | None, plan: SynthesisPlan) -> Iterator[Run]:
    """Begin a run in a folder, or go on with the one that is there.

    Args:
        folder: Where it is kept; None keeps nothing, and a kill loses what was paid.
        plan: Of the run.

    Raises:
        ConfigurationError: The folder holds another plan or a damaged run, or another process is
            at it.
    """
    if folder is None:
        yield Run(None, secrets.token_bytes(_KEY_BYTES), {}, {})
        return
    # Without a journal nothing was drawn: a plan that is refused by the ledger leaves no folder.
    with alone_in(folder, "another synthesis is running there", (_KEY, _PLAN)):
        _settle_plan(folder, plan)
        records, whole = _read_journal(folder)
        cut_tail(folder / _JOURNAL, whole)
        run = Run(folder, _settle_key(folder), records, _read_keys(folder))
        for number, drawn in records.items():
            if drawn.stopped_by is None:
                run.close(number, "interrupted")
        yield run


def _settle_plan(folder: Path, plan: SynthesisPlan) -> None:
    if (folder / _PLAN).exists():
        if _read_plan(folder)["digest"] != plan.digest:
            raise ConfigurationError(f"{folder}: holds another plan; {_ANOTHER}")
        return
    if (folder / _JOURNAL).exists():
        raise ConfigurationError(f"{folder}: holds a journal without its plan; {_ANOTHER}")
    head = {"version": _VERSION, "digest": plan.digest}
    text = {**head, "settings": dict(plan.settings), "charges": dict(plan.charges)}
    write_whole(folder / _PLAN, (json.dumps(text, indent=2) + "\n").encode())


def _settle_key(folder: Path) -> bytes:
    """The secret of the run. Whoever has it knows coins, and no text, count or spend."""
    file = folder / _KEY
    if not file.exists():
        if (folder / _JOURNAL).exists():
            raise ConfigurationError(f"{file} is missing; restore it, or give another folder")
        write_whole(file, secrets.token_bytes(_KEY_BYTES), mode=0o600)
    key = file.read_bytes()
    if len(key) != _KEY_BYTES:
        raise ConfigurationError(f"{file} is damaged; restore it, or give another folder")
    return key


def _read_plan(folder: Path) -> dict[str, Any]:
    if not (folder / _PLAN).exists():
        raise ConfigurationError(f"{folder}: holds no run of `dpicl-rag synthesise`")
    plan = _read_json(folder / _PLAN)
    try:
        if plan["version"] != _VERSION:
            raise ConfigurationError(f"{folder}: the run is of another version of this library")
        if SynthesisPlan(plan["settings"], plan["charges"]).digest == plan["digest"]:
            return dict(plan)
    except (KeyError, TypeError):
        pass
    raise ConfigurationError(f"{folder / _PLAN} is damaged; {_ANOTHER}")


def _read_keys(folder: Path) -> dict[str, Any]:
    file = folder / _KEYS
    return dict(_read_json(file)) if file.exists() else {}


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} is damaged; restore it, or {_ANOTHER}") from error


def _read_journal(folder: Path) -> tuple[dict[int, Drawn], int]:
    """Every record that was begun, and how many bytes the whole lines take up."""
    lines, whole = whole_lines(folder / _JOURNAL)
    records: dict[int, Drawn] = {}
    for number, line in enumerate(lines, start=1):
        try:
            _replay(records, json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):  # torn by a crash of the machine
                return records, whole - len(line)
            raise ConfigurationError(
                f"{folder / _JOURNAL}, line {number}: damaged; {_ANOTHER}"
            ) from error
    return records, whole


def _replay(records: dict[int, Drawn], line: Mapping[str, Any]) -> None:
    number = line["record"]
    if "token" in line:
        before = records[number]
        if before.stopped_by is not None:
            raise ValueError("a token of a closed record")
        records[number] = Drawn((*before.tokens, int(line["token"])))
    elif "stopped_by" in line:
        records[number] = Drawn(records[number].tokens, line["stopped_by"])
    elif number in records:
        raise ValueError("a record begun twice")
    else:
        records[int(number)] = Drawn()


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
    unit_field: str | None = None,
) -> Account:
    """The account of the rest of a run; what is not used goes back.

    Args:
        ledger: The ledger, if there is one. It is not asked where nothing is left to pay.
        corpus: Whose budget.
        rho: What the rest costs any unit at most.
        units: All units, where each pays for itself.
        lost: Rho of what kills may have taken for tokens that nobody saw; so much less is enough.
        unit_field: Field of the unit, of a store that is read by one.
    """
    least = max(0.0, rho - lost)
    if ledger is not None and rho and not least:  # kills may have taken all that is left
        scopes = {(scope.kind, scope.name): scope.remaining for scope in ledger.status()}
        room = scopes.get(("corpus", corpus))
        rho = rho if room is None else min(rho, room)
    payer = ledger if rho else None
    at_least = least if lost and least else None
    return open_account(
        payer, corpus=corpus, rho=rho, at_least=at_least, units=units, unit_field=unit_field
    )
