"""The mark of a synthetic corpus: its run, and the budget that it was drawn under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_RUN, _EPSILON, _DELTA = "dpicl_run", "dpicl_epsilon", "dpicl_delta"


@dataclass(frozen=True, slots=True)
class SyntheticOrigin:
    """The synthesis that a corpus is from. All of it is public.

    Attributes:
        run: Names it.
        epsilon: All records together are (epsilon, delta)-DP for the units of the private corpus.
        delta: See ``epsilon``.
    """

    run: str
    epsilon: float
    delta: float

    @property
    def metadata(self) -> dict[str, str | float]:
        """The fields that a corpus keeps of it."""
        return {_RUN: self.run, _EPSILON: self.epsilon, _DELTA: self.delta}

    @staticmethod
    def of(metadata: Mapping[str, Any]) -> SyntheticOrigin | None:
        """Read back from a corpus; None where it is not synthetic."""
        if _RUN not in metadata:
            return None
        return SyntheticOrigin(metadata[_RUN], metadata[_EPSILON], metadata[_DELTA])
