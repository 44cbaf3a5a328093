"""The epsilon that DP-TabICL prints for sampling, and the true one. For comparison, not for use.

Carey et al. 2024, "DP-TabICL: In-Context Learning with Differentially Private Tabular Data". Its
accuracies stand under the epsilon of what runs on a sample, before amplification.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl_rag.accounting.pure_dp import amplified_epsilon

EPSILONS = (1, 5, 10, 25, 50)
"""Of the paper."""


@dataclass(frozen=True, slots=True)
class Amplification:
    """A data set's line of the paper's table.

    Attributes:
        name: Of the data set.
        rate: Of its sample.
        printed: Epsilon after amplification that the paper prints, where it is not what follows
            from the rate; by the epsilon before.
    """

    name: str
    rate: float
    printed: dict[int, float]

    def epsilon(self, before: float) -> float:
        """Epsilon of the whole, from that of what runs on the sample."""
        return amplified_epsilon(before, self.rate)


AMPLIFICATION = (
    Amplification("adult", 0.1, {}),
    Amplification("bank", 0.1, {50: 47.370}),
    Amplification("blood", 300 / 598, {}),
    Amplification("calhousing", 3_300 / 16_512, {5: 4.416}),
    Amplification("car", 0.5, {}),
    Amplification("diabetes", 307 / 614, {}),  # the paper prints 617 rows
    Amplification("heart", 0.5, {}),
    Amplification("jungle", 0.1, {}),
)
"""By data set; entries of ``printed`` are misprints."""
