"""Units to experts: one each, or random groups."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.documents import Document, group_by_unit

ONE_EACH = Stability(added=1, changed=0)
"""One expert per unit: an arrival adds one expert and changes none."""

RANDOM_GROUPS = Stability(added=0, changed=1)
"""A fixed number of groups, each unit in one of them by its own coin: an arrival changes one."""


@dataclass(frozen=True, slots=True, repr=False)
class Expert:
    """The passages that one expert reads, and the units they came from."""

    units: tuple[str, ...] = field(repr=False)
    passages: tuple[str, ...] = field(repr=False)


def one_each(documents: Sequence[Document]) -> list[Expert]:
    """One expert per unit, its passages in the order given. Stability: ``ONE_EACH``."""
    return [
        Expert((unit,), tuple(document.text for document in own))
        for unit, own in group_by_unit(documents).items()
    ]


def random_groups(documents: Sequence[Document], groups: int) -> list[Expert]:
    """``groups`` experts; each unit joins one by its own secret coin. Stability: ``RANDOM_GROUPS``.

    The number of groups is public, so an empty group stays an expert: it reads no document.
    """
    # Groups by rank or by sorted id would shift every group when a unit is inserted.
    members: list[list[Expert]] = [[] for _ in range(groups)]
    for expert in one_each(documents):
        members[secrets.randbelow(groups)].append(expert)
    return [
        Expert(
            tuple(unit for expert in group for unit in expert.units),
            tuple(passage for expert in group for passage in expert.passages),
        )
        for group in members
    ]
