"""Label heads: noisy sums of the vectors of each label's units, released once, read without limit.

A text has the label whose noisy sum its vector is nearest to, by the cosine: the nearest class
mean, for which nobody needs to know how many units a label has.

**Charge.** A unit has one vector, of length 1 at most, in the sum of one label. It is the direction
of the sum of its texts' vectors, cut to whole multiples of 2^-24 (`points.clipped_sum`), and a
function of the unit's own texts and of the public labels. So a unit that comes or goes moves one of
all sums by 1 in L2, and one that changes moves them by 2 (from one end of a sum to the other).
Discrete Gaussian noise on every whole number costs ``moved^2 / (2 sigma^2)`` zCDP (Canonne, Kamath,
Steinke 2020, Theorem 14). All that is computed from the sums is post-processing.

**Names.** Noise is ``sigma sqrt(d)`` long, whatever a label's units say. To each sum half of that
is added in the direction of the label's own name, which is public: it decides where the noise would
and is nothing beside the sum of many units.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from dpicl_rag import _validate
from dpicl_rag.accounting import DELTA, Adjacency, epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.accounting.prices import Price, PricedPlan
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger.account import Account, open_account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.points import GRID, clipped_sum
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.results import PrivateLabel
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.vectors import embedded, on_grid
from dpicl_rag.synthesis.pools import LabelledDocument, Pool, pools, public_labels
from dpicl_rag.tabular.charge import released_file

if TYPE_CHECKING:
    from dpicl_rag.knowledge import Bundle
    from dpicl_rag.ledger import Ledger

_NAMED = 0.5
"""Length of a label's name in that of the noise on its sum. Chosen on training examples."""


@dataclass(frozen=True)
class LabelHeadPlan(PricedPlan):
    """The price of a label head. Public.

    Attributes:
        labels: How many there are.
        epsilon: The head is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        adjacency: What makes two sets of examples neighbours.
        gaussian: A budget for Gaussian noise alone pays, see `DiscreteGaussian`.

    Raises:
        ConfigurationError: A number is outside its range.
    """

    labels: int
    epsilon: float
    delta: float = DELTA
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
    gaussian: bool = False

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        _validate.probability("delta", self.delta)
        if self.labels < 2:
            raise ConfigurationError("give at least two labels")

    @cached_property
    def rho(self) -> float:
        """Price of all sums, zCDP; it fills a ledger's budget of the same epsilon."""
        return epsilon_to_rho(self.epsilon, SHARES.beside_pool(self.delta))

    @property
    def moved(self) -> int:
        """Distance of the sums of neighbours, at most."""
        return 2 if self.adjacency is Adjacency.REPLACE_ONE else 1

    @property
    def noise(self) -> DiscreteGaussian:
        """On every number of a sum, in multiples of 2^-24."""
        return DiscreteGaussian.within(self.rho, self.moved * GRID, fine=self.gaussian)

    @property
    def parts(self) -> tuple[Price, ...]:
        """The sums, all of them in one release."""
        what = f"noise on sums of vectors of {self.labels} labels, which a unit moves by"
        return (Price("sums", self.rho, f"{what} {self.moved} at most"),)

    def numbers(self) -> dict[str, Any]:
        """The noise on each number of a sum."""
        return {"labels": self.labels, "sigma": self.noise.sigma / GRID}


