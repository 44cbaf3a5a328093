"""The key under which privacy units are hashed."""

from __future__ import annotations

import hmac
import secrets
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.files.database import Database
from dpicl_rag.files.run_files import write_whole

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
