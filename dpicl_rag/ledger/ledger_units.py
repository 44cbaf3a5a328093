"""Units in the ledger: the key under which they are hashed, their spend, and the holds for them.

A unit that is part of another keeps its row, so that answers in progress can settle, and points to
the one that stays (``merged_into``), whose row has what both have spent; see ``parts.py``. Whoever
names either finds the one that stays.

Each function that takes a connection runs in a transaction that holds the write lock.
"""

from __future__ import annotations

import hmac
import secrets
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.files.database import Database
from dpicl_rag.files.run_files import write_whole
from dpicl_rag.files.tables import require_whole
from dpicl_rag.ledger.ledger_schema import whole
from dpicl_rag.ledger.scope import Scope

_BYTES = 32
_SHORTEST = 16
_CHECK = b"dpicl-rag ledger key check"


class UnitKey:
    """Hashes units with HMAC-SHA256, so that the file alone names nobody.

    Args:
        key: At least 16 secret bytes.
    """

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) < _SHORTEST:
            raise ConfigurationError(f"the key of a ledger must be {_SHORTEST} bytes or more")
        self._key = key

    def __repr__(self) -> str:
        return "UnitKey()"

    @property
    def check(self) -> bytes:
        """A check value that distinguishes two keys without giving either away."""
        return hmac.digest(self._key, _CHECK, "sha256")

    def digests(self, corpus: str, units: Sequence[object]) -> list[bytes]:
        """One 32-byte hash per unit; the same unit in two corpora has two.

        A unit that is no string (a number, bytes, NaN) has a hash of its own: what documents carry
        must not end an answer.

        Raises:
            ConfigurationError: ``units`` is not a sequence, or a string occurs twice: a unit has
                one expert.
        """
        if not isinstance(units, Sequence) or isinstance(units, str | bytes):
            raise ConfigurationError("units must be a sequence of strings")
        strings = [unit for unit in units if isinstance(unit, str)]
        if len(set(strings)) != len(strings):
            raise ConfigurationError("a unit may occur only once; give one expert per unit")
        name = corpus.encode()
        prefix = len(name).to_bytes(8, "big") + name
        return [hmac.digest(self._key, prefix + _name_of(unit), "sha256") for unit in units]


def require_units(units: object) -> Sequence[str]:
    """``units`` if they are names, for what an owner says of units.

    Raises:
        ConfigurationError: They are not a sequence of strings.
    """
    if (
        isinstance(units, Sequence)
        and not isinstance(units, str)
        and all(isinstance(unit, str) for unit in units)
    ):
        return units
    raise ConfigurationError("units must be a sequence of strings")


def key_path(path: Path) -> Path:
    """Path of the key of the ledger at ``path``."""
    return path.with_name(path.name + ".key")


def settle_key(database: Database, key: bytes | None) -> UnitKey:
    """The key of a ledger: the one given, the one in its file, or a new one.

    A new one is made in a transaction that holds the write lock, so two processes cannot both make
    one. A ledger that has one already is only read.

    Raises:
        LedgerError: The key is lost or belongs to another ledger. Units would then be strangers
            and get new budgets, so nothing is made up.
    """
    transaction = database.write if database.read(_key_check) is None else database.read
    return transaction(lambda connection: _settled(connection, database.path, key))


def _settled(connection: sqlite3.Connection, path: Path, key: bytes | None) -> UnitKey:
    check = _key_check(connection)
    file = key_path(path)
    if key is not None:
        unit_key = UnitKey(key)
    elif check is None:
        unit_key = UnitKey(_make(file))
    else:
        unit_key = _read(file)
    if check is None:
        connection.execute("UPDATE ledger SET key_check = ?", (unit_key.check,))
    elif not hmac.compare_digest(check, unit_key.check):
        raise LedgerError(
            f"the key of the ledger {path} is not the one it was made with; restore it"
        )
    return unit_key


def _key_check(connection: sqlite3.Connection) -> bytes | None:
    check: bytes | None
    (check,) = connection.execute("SELECT key_check FROM ledger").fetchone()
    return check


def _name_of(unit: object) -> bytes:
    if isinstance(unit, str):
        return unit.encode("utf-8", "surrogatepass")
    # No string is encoded like this: the byte 0xff is in no UTF-8.
    return b"\xff" + f"{type(unit).__qualname__} {unit!r}".encode("utf-8", "surrogatepass")


def _read(file: Path) -> UnitKey:
    try:
        return UnitKey(file.read_bytes())
    except FileNotFoundError:
        raise LedgerError(f"the key {file} is missing; restore it from a backup") from None
    except ConfigurationError:
        raise LedgerError(f"the key {file} is damaged; restore it from a backup") from None


def _make(file: Path) -> bytes:
    """A key in ``file``, whole and on the disk before the ledger depends on it."""
    key = secrets.token_bytes(_BYTES)
    write_whole(file, key, mode=0o600)
    return key


