from __future__ import annotations

import math
import stat
from pathlib import Path

import pytest

from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.ledger import Ledger
from dpicl_rag.ledger.ledger_units import UnitKey, key_path

KEY = b"k" * 32


def test_hashes_depend_on_key_corpus_and_unit() -> None:
    key = UnitKey(KEY)
    a = key.digests("mail", ["u"])
    assert a == key.digests("mail", ["u"])
    assert a != key.digests("notes", ["u"])
    assert a != key.digests("mail", ["v"])
    assert a != UnitKey(b"l" * 32).digests("mail", ["u"])
    assert [len(digest) for digest in a] == [32]


def test_corpus_and_unit_cannot_be_confused_with_each_other() -> None:
    key = UnitKey(KEY)
    assert key.digests("ab", ["c"]) != key.digests("a", ["bc"])


def test_any_string_can_be_a_unit() -> None:
    assert len(set(UnitKey(KEY).digests("mail", ["", "\0", "\ud800", "é"]))) == 4


@pytest.mark.parametrize("units", ["abc", b"abc", None, 3, {"a": 1}, ["secret-unit"] * 2])
def test_units_must_be_a_sequence_of_distinct_names(units: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        UnitKey(KEY).digests("mail", units)
    assert "secret-unit" not in str(caught.value)


ODD = [5, "5", 5.0, b"5", math.nan, None, ("a", 1), "int 5", "b'5'"]


def test_a_unit_that_is_no_string_has_a_hash_of_its_own() -> None:
    found = UnitKey(KEY).digests("mail", ODD)
    assert len(set(found)) == len(ODD)
    assert found == UnitKey(KEY).digests("mail", ODD)


@pytest.mark.parametrize("budget", [1.0, math.inf])
def test_no_unit_ends_an_answer_by_its_name(path: Path, budget: float) -> None:
    units = [*ODD, float("nan"), "a"]  # the second NaN cannot be told from the first
    with Ledger(path) as ledger:
        ledger.set_budget(corpus="mail", rho=budget)
        with ledger.reserve(corpus="mail", rho=0.1, units=units) as reservation:  # type: ignore[arg-type]
            assert reservation.limits == [0.1] * len(ODD) + [0.0, 0.1]
            reservation.commit(0.1, reservation.limits)
        assert ledger.status()[0].spent == 0.1


@pytest.mark.parametrize("call", ["forget_units", "separate_units"])
@pytest.mark.parametrize("units", ["abc", b"abc", [1], None, 3])
def test_what_an_owner_says_of_units_names_them(path: Path, call: str, units: object) -> None:
    with Ledger(path) as ledger, pytest.raises(ConfigurationError, match="sequence of strings"):
        getattr(ledger, call)("mail", units)


def test_a_short_key_is_refused(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="16 bytes"):
        Ledger(path, key=b"short")


def test_the_key_is_made_once_and_readable_by_its_owner_only(path: Path) -> None:
    Ledger(path).close()
    first = key_path(path).read_bytes()
    Ledger(path).close()
    assert key_path(path).read_bytes() == first
    assert len(first) == 32
    assert stat.S_IMODE(key_path(path).stat().st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_given_key_is_not_written(path: Path) -> None:
    Ledger(path, key=KEY).close()
    assert not key_path(path).exists()
    Ledger(path, key=KEY).close()


@pytest.mark.parametrize("content", [None, b"", b"x" * 32])
def test_a_lost_or_foreign_key_is_not_replaced(path: Path, content: bytes | None) -> None:
    Ledger(path).close()
    key_path(path).unlink()
    if content is not None:
        key_path(path).write_bytes(content)
    with pytest.raises(LedgerError, match="restore it"):
        Ledger(path)


def test_a_lost_ledger_is_not_replaced_while_its_key_is_there(path: Path) -> None:
    Ledger(path).close()
    path.unlink()
    with pytest.raises(LedgerError, match="restore the ledger"):
        Ledger(path)
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="restore the ledger"):
        Ledger(path)


def test_a_kill_while_the_key_was_made_is_repaired(path: Path) -> None:
    key_path(path).with_name("budget.sqlite.key.new").write_bytes(b"half")
    with Ledger(path) as ledger:
        ledger.forget_units("mail", ["u"])
    assert len(key_path(path).read_bytes()) == 32
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, path.name + ".key"]
