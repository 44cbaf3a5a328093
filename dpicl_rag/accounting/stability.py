"""Reach of one privacy unit: adjacency, stability, and the factor they put on a charge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from dpicl_rag.errors import ConfigurationError

SQRT_2 = math.sqrt(2.0)
"""L2 distance of two votes, and the largest distance of two probability vectors."""


class Adjacency(StrEnum):
    """The relation of neighbouring corpora; names as in ``dp_accounting.NeighboringRelation``."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"


@dataclass(frozen=True, slots=True)
class Stability:
    """Numbers of experts that the arrival of one privacy unit adds and changes.

    Each stage between the corpus and the experts declares one, and nothing else states a factor
    (docs/privacy.md, "How a token is drawn").

    Attributes:
        added: Experts that one unit's arrival adds.
        changed: Experts that it changes arbitrarily.
    """

    added: int
    changed: int

    def then(self, stage: Stability) -> Stability:
        """Stability of this stage followed by another.

        An item added here arrives at ``stage``. An item changed here keeps its place there (for
        random groups: the two runs are coupled so that the newcomer takes the group of the unit
        it displaced, and joint convexity does the rest), so it changes one expert.
        """
        return Stability(
            added=self.added * stage.added,
            changed=self.added * stage.changed + self.changed,
        )

    def individual_under(self, adjacency: Adjacency) -> bool:
        """Soundness of individual accounting: a unit's presence changes its own expert alone.

        A replaced unit changes its expert, so add-or-remove adjacency is needed.
        """
        own = self.added <= 1 and self.changed == 0
        return own and adjacency is Adjacency.ADD_OR_REMOVE_ONE

    def moved(self, adjacency: Adjacency) -> tuple[int, int]:
        """Experts that one unit adds (or takes away), and experts that it changes arbitrarily.

        A replaced unit is a removal and an arrival: what the one takes away and what the other
        adds are pairs of changed experts.
        """
        if adjacency is Adjacency.REPLACE_ONE:
            return 0, self.added + 2 * self.changed
        return self.added, self.changed

    def factor(self, adjacency: Adjacency) -> int:
        """Multiplier on ``lambda * R``: ``added + 2 * changed`` of what is ``moved``.

        A changed expert may move from one end of its range to the other, so it counts twice;
        published work that counts it once is wrong by a factor of two.
        """
        added, changed = self.moved(adjacency)
        return added + 2 * changed

    def votes_l2(self, adjacency: Adjacency) -> float:
        """L2 sensitivity of the sum of the experts' votes, or of their probability vectors.

        A vector added has length 1 at most, one changed for another moves by sqrt(2) at most.
        """
        added, changed = self.moved(adjacency)
        return added + SQRT_2 * changed


DIRECT = Stability(added=1, changed=0)
"""One expert for each unit: an arrival adds one and changes none."""

RANDOM_GROUPS = Stability(added=0, changed=1)
"""A fixed number of groups, each unit in one of them by its own coin: an arrival changes one."""


def require_individual(stability: Stability, adjacency: Adjacency) -> None:
    """Raise unless individual accounting is sound for this pipeline.

    Raises:
        ConfigurationError: The adjacency is not add-or-remove, or a unit's arrival changes other
            experts.
    """
    if not stability.individual_under(adjacency):
        raise ConfigurationError(
            "individual accounting needs add-or-remove adjacency, threshold retrieval (or "
            "documents given directly) and one expert per unit; use accounting='fixed'"
        )
