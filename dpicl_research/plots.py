"""Plots of reports; matplotlib is an extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpicl_rag._packaged import optional
from dpicl_rag.errors import ConfigurationError
from dpicl_research.comparison import Line
from dpicl_research.convergence import MEASURED, ConvergenceReport
from dpicl_research.membership import MembershipReport
from dpicl_research.run_tables import EvaluationReport
from dpicl_research.synthetic_report import SyntheticReport

Points = Sequence[tuple[float, Line]]


def save(report: EvaluationReport | MembershipReport, folder: Path) -> list[Path]:
    """Write ``report-NAME.md`` and ``report-NAME.png``, NAME being the run's.

    Args:
        report: Of a run.
        folder: Made if it is not there.

    Returns:
        The files.

    Raises:
        MissingDependencyError: matplotlib is not installed; nothing was written.
        ConfigurationError: The folder cannot be written to.
    """
    optional("matplotlib", "dpicl-research")
    figure = _membership(report) if isinstance(report, MembershipReport) else _accuracy(report)
    files = [folder / f"report-{report.run.name}{end}" for end in (".md", ".png")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files[0].write_text(report.markdown(), encoding="utf-8")
        figure.savefig(files[1], dpi=120)
    except OSError as error:
        raise ConfigurationError(f"{folder}: the report cannot be written there") from error
    return files


def save_synthetic(report: SyntheticReport, file: Path) -> None:
    """Write a plot of synthetic shots: accuracy by true epsilon, with standard errors.

    Args:
        report: Of a run. Lines to compare with are drawn across the panel.
        file: Its suffix says the format.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ConfigurationError: The file cannot be written.
    """
    optional("matplotlib", "dpicl-research")
    lines, settings = report.lines, report.settings
    shown = {"as it is": [(n.arm, n.true_epsilon, n.accuracy, n.error) for n in lines]}
    corrected = [
        (n.arm, n.true_epsilon, n.corrected, n.corrected_error)
        for n in lines
        if n.corrected is not None
    ]
    if corrected:
        shown["with the prompt's prior taken out"] = corrected
    figure = _figure(len(shown))
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for panel, (title, found) in zip(panels, shown.items(), strict=True):
        _synthetic(panel, found)
        panel.set_title(title, fontsize=9)
    panels[0].set_ylabel("accuracy (%)")
    handles = {line.get_label(): line for line in panels[0].lines}
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=7)
    figure.suptitle(f"{settings['task']}: {settings['shots']} shots, true epsilon")
    _write(figure, file)


def save_convergence(report: ConvergenceReport, file: Path) -> None:
    """Write a plot of a product of experts against one prompt, by number of examples.

    Args:
        report: Of a run. Left are distances, right interactions and margins.
        file: Its suffix says the format.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ConfigurationError: The file cannot be written.
    """
    optional("matplotlib", "dpicl-research")
    figure = _figure(2)
    left, right = figure.subplots(1, 2)
    for number, name in enumerate(MEASURED):
        own = [point for point in report.points if point.predictor == name]
        look = {"color": f"C{number}"}
        found = [(p.experts, p.distance.mean, p.distance.error) for p in own]
        if name != "k-shot":  # at no distance from itself
            _curve(left, name, found, **look)
        for part, style in (("interaction", "-"), ("margin", "--")):
            known = [(p.experts, e) for p in own if (e := getattr(p, part)) is not None]
            if known and (part, name) != ("interaction", "k-shot"):
                at, nats = zip(*((n, e.mean) for n, e in known), strict=True)
                errors = [e.error or 0.0 for _, e in known]
                right.errorbar(
                    at, nats, yerr=errors, marker="o", markersize=3, linestyle=style, **look
                )
                right.lines[-1].set_label(f"{part}, {name}")
    left.set_ylabel("distance to one prompt (%)")
    left.set_ylim(bottom=0)
    right.set_ylabel("nats")
    for axis in (left, right):
        axis.set_xscale("log", base=2)
        numbers = sorted({point.experts for point in report.points})
        axis.set_xticks(numbers, [str(number) for number in numbers])
        axis.set_xlabel("examples")
        axis.legend(fontsize=7, handlelength=3)
    figure.suptitle(report.heading())
    _write(figure, file)


def _write(figure: Any, file: Path) -> None:
    try:
        figure.savefig(file, dpi=120)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file}: the plot cannot be written there") from error


def _synthetic(axis: Any, found: Sequence[tuple[str, float | None, float, float | None]]) -> None:
    """Arms with true epsilon, and a share with its error."""
    for number, arm in enumerate(dict.fromkeys(arm for arm, *_ in found)):
        own = [(e or 0.0, share, error) for a, e, share, error in found if a == arm]
        if own[0][0]:
            _curve(axis, arm, own, color=f"C{number}")
        else:
            axis.axhline(100 * own[0][1], linestyle=":", color=f"C{number}", label=arm)
    axis.set_xscale("log", base=2)
    axis.set_xlabel("epsilon")


def _accuracy(report: EvaluationReport) -> Any:
    panels: list[tuple[str, Points]] = [
        ("experts", [(line.experts, line) for line in report.lines])
    ]
    if report.by_epsilon:
        known = [(e.epsilon, e) for e in report.by_epsilon if e.epsilon is not None]
        panels.append(("epsilon", known))
    if report.by_clip:
        panels.append(("clip", report.by_clip))
    if report.by_answers:
        panels.append(("answers that share epsilon", report.by_answers))
    if report.by_rate:
        panels.append(("sampling rate", report.by_rate))
    more = bool(report.spent) + bool(report.approximation)
    figure = _figure(len(panels) + more)
    axes = figure.subplots(1, len(panels) + more, squeeze=False)[0]
    colours = _colours([line.method for _, points in panels for _, line in points])
    for axis, (name, points) in zip(axes, panels, strict=False):
        _curves(axis, name, points, colours)
    if report.spent:
        _spent(axes[len(panels)], report, colours)
    if report.approximation:
        _approximation(axes[-1], report)
    axes[0].set_ylabel("accuracy (%)")
    handles = {line.get_label(): line for axis in axes for line in axis.lines}
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=7)
    figure.suptitle(report.heading())
    return figure


def _membership(report: MembershipReport) -> Any:
    figure = _figure(2)
    axis = figure.subplots()
    names = ("likelihood ratio", "confidence", "released label")
    for offset, name in enumerate(names):
        for row, line in enumerate(report.lines):
            found = (line.likelihood_ratio, line.confidence, line.released)[offset]
            axis.errorbar(
                found.auroc,
                row + 0.2 * (offset - 1),
                xerr=[[max(0.0, found.auroc - found.low)], [max(0.0, found.high - found.auroc)]],
                fmt="o",
                color=f"C{offset}",
                label=name if row == 0 else None,
            )
    axis.set_yticks(range(len(report.lines)), [line.path for line in report.lines])
    axis.axvline(0.5, color="0.7", linestyle=":")
    axis.invert_yaxis()
    axis.set_xlabel("AUROC")
    axis.legend(fontsize=7)
    figure.suptitle(report.heading())
    return figure


def _curves(axis: Any, name: str, points: Points, colours: dict[str, str]) -> None:
    for method in dict.fromkeys(line.method for _, line in points):
        own = [(x, line) for x, line in points if line.method == method]
        known = [(x, e.accuracy, e.error) for x, e in own if e.accuracy is not None]
        if known:
            dotted = ":" if own[0][1].epsilon is None else "-"
            _curve(axis, method, known, linestyle=dotted, color=colours[method])
    if name != "experts":
        axis.set_xscale("log", base=10 if name.startswith("answers") else 2)
    axis.set_xlabel(name)


def _spent(axis: Any, report: EvaluationReport, colours: dict[str, str]) -> None:
    """Epsilon after some answers, with the noise for all of them."""
    for method in dict.fromkeys(method for _, method, _ in report.spent):
        own = [(answers, epsilon) for answers, name, epsilon in report.spent if name == method]
        axis.plot(*zip(*own, strict=True), marker="o", markersize=3, color=colours[method])
        axis.lines[-1].set_label(method)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("answers given")
    axis.set_ylabel("epsilon spent")


def _curve(
    axis: Any, label: str, found: Sequence[tuple[float, float, float | None]], **look: str
) -> None:
    """Shares with their errors, in percent."""
    shown = sorted((x, 100 * share, 100 * (error or 0.0)) for x, share, error in found)
    at, shares, errors = zip(*shown, strict=True)
    axis.errorbar(at, shares, yerr=errors, marker="o", markersize=3, linewidth=1, **look)
    axis.lines[-1].set_label(label)


def _approximation(axis: Any, report: EvaluationReport) -> None:
    found = report.approximation
    for offset, name in enumerate(("likelihood", "change", "distance")):
        known = [(i, e) for i, a in enumerate(found) if (e := getattr(a, name)) is not None]
        axis.barh(
            [i + 0.27 * (offset - 1) for i, _ in known],
            [100 * e.mean for _, e in known],
            height=0.25,
            color=f"{0.2 + 0.25 * offset}",
            label=name,
        )
    axis.set_yticks(range(len(found)), [a.predictor for a in found])
    axis.invert_yaxis()
    axis.set_xlabel("percent, no noise")
    axis.legend(fontsize=7)


def _colours(methods: Sequence[str]) -> dict[str, str]:
    """A colour per method, the same in every panel."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    names = list(dict.fromkeys(methods))
    wheel = colormaps["tab20"]
    return {name: to_hex(wheel(i % wheel.N)) for i, name in enumerate(names)}


def _figure(panels: int) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(3.6 * panels + 2, 4.2), layout="constrained")
