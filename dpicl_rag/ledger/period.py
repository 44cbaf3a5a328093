"""Calendar periods after which a budget renews."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

_EPOCH = date(1970, 1, 1)
_DAY_SECONDS = 86_400


class Period(StrEnum):
    """The period after which a budget renews, in UTC.

    A renewing budget protects *per period*: a unit that stays in the corpus for n periods can lose
    n times the budget. Only ``LIFETIME`` bounds what is ever learned about it.
    """

    LIFETIME = "lifetime"
    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    def start(self, day: int) -> int:
        """First day of the period that holds ``day``, both as days since 1970-01-01 UTC.

        A lifetime starts on day 0.
        """
        if self is Period.LIFETIME:
            return 0
        if self is Period.DAY:
            return day
        here = _date(day)
        return _number(here.replace(day=1) if self is Period.MONTH else date(here.year, 1, 1))

    def renewal(self, day: int) -> date | None:
        """First day of the next period, or None for a lifetime."""
        if self is Period.LIFETIME:
            return None
        here = _date(day)
        if self is Period.DAY:
            return here + timedelta(days=1)
        if self is Period.MONTH and here.month < 12:
            return date(here.year, here.month + 1, 1)
        return date(here.year + 1, 1, 1)


def day_of(seconds: float) -> int:
    """The UTC day that holds a Unix time, as days since 1970-01-01."""
    return int(seconds // _DAY_SECONDS)


def instant(seconds: float) -> str:
    """A Unix time in words, for messages."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _date(day: int) -> date:
    return _EPOCH + timedelta(days=day)


def _number(day: date) -> int:
    return (day - _EPOCH).days