@dataclass(frozen=True)
class LabelHead:
    """Released sums of vectors. Public: labels by them cost nothing more.

    Attributes:
        labels: The public list.
        sums: Of each label, in multiples of 2^-24: whole numbers, each with noise of its own.
        sigma: Standard deviation of the noise, in lengths of a unit's vector; 0 without noise.
        model: Fingerprint of the embedding model.
        epsilon: The head is (epsilon, delta)-DP for every unit.
        delta: See ``epsilon``.
        rho: zCDP that was paid for it.
        adjacency: What makes two sets of examples neighbours.
        embedder: The embedding model.
    """

    labels: tuple[str, ...]
    sums: tuple[tuple[int, ...], ...] = field(repr=False)
    sigma: float
    model: str
    epsilon: float
    delta: float
    rho: float
    adjacency: str
    embedder: Embedder = field(repr=False, compare=False)

    kind: ClassVar = "label-head"
    from_memory: ClassVar = False

    @property
    def text(self) -> str:
        """One sentence for people."""
        return f"A label head: it gives any text one of {', '.join(self.labels)}."

    def classify(self, text: str) -> PrivateLabel:
        """The label of a text. It is free.

        Args:
            text: Public, as a question is.
        """
        return PrivateLabel(self.labels_of([text])[0], self.epsilon, self.delta, 0.0)

    def labels_of(self, texts: Sequence[str]) -> list[str]:
        """The label of each text."""
        return [self.labels[place] for place in self.places_of(self.embedder.embed(texts))]

    def places_of(self, vectors: npt.ArrayLike) -> list[int]:
        """Places of the labels of vectors ``[n, d]``; of two as near, the first."""
        scores = on_grid(vectors).astype(np.float64) @ self._directions.T
        return [int(place) for place in scores.argmax(axis=1)]

    @cached_property
    def _directions(self) -> npt.NDArray[np.float64]:
        """What vectors are compared with, [labels, d]."""
        sums = np.array(self.sums, dtype=np.float64) / GRID
        named = _NAMED * self.sigma * math.sqrt(sums.shape[1])
        return on_grid(sums + named * on_grid(self.embedder.embed(self.labels))).astype(np.float64)

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON, with its SHA-256."""
        found = {name: one for name, one in vars(self).items() if name in _FIELDS}
        return {**found, "sha256": _digest(found)}

    @staticmethod
    def of_dict(found: Mapping[str, Any], embedder: Embedder | None = None) -> LabelHead:
        """A head from what `as_dict` gave.

        Args:
            found: Public.
            embedder: The model that it was made with; the packaged one if None.

        Raises:
            ConfigurationError: It was changed, or is of another embedding model.
        """
        given: dict[str, Any] = {name: found.get(name) for name in _FIELDS}
        if found.get("sha256") != _digest(given):
            raise ConfigurationError("the label head is damaged; restore it, or release it anew")
        model = embedder or SentenceTransformerEmbedder()
        if model.fingerprint != given["model"]:
            raise ConfigurationError(
                f"the label head is of the embedding model {given['model']}, and this is "
                f"{model.fingerprint}; give its own"
            )
        sums = tuple(map(tuple, found["sums"]))
        return LabelHead(
            **{**given, "labels": tuple(found["labels"]), "sums": sums}, embedder=model
        )

    @staticmethod
    def open(path: str | Path, *, embedder: Embedder | None = None) -> LabelHead:
        """Read a head from the folder that it was released to, or from its file.

        Args:
            path: Of the folder or the file.
            embedder: The model that it was made with; the packaged one if None.

        Raises:
            ConfigurationError: There is none, it was changed, or is of another embedding model.
        """
        return LabelHead.of_dict(released_file(Path(path))[1], embedder)

    @staticmethod
    def published(bundle: Bundle, labels: Sequence[str] = ()) -> LabelHead:
        """The head of a bundle.

        Args:
            bundle: With the embedding model that it was made with.
            labels: Those of the head, in any order; they may be left out where there is one head.

        Raises:
            ConfigurationError: The bundle has none of these labels, or several and no labels are
                given, or it is of another embedding model.
        """
        items = [one for one in bundle.items if one.kind == LabelHead.kind]
        fit = [one for one in items if not labels or {*one.numbers["labels"]} == {*labels}]
        if len(fit) != 1:
            lists = "; ".join(", ".join(one.numbers["labels"]) for one in items)
            raise ConfigurationError(
                f"give the labels of one of the bundle's label heads: {lists}"
                if items
                else "the bundle has no label head; publish one with --label-column"
            )
        return LabelHead.of_dict(fit[0].numbers, bundle.embedder)


def published_label(bundle: Bundle, text: str, labels: Sequence[str] = ()) -> PrivateLabel:
    """The label of a text by a bundle's head. It costs nothing: the bundle was paid for.

    Arguments and errors are those of `LabelHead.published`.
    """
    label = LabelHead.published(bundle, labels).classify(text)
    return replace(label, epsilon=0.0, delta=0.0)


_FIELDS = tuple(one.name for one in fields(LabelHead) if one.name != "embedder")


def release_label_head(
    examples: Iterable[LabelledDocument],
    labels: Sequence[str],
    *,
    epsilon: float,
    delta: float = DELTA,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    embedder: Embedder | None = None,
    ledger: Ledger | None = None,
    corpus: str = "default",
    randomness: Randomness | None = None,
) -> LabelHead:
    """Release a label head of private examples, under one budget.

    A label that nobody has is released all the same: what it has is noise.

    Args:
        examples: Private texts with labels. A label outside the list is left out, and so is all
            that is no text. A unit with several labels counts for the first one in the list.
        labels: The public list of labels.
        epsilon: The head is (epsilon, delta)-DP for every unit.
        delta: See ``epsilon``.
        adjacency: What makes two sets of examples neighbours.
        embedder: Embedding model; the packaged one if None.
        ledger: Keeps the budget of ``corpus``.
        corpus: Whose budget.
        randomness: Where noise comes from.

    Raises:
        BudgetExceededError: The ledger has not as much left.
        ConfigurationError: A setting is outside its range.
        ModelError: The embedding model cannot be loaded.
    """
    names = public_labels(labels)
    plan = LabelHeadPlan(len(names), epsilon, delta, adjacency)
    model, coins = embedder or SentenceTransformerEmbedder(), randomness or Randomness()
    with open_account(ledger, corpus=corpus, rho=plan.rho) as account:
        return paid_head(account, examples, names, plan, model, coins)


def paid_head(
    account: Account,
    examples: Iterable[LabelledDocument],
    labels: Sequence[str],
    plan: LabelHeadPlan,
    embedder: Embedder,
    randomness: Randomness,
) -> LabelHead:
    """A head that is drawn and then paid from an account, before anybody sees it.

    Args:
        account: Holds the price.
        examples: As in `release_label_head`.
        labels: The public list, as many as the plan is of.
        plan: Its price and its noise.
        embedder: Embedding model.
        randomness: Where noise comes from.
    """
    noise = plan.noise
    exact = exact_sums(examples, labels, embedder)
    sums = tuple(tuple(number + noise.draw(randomness) for number in row) for row in exact)
    account.pay(plan.price("sums"))
    return LabelHead(
        labels=tuple(labels),
        sums=sums,
        sigma=noise.sigma / GRID,
        model=embedder.fingerprint,
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=plan.rho,
        adjacency=str(plan.adjacency),
        embedder=embedder,
    )


def exact_sums(
    examples: Iterable[LabelledDocument], labels: Sequence[str], embedder: Embedder
) -> list[list[int]]:
    """Sums of the vectors of each label's units, in multiples of 2^-24. Private."""
    own = pools(examples, labels, labels_per_unit=1)
    dimensions = embedder.embed(list(labels)).shape[1]
    return [_sum(own[label], embedder, dimensions) for label in labels]


def _sum(pool: Pool, embedder: Embedder, dimensions: int) -> list[int]:
    texts = [text for own in pool.values() for text in own]
    if not texts:
        return [0] * dimensions
    vectors = embedded(texts, embedder).astype(np.float64)
    firsts = np.cumsum([0, *map(len, pool.values())])[:-1]
    # Multiples of 2^-24 add up exactly, in any order.
    units = on_grid(np.add.reduceat(vectors, firsts, axis=0)).astype(np.float64)
    whole = torch.from_numpy((units * GRID).astype(np.int64))
    found: list[int] = clipped_sum(whole, torch.zeros(dimensions, dtype=torch.int64), 1.0).tolist()
    return found


def _digest(found: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
