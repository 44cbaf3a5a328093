"""Methods in the private path: which fit documents, their price, and their draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import torch

from dpicl_rag.accounting.conversion import rho_to_epsilon
from dpicl_rag.charging import Charge
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.gathering import Source
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.methods.base import Calibrated, Method, Views
from dpicl_rag.methods.layouts import ContentFree, OneEach
from dpicl_rag.methods.names import OverDocuments
from dpicl_rag.methods.registry import make

OVER_DOCUMENTS: tuple[str, ...] = get_args(OverDocuments)

_PRIORS = ContentFree(OneEach())


@dataclass(frozen=True, slots=True)
class Priced:
    """A method with its noise for one label from documents.

    Attributes:
        method: The method.
        calibrated: Its noise.
        delta: Delta of the label, search included; 0 where all of it is pure.
        rho: zCDP rho of the draw alone.
    """

    method: Method
    calibrated: Calibrated
    delta: float
    rho: float

    @property
    def takes_priors(self) -> bool:
        """Whether the method reads a content-free question too."""
        return _PRIORS in self.method.layouts(1)

    def choose(
        self,
        log_probs: torch.Tensor,
        priors: torch.Tensor | None,
        charge: Charge,
        randomness: Randomness,
    ) -> int:
        """See ``dpicl_rag.labelling.Labelling``; every unit pays the same."""
        charge.pay(log_probs.new_zeros(0, dtype=torch.float64))
        experts: Views = {OneEach(): log_probs[1:].double()}
        if priors is not None:
            experts = {**experts, _PRIORS: priors[1:].double()}
        chosen = self.method.draw(experts, self.calibrated, randomness)
        charge.verify()
        return chosen


def price(name: str, config: PrivacyConfig, source: Source) -> Priced:
    """Noise of a method for one label, from public settings alone.

    A search that is not free takes its part first: its own epsilon at half of delta, and basic
    composition with the draw at the other half.

    Args:
        name: One of ``OVER_DOCUMENTS``.
        config: Epsilon, delta, adjacency, and ``clip`` for methods that have one.
        source: Stability from the corpus to the experts, and what the search costs.

    Raises:
        ConfigurationError: The method does not fit documents or the settings, or the search costs
            more than the whole budget.
    """
    if name not in OVER_DOCUMENTS:
        raise ConfigurationError(
            f"method {name!r} cannot label from documents; use one of {', '.join(OVER_DOCUMENTS)}"
        )
    if config.accounting == "individual":
        raise ConfigurationError(
            "methods are charged the same for every unit; leave out the method or use "
            "accounting='fixed'"
        )
    if config.utility is not None or config.strength is not None:
        raise ConfigurationError(
            "a method brings its own utility and strength; leave utility and strength out"
        )
    method = make(name) if config.clip is None else make(name, clip=config.clip)
    left, delta = config.epsilon, config.delta
    if source.rho > 0:
        delta = config.delta / 2
        left -= rho_to_epsilon(source.rho, delta)
        if left <= 0:
            raise ConfigurationError(
                "the search costs more than the whole budget of an answer; give it more noise "
                "(sigma) or raise epsilon"
            )
    calibrated = method.calibrate(left, delta, config.adjacency, stability=source.stability)
    rho = calibrated.rho
    assert rho is not None
    pure = name != "votes-gaussian" and source.rho == 0
    return Priced(method, calibrated, 0.0 if pure else config.delta, rho)
