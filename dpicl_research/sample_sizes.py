"""Accuracy by the size of the sample that aggregates are made of (DP-TabICL, Figure 2)."""

from __future__ import annotations

from pathlib import Path

from dpicl_rag.accounting.pure_dp import epsilon_on_sample
from dpicl_research.report import Table, side_by_side
from dpicl_research.table_arms import AGGREGATES, PUBLISHED, sampled
from dpicl_research.table_labels import read_report, shown_accuracy
from dpicl_research.table_releases import rate_of


def sizes_by_accuracy(folder: Path) -> Table:
    """Lines of aggregates by epsilon of the whole, k and rate; the smallest sample first.

    In a cell stands the accuracy, then the epsilon of what ran on the sample.

    Raises:
        ConfigurationError: The folder holds no run, or a damaged one.
    """
    report = read_report(folder)
    rates = report.settings.get("more", {}).get("rates", [])
    methods = {sampled(rate): rate for rate in rates} | {AGGREGATES: "1"}
    lines = [line for line in report.lines if line.arm.method in methods]

    def size(task: str, method: str) -> float:
        return rate_of(methods[method], task)

    cells = []
    for line in sorted(
        lines,
        key=lambda one: (one.arm.epsilon, one.arm.k, size(one.task, one.arm.method)),
    ):
        assert line.arm.epsilon is not None
        named = methods[line.arm.method]
        before = epsilon_on_sample(line.arm.epsilon, size(line.task, line.arm.method))
        head = (f"{line.arm.epsilon:g}", str(line.arm.k), named)
        cells.append((head, line.task, f"{shown_accuracy(line)} ({before:.3g})"))
    tasks = {task: task for task in report.settings["tasks"]}
    title = f"Accuracy in percent by rate of the sample ({PUBLISHED}: the paper's)"
    return side_by_side(title, ("epsilon", "k", "rate"), tasks, cells)
