"""The draw of a tally: opinions of units, counted and paid for, with noise on each count."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dpicl_rag.answering.experts import Gathered
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.mechanisms.randomness import Randomness


def noisy_counts(
    gathered: Gathered[Histogram], said: Callable[[], torch.Tensor], randomness: Randomness
) -> list[int]:
    """How many units say each label, with noise; paid for, and the account is closed in any case.

    Args:
        gathered: The units, and how they pay.
        said: Reads them: the labels that each says, bool [n, labels]. Private.
        randomness: Where the noise comes from.

    Raises:
        ConfigurationError: No unit could ever pay.
        StoppedError: It was ended before all units were read.
    """
    price = gathered.mechanism.rho
    with gathered.paying():
        if not gathered.spend.can_count(price):
            raise ConfigurationError(
                f"it costs a unit rho {price:.4g}, and the ledger's budget lets a unit spend less; "
                "raise the corpus's unit budget with `dpicl-rag budget set`, or lower epsilon"
            )
        with enough_memory():
            votes = said()
        # A unit that says nothing moves no count.
        able = gathered.spend.pay_votes(price, votes.any(dim=-1), 0.0)
        counts = votes[able].sum(dim=0).tolist()
        return gathered.mechanism.draw(counts, randomness)
