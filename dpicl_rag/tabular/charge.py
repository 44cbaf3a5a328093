"""The charge of a release from a table, its noise, and the folder that keeps it.

Charge and noise are public, before any row is read.

One row is one privacy unit, and moves a few whole numbers by at most a public amount each. Every
number gets noise of its own. ``touched`` counts the moves: under add-or-remove a row comes or goes;
under replace-one it goes from some numbers and comes to others, twice as many.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency, epsilon_to_rho, zcdp
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.accounting.prices import Price, PricedPlan
from dpicl_rag.documents import unit_of
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import alone_in, write_whole
from dpicl_rag.ledger.account import open_account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian, DiscreteLaplace
from dpicl_rag.tabular.schema import Row

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


TableNoise = DiscreteLaplace | DiscreteGaussian

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Charge(PricedPlan):
    """The cost of one release to every privacy unit, and the noise that it pays for.

    Attributes:
        epsilon: The release is (epsilon, delta)-DP.
        delta: 0 is pure DP, with Laplace noise; above 0 zCDP, with Gaussian noise.
        touched: How many numbers a row moves, each by 1 in its own unit of measure.
        counts: How many numbers are released.
        adjacency: What makes two tables neighbours.

    Raises:
        ConfigurationError: A number is outside its range.
    """

    epsilon: float
    delta: float
    touched: int
    counts: int
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        if self.delta:
            _validate.probability("delta", self.delta)
        if not isinstance(self.adjacency, Adjacency):
            raise ConfigurationError("adjacency must be an Adjacency")

    @property
    def moves(self) -> int:
        """Count of the numbers that differ between neighbours, each by 1."""
        return self.touched * (2 if self.adjacency is Adjacency.REPLACE_ONE else 1)

    @property
    def share(self) -> Fraction:
        """Pure epsilon of one move; they add up to epsilon exactly."""
        return Fraction(self.epsilon) / self.moves

    @property
    def rho(self) -> float:
        """The charge in a ledger, zCDP rho.

        It fills a budget of the same epsilon. Pure shares are moves of numbers with noise of their
        own, so their rhos add up; that is less than the rho of epsilon taken as a whole.
        """
        if self.delta:
            return epsilon_to_rho(self.epsilon, SHARES.beside_pool(self.delta))
        return self.moves * zcdp(float(self.share))

    @property
    def parts(self) -> tuple[Price, ...]:
        """The numbers, all of them in one release."""
        what = f"noise on each of {self.counts} numbers, of which neighbours differ in {self.moves}"
        return (Price("counts", self.rho, what),)

    def numbers(self) -> dict[str, Any]:
        """The noise on every number, and how many there are."""
        return {"counts": self.counts, "noise": repr(self.noise)}

    @property
    def noise(self) -> TableNoise:
        """On every number."""
        if not self.delta:
            return DiscreteLaplace(self.share)
        # Rounded up, so that the price is not above rho.
        return DiscreteGaussian(math.sqrt(self.moves / (2 * self.rho)) * (1 + 1e-12))


def one_each(rows: Iterable[Row], units: Sequence[str] | None) -> list[Row]:
    """One row for each privacy unit: its first one, whatever rows others have.

    Args:
        rows: Private. What is no row is left out, and so is one of nobody that can be named.
        units: Whose each row is; None makes each a unit by itself.

    Raises:
        ConfigurationError: There are not as many units as rows.
    """
    every: list[object] = list(rows)
    if units is not None and len(units) != len(every):
        raise ConfigurationError("give a unit for each row")
    own = map(str, range(len(every))) if units is None else units
    first: dict[str, Row] = {}
    for unit, row in zip(own, every, strict=True):
        name = unit_of(unit, {}, "document")
        if name is not None and isinstance(row, Mapping):
            first.setdefault(name, row)
    return list(first.values())


def paid(ledger: Ledger | None, corpus: str, rho: float, draw: Callable[[], T]) -> T:
    """Draw a release. It is charged before anybody sees it.

    Args:
        ledger: Keeps the budget, if there is one.
        corpus: Whose budget.
        rho: Of the release.
        draw: Draws it. Done first, as it takes longest: a kill seldom falls between the charge
            and the release.

    Raises:
        BudgetExceededError: The budget has not as much left; nothing was drawn.
    """
    with open_account(ledger, corpus=corpus, rho=rho) as account:
        drawn = draw()
        account.pay(rho)
    return drawn


_FILE = "release.json"


def kept_release(
    folder: Path,
    settings: Mapping[str, Any],
    draw: Callable[[], dict[str, Any]],
    check: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """The release of a folder; drawn now if there is none.

    The order is: charge, write, show. A kill between the charge and the writing loses one release
    that nobody saw; at any other instant nothing is lost, and nothing is drawn or paid twice.

    Args:
        folder: Where it is kept. All of it is public.
        settings: What the release depends on, as JSON has it.
        draw: Pays and draws what JSON can hold.
        check: Refuses what can be refused before anything is drawn; then no folder is made. Nor is
            one left where ``draw`` refuses.

    Raises:
        ConfigurationError: The folder holds a release of other settings or a damaged one, or
            another process is at it.
    """
    file = folder / _FILE
    if not file.exists():
        check()
    with alone_in(folder, "another release is under way there"):
        if not file.exists():
            made = {"settings": dict(settings), "release": draw()}
            write_whole(file, (json.dumps(made, allow_nan=False) + "\n").encode())
    before, release = released_file(file)
    differing = sorted(k for k in {*before, *settings} if before.get(k) != settings.get(k))
    if differing:
        raise ConfigurationError(
            f"{folder}: holds a release with other settings ({', '.join(differing)}); give another "
            "--out, or the same settings to read it"
        )
    return release


def released_file(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and release of a folder of `kept_release`, or of its file.

    Raises:
        ConfigurationError: There is none, or a damaged one.
    """
    file = path / _FILE if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return dict(found["settings"]), dict(found["release"])
    except FileNotFoundError:
        raise ConfigurationError(f"{file}: there is no release") from None
    except (OSError, ValueError, TypeError, KeyError):
        raise ConfigurationError(f"{file} is damaged; restore it, or give another --out") from None
