"""How far one privacy unit reaches: adjacency, stability, and the factor they put on a charge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpicl_rag.errors import ConfigurationError


class Adjacency(StrEnum):
    """What makes two corpora neighbours; names as in ``dp_accounting.NeighboringRelation``."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"


@dataclass(frozen=True, slots=True)
class Stability:
    """How many experts the arrival of one privacy unit adds and changes.

    Each stage between the corpus and the experts declares one, and nothing else states a factor
    (privacy.md, section 2, "Stability").

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

    @property
    def individual(self) -> bool:
        """Whether a unit's presence changes no expert but its own (section 4's condition)."""
        return self.added <= 1 and self.changed == 0

    def factor(self, adjacency: Adjacency) -> int:
        """Multiplier on ``lambda * R``: ``added + 2 * changed``, twice that for a replacement.

        A changed expert may move from one end of its range to the other, so it counts twice;
        published work that counts it once is wrong by a factor of two. A replaced unit is a
        removal and an arrival.
        """
        factor = self.added + 2 * self.changed
        return 2 * factor if adjacency is Adjacency.REPLACE_ONE else factor


DIRECT = Stability(added=1, changed=0)
"""Units handed over as they are: one unit, one expert."""


def require_individual(stability: Stability, adjacency: Adjacency) -> None:
    """Raise unless individual accounting is sound for this pipeline.

    Raises:
        ConfigurationError: The adjacency is not add-or-remove, or a unit's arrival changes other
            experts.
    """
    if adjacency is not Adjacency.ADD_OR_REMOVE_ONE or not stability.individual:
        raise ConfigurationError(
            "individual accounting needs add-or-remove adjacency, threshold retrieval (or "
            "documents given directly) and one expert per unit; use accounting='fixed'"
        )
