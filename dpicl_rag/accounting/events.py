"""Events: draws and releases as frozen records that know nothing of accountants.

A cost is stated for one pair of neighbours under the adjacency of the accountant that composes it:
for draws with a pipeline of stability ``s``, ``BoundedRange(lambda * R * s.factor(adjacency))``.
Composition is adaptive: an event's parameters may depend on outputs of earlier events only
through a filter (see ``mechanisms/privacy_filters.py``), otherwise they are fixed beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError


class Event:
    """Base of all events."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Epsilon(Event):
    epsilon: float

    def __post_init__(self) -> None:
        _validate.finite("epsilon", self.epsilon)


class PureDP(_Epsilon):
    """An epsilon-DP mechanism of which nothing more is known; epsilon is 0 or more, finite."""

    __slots__ = ()


class BoundedRange(_Epsilon):
    """A draw whose log ratios lie in an interval of length epsilon: the exponential mechanism."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ZeroConcentrated(Event):
    """A rho-zCDP mechanism, for example an answer under individual accounting.

    Attributes:
        rho: 0 or more, finite.
    """

    rho: float

    def __post_init__(self) -> None:
        _validate.finite("rho", self.rho)


@dataclass(frozen=True, slots=True)
class Gaussian(Event):
    """Gaussian noise.

    Attributes:
        noise_multiplier: Standard deviation over L2 sensitivity between neighbours under the
            accountant's adjacency; above 0.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        _validate.positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True, slots=True)
class PoissonSubsampled(Event):
    """``event`` on a subset that each unit joins by its own coin; the subset is not released.

    One coin for a whole answer is ``PoissonSubsampled(q, SelfComposed(draw, tokens))``; fresh
    coins for every token are ``SelfComposed(PoissonSubsampled(q, draw), tokens)``.

    Attributes:
        rate: Probability of joining, from 0 to 1. Public and fixed beforehand.
        event: What runs on the subset.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ConfigurationError("rate must lie between 0 and 1")
        _require_event(self.event)


@dataclass(frozen=True, slots=True)
class Composed(Event):
    """Several events on the same corpus."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.events, tuple):
            raise ConfigurationError("events must be a tuple")
        for event in self.events:
            _require_event(event)


@dataclass(frozen=True, slots=True)
class SelfComposed(Event):
    """One event ``count`` times.

    Attributes:
        event: What is repeated.
        count: 1 or more.
    """

    event: Event
    count: int

    def __post_init__(self) -> None:
        _require_event(self.event)
        _validate.count("count", self.count)


def leaves(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """The events that compositions of ``event`` consist of, each with how often it runs.

    A subsampled event is a leaf: what it contains runs under one coin.
    """
    if isinstance(event, Composed):
        for part in event.events:
            yield from leaves(part, count)
    elif isinstance(event, SelfComposed):
        yield from leaves(event.event, count * event.count)
    else:
        yield event, count


def _require_event(event: object) -> None:
    if not isinstance(event, Event):
        raise ConfigurationError("an event is needed; see dpicl_rag.accounting.events")
