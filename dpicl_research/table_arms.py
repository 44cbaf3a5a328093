"""What an evaluation on table rows compares: its settings, and a line for each arm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from dpicl_rag.errors import ConfigurationError
from dpicl_research.private_baselines import PEERS
from dpicl_research.run_folder import read_settings

BITS, ONE, AGGREGATES, TABLES = "local bits", "local one-attribute", "aggregates", "tables"
METHODS = (BITS, ONE, AGGREGATES, TABLES)
"""Private demonstrations."""

FRESH = "local bits, fresh"
"""Rows perturbed anew for each query; all queries of a seed together have the arm's epsilon."""

REDRAWN = "local bits, redrawn"
"""Rows drawn anew for each query from one reconstruction of reports, as the paper does it: what is
drawn from a release costs nothing."""

PUBLISHED = "published"
"""In place of a rate: the paper's own for the data set. Groups: those of Table VII."""

CODE = "code"
"""Groups of the published code."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One line of the results.

    Attributes:
        method: What gives the demonstrations, or which classifier.
        epsilon: None where nothing is private.
        k: How many demonstrations; None without a language model.
    """

    method: str
    epsilon: float | None = None
    k: int | None = None

    @property
    def key(self) -> str:
        """Names it in files."""
        return json.dumps([self.method, self.epsilon, self.k])


@dataclass(frozen=True, slots=True)
class More:
    """What DP-TabICL has beyond the lines that are always there.

    Attributes:
        groups: Whether aggregates are grouped as the schema has it, as in Table VII, or as in the
            published code.
        rates: Further aggregates on samples: numbers below 1, or ``published``.
        redrawn: Rows that are drawn anew for each query.
        fresh: Rows that are perturbed anew for each query.
        peers: Private classifiers of diffprivlib.

    Raises:
        ConfigurationError: A rate is none.
    """

    groups: Literal["ours", "published", "code"] = "ours"
    rates: tuple[str, ...] = ()
    redrawn: bool = False
    fresh: bool = False
    peers: bool = False

    def __post_init__(self) -> None:
        for rate in self.rates:
            if rate != PUBLISHED and not _is_rate(rate):
                raise ConfigurationError(
                    f"a rate is a number above 0 and below 1, or {PUBLISHED!r}: all rows stand "
                    "beside it anyway"
                )

    @property
    def of_the_paper(self) -> bool:
        """Whether the data sets must be those of the paper."""
        return self.groups != "ours" or PUBLISHED in self.rates

    @property
    def own_rows(self) -> list[str]:
        """Methods that show each query rows of its own."""
        return [REDRAWN] * self.redrawn + [FRESH] * self.fresh

    @staticmethod
    def read(found: Mapping[str, Any]) -> More:
        """From what settings hold."""
        return More(**{**found, "rates": tuple(found["rates"])}) if found else More()


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that the results of a run depend on. More tasks and more seeds go on with a run.

    Attributes:
        model: Fingerprint.
        epsilons: Of releases and reports.
        ks: Numbers of demonstrations.
        queries: Of a seed and a task.
        seeds: How many.
        tasks: Digests by name.
        more: See `More`.
    """

    model: str
    epsilons: tuple[float, ...]
    ks: tuple[int, ...]
    queries: int
    seeds: int
    tasks: Mapping[str, str]
    more: More = field(default_factory=More)

    def kept(self, folder: Path) -> dict[str, Any]:
        """As a run keeps them; without ``more`` where neither it nor the folder has any."""
        found = asdict(self)
        if self.more == More():
            try:
                before = read_settings(folder)
            except ConfigurationError:
                before = {}
            if "more" not in before:
                del found["more"]
        return found


def arms(epsilons: Sequence[float], ks: Sequence[int], more: More | None = None) -> list[Arm]:
    """All lines: classifiers, then what the language model answers with.

    Raises:
        ConfigurationError: A number of demonstrations is no power of two.
    """
    if any(k < 1 or k & (k - 1) for k in ks):
        raise ConfigurationError("numbers of demonstrations are powers of two: groups are halved")
    wanted = more or More()
    alone = [Arm("majority class"), Arm("logistic regression"), Arm("naive Bayes")]
    for epsilon in epsilons:
        alone += [Arm(f"naive Bayes, {ONE}", epsilon), Arm(f"naive Bayes, {TABLES}", epsilon)]
        alone += [Arm(name, epsilon) for name in PEERS if wanted.peers]
    shown = [Arm("zero-shot", None, 0), *(Arm("real", None, k) for k in ks)]
    methods = [*METHODS, *map(sampled, wanted.rates), *wanted.own_rows]
    shown += [Arm(method, epsilon, k) for method in methods for epsilon in epsilons for k in ks]
    return alone + shown


def sampled(rate: str) -> str:
    """The method that makes aggregates on a sample."""
    return f"{AGGREGATES}, {rate} rate" if rate == PUBLISHED else f"{AGGREGATES}, rate {rate}"


def _is_rate(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False
