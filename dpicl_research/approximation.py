"""Soft against hard: how well independent experts stand for all examples in one prompt.

The question of Private PoEtry, section 4.1: one prompt with all examples gives p(y | D). Soft
experts approximate it by the normalised product of the p(y | d_i), hard experts by the share of
their votes. No noise is added anywhere. The paper's words are defined here as follows.

- *Predictive likelihood*: mean probability of the right label under the approximation.
- *Largest change*: when one example is removed, the largest change of any label's probability;
  the maximum over examples and labels, then the mean over queries. It is what a private mechanism
  has to hide.
- *Distance*: total variation distance to the prompt with all examples, mean over queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import Vote
from dpicl_rag.methods.base import OneEach, OnePrompt, ZeroShot
from dpicl_research.comparison import Estimate, over_seeds
from dpicl_research.context_rows import LeaveOneOut
from dpicl_research.scores_folder import Record, Run

PREDICTORS = ("zero-shot", "k-shot", "soft", "soft with prior", "hard")
"""Predictors to measure. ``soft with prior`` is ``p_0^(1 - n) prod p_i``, the exact posterior of
examples that are independent given the label."""

Predictor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Approximation:
    """Figures of one predictor.

    Attributes:
        predictor: One of ``PREDICTORS``.
        experts: Number of examples.
        likelihood: Predictive likelihood, 0 to 1.
        change: Largest change, 0 to 1; None for ``k-shot`` unless the run has prompts with one
            example left out.
        distance: Total variation distance to ``k-shot``, 0 to 1.
    """

    predictor: str
    experts: int
    likelihood: Estimate
    change: Estimate | None
    distance: Estimate


def approximations(run: Run, experts: int) -> list[Approximation]:
    """Figures of every predictor.

    Raises:
        KeyError: The run lacks the rows: it needs the methods ``zero-shot``, ``k-shot`` and
            ``soft``.
    """
    return [_measured(run, name, experts) for name in PREDICTORS]


def by_rank(run: Run, experts: int, most: int = 5) -> list[Estimate]:
    """Mean probability of an expert's likeliest labels, the first one first.

    Private PoEtry, Figure 3: a vote keeps the first alone.

    Raises:
        KeyError: The run lacks the rows of ``soft``.
    """
    ranks = min(most, *(len(record.labels) for record in run.records))

    def at(rank: int) -> Callable[[Record], float]:
        return lambda record: float(
            record.view(OneEach(), experts)
            .exp()
            .sort(dim=1, descending=True)
            .values[:, rank]
            .mean()
        )

    return [over_seeds(run, at(rank)) for rank in range(ranks)]


def soft_product(experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
    """``prod_i p_i(y)``, normalised; the public row alone where there is no expert.

    Args:
        experts: Log-probabilities [n, labels].
        public: Log-probabilities [labels].
    """
    if not len(experts):
        return public.exp()
    return torch.softmax(experts.sum(dim=0), dim=0)


def soft_product_with_prior(experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
    """``p_0(y) prod_i p_i(y) / p_0(y)``, normalised."""
    return torch.softmax(public + (experts - public).sum(dim=0), dim=0)


def vote_shares(experts: torch.Tensor, public: torch.Tensor) -> torch.Tensor:
    """Share of the experts' votes for each label; the public row where there is no expert."""
    if not len(experts):
        return public.exp()
    return DenseStep(public, experts).weighted_sum(Vote(), 1.0) / len(experts)


_PRODUCTS: dict[str, Predictor] = {
    "soft": soft_product,
    "soft with prior": soft_product_with_prior,
    "hard": vote_shares,
}


def _measured(run: Run, name: str, experts: int) -> Approximation:
    def likelihood(record: Record) -> float:
        return float(predicted(record, name, experts)[record.right])

    def distance(record: Record) -> float:
        whole = predicted(record, "k-shot", experts)
        return float((predicted(record, name, experts) - whole).abs().sum() / 2)

    change = _change(run, name, experts)
    return Approximation(
        name, experts, over_seeds(run, likelihood), change, over_seeds(run, distance)
    )


def predicted(record: Record, name: str, experts: int) -> torch.Tensor:
    """Distribution over the labels that one of ``PREDICTORS`` gives, without noise.

    Raises:
        KeyError: The run lacks its rows.
    """
    public = record.view(ZeroShot(), experts)[0]
    if name == "zero-shot":
        return public.exp()
    if name == "k-shot":
        return record.view(OnePrompt(), experts)[0].exp()
    return _PRODUCTS[name](record.view(OneEach(), experts), public)


def _without_one(record: Record, name: str, experts: int) -> torch.Tensor:
    """Predictions with each example left out [experts, labels]."""
    if name == "k-shot":
        return record.view(LeaveOneOut(), experts).exp()
    public = record.view(ZeroShot(), experts)[0]
    if name == "zero-shot":
        return public.exp()[None]
    rows = record.view(OneEach(), experts)
    kept = (torch.cat([rows[:i], rows[i + 1 :]]) for i in range(experts))
    return torch.stack([_PRODUCTS[name](rest, public) for rest in kept])


def _change(run: Run, name: str, experts: int) -> Estimate | None:
    def largest(record: Record) -> float:
        whole = predicted(record, name, experts)
        return float((_without_one(record, name, experts) - whole).abs().max())

    try:
        return over_seeds(run, largest)
    except KeyError:
        return None
