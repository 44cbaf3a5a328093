"""A search: a source of units, the bar that they must reach, and what noise and coins leave."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency, Stability
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.base import Candidates, CoinRate, Retrieved, Retriever
from dpicl_rag.retrieval.search_bars import (
    COARSE,
    DEEP,
    UNCOUNTED,
    Everything,
    NoisyThreshold,
    Places,
    UnitBar,
    bins_of,
)
from dpicl_rag.retrieval.vectors import VectorSource, Where, scan, unit_field_of

UnitDocuments = Mapping[str, Sequence[Document]]


@dataclass(frozen=True, eq=False)
class Search:
    """A search for the units of a question. All of it is public; what it finds is private.

    Units of the source pass the bar. They are counted with Gaussian noise, where the bar is noisy
    or ``counted`` is set, thinned by that count, and sampled at a fixed rate. Each unit has coins
    of its own: to keep "the first n" would be a top-n, where the arrival of one unit changes
    another (docs/privacy.md, "How a token is drawn").

    Args:
        source: Where the vectors are, or a retriever, of which every unit passes.
        bar: What a unit must reach.
        where: Chroma filter on metadata, applied first.
        passages_per_unit: Most passages of a unit, the best; all if None.
        counted: Count what passes an exact bar, as ``sigma`` and ``thin_to`` do too. An answer over
            many documents then costs less: see docs/privacy.md, "Strength by need". A unit pays
            for the count if it was counted.
        sigma: Standard deviation of the noise on one count; if None, what a tenth of the answer's
            budget pays for, and at least 3.5.
        thin_to: Keep about this number of units, each by its own coin, at a rate from the noisy
            count. Not a cap: the count does not tell the true number. All are kept if None.
        rate: Probability with which a unit is kept, by a coin that is tossed anew at each search;
            above 0 and at most 1. Units that coins drop have been counted all the same.

    Raises:
        ConfigurationError: A parameter is out of range, or is one for vectors, and the source has
            none.
    """

    source: VectorSource | Retriever
    bar: UnitBar = field(default_factory=Everything)
    _: KW_ONLY
    where: Where | None = field(default=None, repr=False)
    passages_per_unit: int | None = None
    counted: bool = False
    sigma: float | None = None
    thin_to: int | None = None
    rate: float = 1.0
    fine: bool = field(default=False, repr=False)
    by_content: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("passages_per_unit", "thin_to"):
            if (number := getattr(self, name)) is not None:
                _validate.count(name, number)
        if self.sigma is not None:
            _validate.positive("sigma", self.sigma)
        _validate.rate("rate", self.rate)
        scored = (self.bar, self.where, self.passages_per_unit) != (Everything(), None, None)
        if scored and isinstance(self.source, Retriever):
            raise ConfigurationError(
                "a bar, a filter and passages_per_unit need the vectors of a corpus; a retriever "
                "has its own"
            )

    def __repr__(self) -> str:
        shown = {one.name: repr(getattr(self, one.name)) for one in fields(self) if one.repr}
        if isinstance(self.source, Retriever) and not isinstance(self.source, Search):
            shown["source"] = type(self.source).__name__  # one of a user may show its texts
        return f"Search({', '.join(f'{name}={value}' for name, value in shown.items())})"

    @cached_property
    def corpus_name(self) -> str | None:
        """Name of the corpus, under which a ledger books the answers; None for a list."""
        source = self.source
        return source.corpus_name if isinstance(source, Retriever) else source.name

    @cached_property
    def unit_field(self) -> str | None:
        """The field of the unit, of a store that is read by one."""
        return unit_field_of(self.source)

    @cached_property
    def stability(self) -> Stability:
        """Units that the arrival of one adds and changes: neither counts nor coins move others."""
        source = self.source
        return source.stability if isinstance(source, Retriever) else self.bar.stability

    @cached_property
    def filter(self) -> Where | None:
        """The filter on metadata, also that of a retriever within whatever wraps it."""
        inner: Any = self.source if isinstance(self.source, Retriever) else self
        while (wrapped := getattr(inner, "retriever", None)) is not None:
            inner = wrapped
        where: Where | None = getattr(inner, "where", None)
        return where

    @property
    def noisy(self) -> bool:
        """Units are counted, with noise."""
        asked = self.counted or self.sigma is not None or self.thin_to is not None
        return asked or self.bar.noisy

    @property
    def exact(self) -> bool:
        """Neither noise nor coins decide what is found."""
        return not self.noisy and self.rate == 1

    @property
    def nearest(self) -> int | None:
        """Number of nearest units that an exact bar lets pass; None where it sets none."""
        return None if self.bar.noisy else self.bar.units

    @property
    def aim(self) -> int | None:
        """Number of units that are found, about or at most; None where only the documents tell."""
        aim = self.thin_to or self.bar.units
        return None if aim is None else int(aim * self.rate)

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """The noise on each count.

        Raises:
            ConfigurationError: ``sigma`` is not set.
        """
        if self.sigma is None:
            raise ConfigurationError(
                "the noise of this search follows from the budget of an answer; give it sigma, or "
                "the budget by within()"
            )
        return DiscreteGaussian(self.sigma, fine=self.fine)

    def rho(self, adjacency: Adjacency) -> float:
        """Rho of zCDP that one search costs any unit at most; 0 for exact ones.

        Raises:
            ConfigurationError: Units are counted, and ``sigma`` is not set.
        """
        source = self.source.rho(adjacency) if isinstance(self.source, Retriever) else 0.0
        if not self.noisy:
            return source
        return source + self.bar.looks(adjacency) * self._moved(adjacency) ** 2 * self.noise.rho

    @property
    def gaussian(self) -> bool:
        """All that it charges is for Gaussian noise on counts, as far as that is known."""
        source, own = self.source, self.fine or not self.noisy
        if isinstance(source, Search):
            return own and source.gaussian
        free = not isinstance(source, Retriever) or source.rho(Adjacency.ADD_OR_REMOVE_ONE) == 0
        return own and free

    def from_fine_grid(self) -> Search:
        """The same with such noise as a budget for Gaussian noise pays for."""
        source = self.source
        source = source.from_fine_grid() if isinstance(source, Search) else source
        return replace(self, source=source, fine=True)

    def within(self, rho: float, adjacency: Adjacency) -> Search:
        """The search with the noise that an answer's budget pays for, where it is not set.

        Args:
            rho: zCDP rho of the whole answer, of which the search gets a share.
            adjacency: What makes two corpora neighbours.
        """
        if not self.noisy or self.sigma is not None:
            return self
        rho = SHARES.counting(rho) / self.bar.looks(adjacency)
        moved = self._moved(adjacency)
        sigma = math.sqrt(1 / (2 * rho)) if self.bar.noisy else moved / math.sqrt(2 * rho)
        return replace(self, sigma=sigma)

    def _moved(self, adjacency: Adjacency) -> int:
        """By how much one unit moves a count at most."""
        return 1 if self.bar.noisy else max(1, sum(self.stability.moved(adjacency)))

    def limited(self, most: int) -> Search:
        """The search, aiming at no more units than that, by coins at a rate from a noisy count.

        What passes is near to ``most`` and no nearer than noise and coins allow: a search that
        keeps to a number tells what it found.

        Args:
            most: At least 1.

        Raises:
            ConfigurationError: The bar lets a larger number pass.
        """
        if self.nearest is not None and not self.noisy:
            if self.nearest > most:
                raise ConfigurationError(
                    f"the {self.nearest} nearest units are asked for, and max_calls allows "
                    f"{most}; lower top_k, or raise max_calls"
                )
            return self
        return replace(self, thin_to=min(most, self.thin_to or most))

    def retrieve(self, question: str) -> list[Document]:
        """The passages that an exact search finds, a unit's best one first. Private.

        Raises:
            ConfigurationError: Noise or coins decide what is found, which `search` draws.
        """
        if not self.exact:
            raise ConfigurationError(
                "noise or coins decide what this search finds; take search(question).choose()"
            )
        return self.search(question).choose().documents

    def across_languages(self) -> Search:
        """The same for a question that is put in several languages.

        Where no cosine is named, scores leave out what only tells a language, see
        `vectors_across_languages`, and thresholds are lower, see `DEEP`.
        """
        if not isinstance(self.bar, NoisyThreshold) or tuple(self.bar.thresholds) != COARSE:
            return self
        return replace(self, bar=replace(self.bar, thresholds=DEEP), by_content=True)

    def search(self, *questions: str) -> Candidates:
        """Score the units; noise and coins are drawn when the candidates are chosen from.

        Args:
            questions: One question in several wordings. A unit's score is that of its nearest; a
                retriever is asked the first alone.
        """
        if isinstance(self.source, Retriever):
            candidates = self.source.search(questions[0])
            return candidates if self.exact else self._narrowed(candidates)
        low, most = self.bar.thresholds[-1], self.nearest
        near = scan(
            self.source,
            questions,
            least=low,
            most=most,
            where=self.where,
            by_content=self.by_content,
        )
        rows = self.bar.candidates(near.scores)
        bins = bins_of(near.scores[rows], self.bar.thresholds)

        def fetch(places: list[int]) -> UnitDocuments:
            passages = near.passages(rows[places].tolist(), self.passages_per_unit)
            return group_by_unit([passage.document for passage in passages])

        return Candidates(
            [near.units[row] for row in rows.tolist()], partial(self._drawn, bins, fetch)
        )

    def _narrowed(self, candidates: Candidates) -> Candidates:
        """The candidates of another search, of which counts and coins leave some."""
        units = candidates.units

        def draw(admitted: Sequence[bool], randomness: Randomness) -> Retrieved:
            retrieved = candidates.choose(admitted, randomness)
            bins = np.array([int(unit not in retrieved.units) for unit in units], dtype=np.intp)

            def fetch(places: list[int]) -> UnitDocuments:
                return {units[place]: retrieved.units[units[place]] for place in places}

            narrowed = self._drawn(bins, fetch, admitted, randomness)
            return Retrieved(
                narrowed.units,
                [
                    before + more
                    for before, more in zip(retrieved.unit_rho, narrowed.unit_rho, strict=True)
                ],
                narrowed.count or (retrieved.count and retrieved.count.thinned(self.rate)),
                retrieved.rate * narrowed.rate,
            )

        return Candidates(units, draw)

    def _drawn(
        self,
        bins: Places,
        fetch: Callable[[list[int]], UnitDocuments],
        admitted: Sequence[bool],
        randomness: Randomness,
    ) -> Retrieved:
        """Draw counts and coins, for candidates by their bins; what cannot pass is behind all."""
        counted = np.asarray(admitted, dtype=bool)
        counts = np.bincount(bins[counted], minlength=len(self.bar.thresholds))
        chosen, count_rho = UNCOUNTED, 0.0
        if self.noisy:
            chosen = self.bar.choose(counts.tolist(), self.noise, randomness)
            count_rho = self.noise.rho
        kept = [
            place
            for place in np.flatnonzero(bins <= chosen.place).tolist()
            if bins[place] < chosen.place or chosen.last.keeps(randomness)
        ]
        count, rate = chosen.count, self.rate
        if count is not None and self.thin_to is not None:
            share = CoinRate.of(count.value, self.thin_to)
            kept = [place for place in kept if share.keeps(randomness)]
            count, rate = count.thinned(share.rate), share.rate * self.rate
        if self.rate < 1:
            kept = [place for place in kept if randomness.uniform() < self.rate]
            count = count and count.thinned(self.rate)
        looks = (np.array([*chosen.looks, 0])[bins] * counted).tolist()
        unit_rho = [look * count_rho for look in looks]
        return Retrieved(fetch(kept), unit_rho, count, rate)


def as_search(retriever: Retriever) -> Search:
    """A search as it is, and another retriever as the source of one."""
    return retriever if isinstance(retriever, Search) else Search(retriever)
