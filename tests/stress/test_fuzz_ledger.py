"""Random calls and random damage: the ledger answers or raises one of the library's errors.

Runs for DPICL_RAG_FUZZ_SECONDS (default 20), shared by the tests here.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpicl_rag.errors import DPICLError
from dpicl_rag.ledger import Ledger

pytestmark = pytest.mark.stress

SECONDS = float(os.environ.get("DPICL_RAG_FUZZ_SECONDS", "20")) / 2

odd_numbers = st.one_of(
    st.floats(0.0, 2.0),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, 1e-300, 5e-324, 1e6, math.inf, math.nan, None, "1", True, b"1"]),
)
names = st.one_of(
    st.sampled_from(["mail", "notes"]), st.text(), st.none(), st.characters(categories=["Cs"])
)
units = st.one_of(
    st.none(), st.lists(st.text(max_size=4), max_size=5), st.text(), st.lists(st.integers())
)
calls = st.one_of(
    st.tuples(
        st.just("set_budget"),
        st.fixed_dictionaries(
            {"rho": odd_numbers},
            optional={
                "corpus": names,
                "caller": names,
                "unit_rho": odd_numbers,
                "period": st.sampled_from(["lifetime", "day", "week", None, 3]),
            },
        ),
    ),
    st.tuples(
        st.just("reserve"),
        st.fixed_dictionaries(
            {"corpus": names, "rho": odd_numbers},
            optional={"caller": names, "at_least": odd_numbers, "units": units},
        ),
    ),
    st.tuples(st.just("forget_units"), st.fixed_dictionaries({"corpus": names, "units": units})),
    st.tuples(
        st.just("commit"),
        st.fixed_dictionaries(
            {"rho": odd_numbers},
            optional={"unit_rho": st.none() | st.lists(odd_numbers) | odd_numbers},
        ),
    ),
    st.tuples(st.sampled_from(["status", "settle_stale", "close"]), st.just({})),
)
damage = st.lists(
    st.tuples(
        st.sampled_from(["flip", "zero", "cut", "random", "swap"]),
        st.floats(0.0, 1.0, exclude_max=True),
        st.binary(min_size=1, max_size=64),
    ),
    min_size=1,
    max_size=6,
)

fuzz = settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def repeat(test: Callable[[], None]) -> int:
    """Run batches until the time is up; hypothesis itself only counts examples."""
    end, batches = time.monotonic() + SECONDS, 0
    while batches == 0 or time.monotonic() < end:
        test()
        batches += 1
    return batches


def test_any_call_answers_or_raises_an_error_of_the_library() -> None:
    counts = {"calls": 0, "refused": 0}

    @fuzz
    @given(st.lists(calls, max_size=12))
    def one(sequence: list[tuple[str, dict[str, Any]]]) -> None:
        with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "b.sqlite") as ledger:
            reservation: Any = None
            for name, arguments in sequence:
                counts["calls"] += 1
                target = reservation if name in ("commit", "close") else ledger
                if target is None:
                    continue
                try:
                    result = getattr(target, name)(**arguments)
                except DPICLError as error:
                    counts["refused"] += _is_one_line(error)
                else:
                    reservation = result if name == "reserve" else reservation
            for status in ledger.status():
                assert status.spent >= 0.0
                assert status.reserved >= 0.0
            del reservation

    repeat(one)
    _say(f"{counts['calls']} calls, {counts['refused']} refused, none broke the ledger")
    assert 0 < counts["refused"] < counts["calls"]


def _is_one_line(error: DPICLError) -> bool:
    assert "\n" not in str(error)
    return True


def _spoil(data: bytes, blows: list[tuple[str, float, bytes]]) -> bytes:
    spoilt = bytearray(data)
    for kind, where, noise in blows:
        at = int(where * len(spoilt))
        if kind == "flip" and spoilt:
            spoilt[at] ^= noise[0] or 1
        elif kind == "zero":
            spoilt[at : at + 512] = bytes(len(spoilt[at : at + 512]))
        elif kind == "cut":
            del spoilt[at:]
        elif kind == "random":
            spoilt[at : at + len(noise)] = noise
        elif kind == "swap":
            half = at - at % 4096
            spoilt[:] = spoilt[half:] + spoilt[:half]
    return bytes(spoilt)


def _good_files() -> dict[str, bytes]:
    """The files of a ledger in use, with its write-ahead log, as a kill would leave them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b.sqlite"
        with Ledger(path) as ledger:
            ledger.set_budget(corpus="mail", rho=1.0, unit_rho=0.5, period="month")
            ledger.set_budget(caller="ann", rho=1.0)
            with ledger.reserve(corpus="mail", rho=0.1, units=list("abcdefgh")) as reservation:
                reservation.commit(0.1, [0.1] * 8)
        with Ledger(path) as ledger:
            reservation = ledger.reserve(corpus="mail", caller="ann", rho=0.1, units=["a", "b"])
            reservation.commit(0.05, [0.01, 0.05])
            return {
                file.name: file.read_bytes()
                for file in Path(folder).iterdir()
                if not file.name.endswith("-shm")
            }


def test_any_damage_is_an_error_of_the_library_or_goes_unnoticed() -> None:
    good = _good_files()
    counts = {"files": 0, "refused": 0}

    @fuzz
    @given(st.sampled_from(sorted(good)), damage)
    def one(name: str, blows: list[tuple[str, float, bytes]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for other, data in good.items():
                (Path(folder) / other).write_bytes(data)
            (Path(folder) / name).write_bytes(_spoil(good[name], blows))
            counts["files"] += 1
            try:
                with Ledger(Path(folder) / "b.sqlite") as ledger:
                    ledger.status()
                    with contextlib.suppress(DPICLError):
                        ledger.set_budget(corpus="mail", rho=2.0, period="day")
                    with ledger.reserve(
                        corpus="mail", caller="ann", rho=0.1, at_least=1e-9, units=["a", "x"]
                    ) as reservation:
                        reservation.commit(0.001, [0.0, 0.0])
                    ledger.status()
            except DPICLError as error:
                counts["refused"] += _is_one_line(error)

    repeat(one)
    _say(f"{counts['files']} damaged files, {counts['refused']} refused, none broke the ledger")
    assert 0 < counts["refused"] <= counts["files"]


def _say(figures: str) -> None:
    print(f"\n{figures}")  # noqa: T201 - the suite prints its figures
