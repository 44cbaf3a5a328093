from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.ledger import Period
from dpicl_rag.ledger.budgets import day_of, instant

EPOCH = date(1970, 1, 1)
days = st.integers(0, 40_000)


@pytest.mark.parametrize(
    ("period", "start", "renewal"),
    [
        (Period.DAY, date(2024, 2, 29), date(2024, 3, 1)),
        (Period.MONTH, date(2024, 2, 1), date(2024, 3, 1)),
        (Period.YEAR, date(2024, 1, 1), date(2025, 1, 1)),
    ],
)
def test_periods_are_calendar_periods(period: Period, start: date, renewal: date) -> None:
    leap_day = (date(2024, 2, 29) - EPOCH).days
    assert EPOCH + timedelta(days=period.start(leap_day)) == start
    assert period.renewal(leap_day) == renewal


def test_december_is_followed_by_january() -> None:
    assert Period.MONTH.renewal((date(2025, 12, 31) - EPOCH).days) == date(2026, 1, 1)


def test_a_lifetime_starts_at_zero_and_never_renews() -> None:
    assert Period.LIFETIME.start(20_000) == 0
    assert Period.LIFETIME.renewal(20_000) is None


@settings(deadline=None)
@given(days, st.sampled_from([Period.DAY, Period.MONTH, Period.YEAR]))
def test_periods_follow_each_other_without_gaps(day: int, period: Period) -> None:
    renewal = period.renewal(day)
    assert renewal is not None
    following = (renewal - EPOCH).days
    assert period.start(day) <= day < following
    assert period.start(following) == following
    assert period.start(following - 1) == period.start(day)


@settings(deadline=None)
@given(st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)))
def test_days_change_at_midnight_utc(moment: datetime) -> None:
    seconds = moment.replace(tzinfo=UTC).timestamp()
    assert EPOCH + timedelta(days=day_of(seconds)) == moment.date()


def test_messages_give_the_zone() -> None:
    assert instant(0) == "1970-01-01 00:00 UTC"
