"""Membership inference on synthetic shots: is this record among those they were written from?

For every seed the task's pool is cut into two halves at random. Shots are written from the first
half. The attacker knows records with their answers, some of either half, and the shots, and asks
the model for the answer with the shots in its prompt:

- *confidence* (AdaDPSyn, C.6, after Duan et al. 2023): the probability of the right answer.
- *likelihood ratio* (Private PoEtry, appendix E.2): the same against the bare model.

Both follow from the shots, which are a private release: so both have the bound of a private row.
Of ``real`` shots, which are not private, the attacked members are the shots themselves; of all
other rows they are members of the half. Without shots there is nothing to be seen: 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpicl_rag.accounting import Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_research.attack import Attack, attack
from dpicl_research.label_scores import Scorer
from dpicl_research.membership import replacement_bound, shown_attack
from dpicl_research.paper_protocol import shuffled
from dpicl_research.report import LinesReport, Table
from dpicl_research.run_folder import Results, going_on, read_lines, read_settings
from dpicl_research.synthetic_examples import kept
from dpicl_research.synthetic_report import by_arm, privacy
from dpicl_research.synthetic_shots import Arm, Settings, check_prices, shots_of
from dpicl_research.tasks import Item, Task

_ATTACKS = "attacks.jsonl"
_BARE = "zero-shot"
_DIGITS = 9  # rounding errors must not order what is equal


@dataclass(frozen=True, slots=True)
class AttackLine:
    """Attacks on the shots of a row.

    Attributes:
        arm: Its name.
        epsilon: What was asked for; None where nothing is private.
        true_epsilon: What the noise gives; 0 without data, None where nothing is private.
        confidence: Attack by the probability of the right answer.
        likelihood_ratio: The same against the bare model.
        bound: What no attack on the shots can exceed; None where nothing is private.
        seeds: That are done.
    """

    arm: str
    epsilon: float | None
    true_epsilon: float | None
    confidence: Attack
    likelihood_ratio: Attack
    bound: float | None
    seeds: int


class SyntheticMembershipReport(LinesReport[AttackLine]):
    """See `LinesReport`."""

    def tables(self) -> list[Table]:
        """See `Report`."""
        run = self.settings
        seeds = max((line.seeds for line in self.lines), default=0)
        rows = tuple(
            (
                line.arm,
                "" if line.epsilon is None else f"{line.epsilon:g}",
                privacy(line.true_epsilon),
                shown_attack(line.confidence),
                shown_attack(line.likelihood_ratio),
                "" if line.bound is None else f"{line.bound:.4f}",
            )
            for line in self.lines
        )
        title = (
            f"{run['task']}: membership inference on {run['shots']} shots, AUROC with 95 % "
            f"interval, {seeds} of {run['seeds']} seeds x {run['attacked']} records of either kind"
        )
        columns = ("shots", "epsilon", "true epsilon", "confidence", "likelihood ratio", "bound")
        return [Table(title, columns, rows)]


def run(
    model: LanguageModel,
    task: Task,
    settings: Settings,
    rows: Sequence[Arm],
    folder: Path,
    *,
    attacked: int,
    on_progress: Progress | None = None,
) -> None:
    """Write and attack what the folder does not have yet.

    Args:
        model: Writes and answers.
        task: The task; its queries are not asked.
        settings: Of the shots.
        rows: What is attacked.
        folder: Where texts and scores are kept.
        attacked: Records of each half, for every seed.
        on_progress: Called with sets of shots that are done, and with all.

    Raises:
        ConfigurationError: The pool is too small, the folder holds other settings, or another
            process is at it.
    """
    if not settings.shots <= attacked <= len(task.pool) // 2:
        raise ConfigurationError(
            f"{task.name}: the records to attack are as many as the shots, or more, and at most "
            "half of the examples"
        )
    check_prices(task, settings, rows)
    scorer = Scorer(model, task, settings.text_tokens)
    places = [(arm.name, arm.epsilon, n) for n in range(settings.seeds) for arm in rows]
    with going_on(folder, {**kept(settings), "attacked": attacked}, free="seeds"):
        results = Results(folder / _ATTACKS, "arm", "epsilon", "seed")
        for name, epsilon, seed in results.missing(places, on_progress):
            inside, outside = halves(task, seed)
            written = shots_of(
                model,
                replace(task, pool=inside),
                settings,
                Arm(name, epsilon),
                seed,
                folder,
                lambda _done, _total: None,
            )
            members = written.items if name == "real" else inside[:attacked]
            scores = {
                kind: [_score(scorer, written.items, item) for item in items]
                for kind, items in (("members", members), ("others", outside[:attacked]))
            }
            results.add((name, epsilon, seed), {"true_epsilon": written.true_epsilon, **scores})


def halves(task: Task, seed: int) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """The pool in two halves at random: what shots are written from, and the rest."""
    order = [task.pool[i] for i in shuffled(f"{seed}/halves", len(task.pool))]
    return tuple(order[: len(order) // 2]), tuple(order[len(order) // 2 :])


def read_attacks(folder: Path) -> SyntheticMembershipReport:
    """The report of a run, finished or not.

    Raises:
        ConfigurationError: The folder holds none, or a damaged one.
    """
    settings = read_settings(folder)
    found = by_arm(read_lines(folder / _ATTACKS))
    lines = [_line(*arm, own, settings["delta"]) for arm, own in found.items()]
    return SyntheticMembershipReport(settings, lines)


def _score(scorer: Scorer, shots: Sequence[Item], item: Item) -> list[float]:
    """Log-probability of the right answer with the shots, and of the bare model."""
    choice, whole = scorer.choice(item), tuple(range(len(shots)))
    rows = scorer.score(shots, item.text, choice, sorted({whole, ()}))
    return [round(float(rows[subset][choice.right]), _DIGITS) for subset in (whole, ())]


def _line(
    arm: str, epsilon: float | None, seeds: Sequence[dict[str, Any]], delta: float
) -> AttackLine:
    def attacked(with_bare: bool) -> Attack:
        sides = [
            [
                [round(said - with_bare * bare, _DIGITS) for said, bare in seed[side]]
                for seed in seeds
            ]
            for side in ("members", "others")
        ]
        return attack(*sides)

    cost = seeds[0]["true_epsilon"]
    if arm == _BARE:
        cost = 0.0
    return AttackLine(
        arm=arm,
        epsilon=0.0 if arm == "data-free" else epsilon,
        true_epsilon=cost,
        confidence=attacked(False),
        likelihood_ratio=attacked(True),
        bound=None if cost is None else _bound(cost, delta),
        seeds=len(seeds),
    )


def _bound(epsilon: float, delta: float) -> float:
    """What a record in another's place is told by at most; 0.5 where no data is read."""
    return replacement_bound(Budget(epsilon, delta)) if epsilon else 0.5