MOST = 10**18  # what the file takes; a thousand times the largest budget
_ADD = "INSERT OR IGNORE INTO unit (scope, hash) VALUES (?, ?)"
_FIND = (
    "SELECT unit.id, root.id, root.spent, root.period_start, root.period_spent,"  # noqa: S608
    f" {whole('unit')} AND {whole('unit', 'root')} FROM unit"
    " JOIN unit AS root ON root.id = coalesce(unit.merged_into, unit.id)"
    " WHERE unit.scope = ? AND unit.hash = ?"
)
_HELD = (
    f"SELECT reservation, held, {whole('hold')} FROM hold"  # noqa: S608
    " WHERE unit IN (SELECT id FROM unit WHERE id = :root OR merged_into = :root)"
)
_COMMITTED = (
    "SELECT coalesce(unit.merged_into, unit.id), hold.committed FROM hold"
    " JOIN unit ON unit.id = hold.unit WHERE hold.reservation = ? AND hold.committed > 0"
)
# A late answer may belong to a period that is over for the unit: then it counts for life only.
_SPEND = (
    "UPDATE unit SET spent = spent + :amount,"
    " period_spent = CASE WHEN period_start = :start THEN period_spent + :amount"
    "   WHEN period_start < :start THEN :amount ELSE period_spent END,"
    " period_start = max(period_start, :start) WHERE id = :unit"
)


@dataclass(frozen=True, slots=True, repr=False)
class UnitSpend:
    """Spend of a unit, nano-rho: for life, and since the day on which a period began."""

    life: int
    start: int
    in_period: int

    def since(self, start: int) -> int:
        """The spend in the period that began on the day ``start``."""
        return self.in_period if self.start >= start else 0


@dataclass(frozen=True, slots=True, repr=False)
class UnitSpendRow:
    """Row of a unit, and row and spend of the one that it is part of: itself, if of none."""

    unit: int
    root: int
    spend: UnitSpend


def joint(amounts: Iterable[int]) -> int:
    """Spend of joined units: the square of the sum of square roots, rounded up.

    Ranges add up and zCDP goes with their square, so an answer that cost the parts a and b cost the
    whole up to (sqrt a + sqrt b)^2. Which answers both took part in need not be known: by the
    inequality of Cauchy and Schwarz the same expression of the sums is a bound however the answers
    were split.
    """
    total = 0
    for amount in amounts:
        twice = 4 * total * amount
        root = isqrt(twice)
        total += amount + root + (root * root < twice)
    return min(total, MOST)


def hold(
    connection: sqlite3.Connection,
    scope: Scope,
    digests: Sequence[bytes],
    *,
    reservation: int,
    day: int,
    most: int,
) -> tuple[list[int], list[int]]:
    """Hold for each unit what it has left, up to ``most``.

    Of units that are one, only the first gets anything where there is a limit: its history is
    theirs. A unit that is named twice gets nothing the second time.

    Args:
        connection: In a transaction.
        scope: The corpus.
        digests: Keyed hashes of the units.
        reservation: Number of the answer, which is in the file.
        day: The UTC day.
        most: What the answer may cost any unit, nano-rho.

    Returns:
        Row and hold of each unit. Private.
    """
    start = scope.period.start(day)
    fixed = scope.usage(connection, day, held=True).fixed
    room = scope.limits(day).unit_room(fixed)
    connection.executemany(_ADD, [(scope.id, digest) for digest in digests])
    holds: dict[int, int] = {}
    units: list[int] = []
    limits: list[int] = []
    seen: set[int] = set()
    for digest in digests:
        found = find_or_add(connection, scope, digest)
        if found.unit in holds or (room is not None and found.root in seen):
            limit = 0
        elif room is None:
            limit = most
        else:
            spent = found.spend.since(start) if start else found.spend.life
            limit = max(0, min(most, room - spent - held(connection, found.root)))
        seen.add(found.root)
        holds.setdefault(found.unit, limit)
        units.append(found.unit)
        limits.append(limit)
    connection.executemany(
        "INSERT INTO hold (reservation, unit, held) VALUES (?, ?, ?)",
        [(reservation, unit, limit) for unit, limit in holds.items()],
    )
    return units, limits


def settle(connection: sqlite3.Connection, reservation: int, start: int) -> None:
    """Charge units what an answer has committed."""
    amounts: defaultdict[int, list[int]] = defaultdict(list)
    for root, amount in connection.execute(_COMMITTED, (reservation,)):
        amounts[root].append(amount)
    connection.executemany(
        _SPEND,
        [{"unit": root, "amount": joint(a), "start": start} for root, a in amounts.items()],
    )


def find(connection: sqlite3.Connection, scope: Scope, digest: bytes) -> UnitSpendRow | None:
    """The unit of that name, if an answer of the corpus or its owner ever named it."""
    row = connection.execute(_FIND, (scope.id, digest)).fetchone()
    if row is None:
        return None
    unit, root, life, start, in_period, sound = row
    require_whole(sound)
    return UnitSpendRow(unit, root, UnitSpend(life, start, in_period))


def find_or_add(connection: sqlite3.Connection, scope: Scope, digest: bytes) -> UnitSpendRow:
    """The unit of that name; a new one has spent nothing."""
    connection.execute(_ADD, (scope.id, digest))
    found = find(connection, scope, digest)
    if found is None:
        raise sqlite3.DatabaseError("a unit that was added is not there")
    return found


def forget(
    connection: sqlite3.Connection, scope: Scope, digests: Sequence[bytes], day: int
) -> None:
    """Note that units have left the corpus. Their spend stays."""
    connection.executemany(
        "INSERT INTO unit (scope, hash, forgotten_on) VALUES (?, ?, ?)"
        " ON CONFLICT (scope, hash) DO UPDATE SET forgotten_on = excluded.forgotten_on",
        [(scope.id, digest, day) for digest in digests],
    )


def held(connection: sqlite3.Connection, root: int) -> int:
    """Holds of answers in progress for a unit under all its names."""
    holds: defaultdict[int, list[int]] = defaultdict(list)
    for reservation, amount, sound in connection.execute(_HELD, {"root": root}):
        require_whole(sound)
        holds[reservation].append(amount)
    return sum(map(joint, holds.values()))
