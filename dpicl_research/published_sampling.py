"""The epsilon that DP-TabICL prints for sampling, and the true one. For comparison, not for use.

Carey et al. 2024, "DP-TabICL: In-Context Learning with Differentially Private Tabular Data". Its
accuracies stand under the epsilon of what runs on a sample, before amplification.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag.accounting.pure_dp import amplified_epsilon, epsilon_on_sample
from dpicl_rag.tabular.fresh_rows import FreshCharge
from dpicl_research.report import Table

EPSILONS = (1, 5, 10, 25, 50)
"""Of the paper."""


@dataclass(frozen=True, slots=True)
class Amplification:
    """A data set's line of the paper's table.

    Attributes:
        name: Of the data set.
        rate: Of its sample, n / N.
        rows: N, in the paper's split.
        queries: Test rows that are asked: a tenth of them in large sets, three quarters in small.
        printed: Epsilon after amplification that the paper prints, where it is not what follows
            from the rate; by the epsilon before.
    """

    name: str
    rate: float
    rows: int
    queries: int
    printed: dict[int, float]

    def epsilon(self, before: float) -> float:
        """Epsilon of the whole, from that of what runs on the sample."""
        return amplified_epsilon(before, self.rate)

    @property
    def rate_of_code(self) -> float:
        """Of the published code, which keeps a row where a Poisson draw of n / N is not 0."""
        return -math.expm1(-self.rate)


AMPLIFICATION = (
    Amplification("adult", 0.1, 30_162, 1_506, {}),
    Amplification("bank", 0.1, 36_168, 904, {50: 47.370}),
    Amplification("blood", 300 / 598, 598, 112, {}),
    Amplification("calhousing", 3_300 / 16_512, 16_512, 412, {5: 4.416}),
    Amplification("car", 0.5, 1_382, 259, {}),
    Amplification("diabetes", 307 / 614, 614, 115, {}),  # the paper prints 617 rows
    Amplification("heart", 0.5, 734, 138, {}),
    Amplification("jungle", 0.1, 35_855, 896, {}),
)
"""By data set; entries of ``printed`` are misprints."""


RATES = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Of the table of sizes."""


def published_rate(name: str) -> float | None:
    """The rate of a data set's sample; None of one that the paper has not."""
    return next((one.rate for one in AMPLIFICATION if one.name == name), None)


def noise_over_signal(epsilon: float, rate: float) -> float:
    """Noise on a sample's counts over the counts, as a multiple of that on all rows.

    Both at the same epsilon of the whole. A sample has ``rate`` of the counts, and noise for the
    epsilon of what runs on it. It is above 1: for a single release a sample never pays.
    """
    return epsilon / (rate * epsilon_on_sample(epsilon, rate))


def sampling_table() -> Table:
    """The true epsilon of what is printed, for the paper's rates and those of its code."""
    columns = ("data set", "rate", "of the code", *(f"epsilon {one}" for one in EPSILONS))
    rows = []
    for one in AMPLIFICATION:
        said = [
            f"{one.epsilon(before):.3f} / {amplified_epsilon(before, one.rate_of_code):.3f}"
            + (f" (printed {one.printed[before]:.3f})" if before in one.printed else "")
            for before in EPSILONS
        ]
        rows.append((one.name, f"{one.rate:.3g}", f"{one.rate_of_code:.3g}", *said))
    title = "True epsilon of a sample, by the paper's rate / by its code's"
    return Table(title, columns, tuple(rows))


def sizes_table() -> Table:
    """What the size of a sample costs in noise, by the epsilon of the whole (cf. Figure 2)."""
    columns = ("rate", *(f"epsilon {one}" for one in EPSILONS))
    rows = tuple(
        (
            f"{rate:g}",
            *(
                f"{epsilon_on_sample(one, rate):.3g} / {noise_over_signal(one, rate):.3g}"
                for one in EPSILONS
            ),
        )
        for rate in RATES
    )
    return Table("Epsilon on the sample / noise over signal, all rows as 1", columns, rows)


def charge_of_reports(report_epsilon: float, k: int, queries: int, people: int) -> FreshCharge:
    """The charge where every report is given an epsilon, as the paper does it."""
    whole = queries * amplified_epsilon(report_epsilon, k / people)
    return FreshCharge(whole, k, queries, people)


def fresh_table(k: int = 4) -> Table:
    """What k rows perturbed anew for each of the paper's queries cost.

    Args:
        k: Rows that one query shows.
    """
    columns = ("data set", "rows", "queries", *(f"each report {one}" for one in EPSILONS))
    rows = []
    for one in AMPLIFICATION:
        every = [charge_of_reports(e, k, one.queries, one.rows) for e in EPSILONS]
        shown = (f"{charge.epsilon:.3g}" for charge in every)
        rows.append((one.name, str(one.rows), str(one.queries), *shown))
    return Table(f"Epsilon of all queries, {k} fresh rows each", columns, tuple(rows))
