"""``budget``: show, set and forecast what corpora and callers may spend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.cli import console, data_folder, options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dpicl_rag.ledger import ScopeStatus

app = typer.Typer(help="Show, set and forecast budgets.", no_args_is_help=True)

_UNLIMITED = (
    "Where no budget is set, answers are recorded but not limited; set one with "
    "`dpicl-rag budget set`."
)
_BOUND = (
    "Spent is the public bound, as if every answer cost a unit all that it may. What a unit has "
    "really lost under individual accounting is private and is not shown."
)

BudgetDelta = Annotated[float, typer.Option(help="Delta at which epsilon is given.")]
AnswerEpsilon = Annotated[
    float, typer.Option("--epsilon", help="Count answers of this epsilon at --delta.")
]


@app.command()
@console.reported()
def show(
    corpus: options.AnyCorpus = None,
    caller: options.CallerOption = None,
    epsilon: AnswerEpsilon = options.EPSILON,
    delta: BudgetDelta = options.DELTA,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Show budgets, what was spent and how many answers are left. All of it is public."""
    found = _chosen(_status(ledger or data_folder.default_ledger()), corpus, caller)
    rows = _rows(found, epsilon, delta)
    if as_json:
        console.write_json({"budgets": rows})
        return
    if found:
        _print(found, rows)
        if any(status.kind == "corpus" for status in found):
            console.note(_BOUND)
    else:
        console.stdout().print("Nothing is recorded yet.")
    if not found or any(status.budget is None for status in found):
        console.note(_UNLIMITED)


@app.command("set")
@console.reported()
def set_budget(
    corpus: options.AnyCorpus = None,
    caller: options.CallerOption = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="What all answers of a period may reveal together, at --delta."),
    ] = None,
    delta: BudgetDelta = options.DELTA,
    rho: Annotated[
        float | None, typer.Option(help="The same as zCDP rho; inf for no limit.")
    ] = None,
    unit_epsilon: Annotated[
        float | None,
        typer.Option(
            help="The part of it that a unit may spend under individual accounting; all of it by "
            "default."
        ),
    ] = None,
    unit_rho: Annotated[float | None, typer.Option(help="The same as zCDP rho.")] = None,
    thresholds: Annotated[
        float,
        typer.Option(
            help="The part of --delta for thresholds of answers by agreement, 0 to 1; --epsilon is "
            "kept at the rest."
        ),
    ] = SHARES.threshold_pool,
    answers: Annotated[
        int,
        typer.Option(
            min=1,
            help="How many answers it is meant for: each takes one part in so many of what is left "
            "of that part. Fewer need fewer documents that agree, at first.",
        ),
    ] = SHARES.answers,
    gaussian: Annotated[
        bool,
        typer.Option(
            "--gaussian",
            help="For answers by agreement alone, counts and surveys; all else is refused. Their "
            "noise adds up exactly: the same epsilon pays for 13 to 18 percent more.",
        ),
    ] = False,
    period: Annotated[
        Literal["lifetime", "day", "month", "year"],
        typer.Option(
            help="How often the budget renews (UTC). Only a lifetime bounds what is ever learned: "
            "a renewing budget protects per period."
        ),
    ] = "lifetime",
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Refuse every answer once the budget is reached by the bound that holds for "
            "every unit, though units may have spent less.",
        ),
    ] = False,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Set all budgets of one corpus or one caller. What was spent stays spent."""
    options.at_most_one({"--epsilon": epsilon, "--rho": rho})
    options.at_most_one({"--unit-epsilon": unit_epsilon, "--unit-rho": unit_rho})
    if epsilon is None and rho is None:
        raise typer.BadParameter("give --epsilon or --rho", param_hint="--epsilon")
    with data_folder.open_ledger(ledger) as book:
        book.set_budget(
            corpus=corpus,
            caller=caller,
            rho=rho,
            epsilon=epsilon,
            unit_rho=unit_rho,
            unit_epsilon=unit_epsilon,
            delta=delta,
            thresholds=thresholds,
            answers=answers,
            gaussian=gaussian,
            period=period,
            strict=strict,
        )
        found = _chosen(book.status(), corpus, caller)
    rows = _rows(found, options.EPSILON, delta)
    if as_json:
        console.write_json({"budgets": rows})
        return
    _print(found, rows)


@app.command()
@console.reported()
def forecast(
    corpus: options.AnyCorpus = None,
    caller: options.CallerOption = None,
    epsilon: AnswerEpsilon = options.EPSILON,
    delta: BudgetDelta = options.DELTA,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
) -> None:
    """The number of answers that the budgets still pay for, from public numbers alone."""
    found = _chosen(_status(ledger or data_folder.default_ledger()), corpus, caller)
    limited = [row for row in _rows(found, epsilon, delta) if row["answers_left"] is not None]
    if as_json:
        console.write_json({"forecasts": limited, "note": _BOUND})
        return
    for row in limited:
        fixed = row["fixed_answers_left"]
        several = fixed not in (None, row["answers_left"])
        _tell(row, f" Under fixed accounting it pays for {fixed}." if several else "")
    if limited:
        console.note(_BOUND)
    else:
        console.stdout().print("There is no budget to run out.")
        console.note(_UNLIMITED)


def _status(path: Path) -> list[ScopeStatus]:
    if not path.exists():  # reading makes no file
        return []
    with data_folder.open_ledger(path) as book:
        return book.status()


def _chosen(
    every: Sequence[ScopeStatus], corpus: str | None, caller: str | None
) -> list[ScopeStatus]:
    """The scopes named; all if none is."""
    if corpus is None and caller is None:
        return list(every)
    names = {"corpus": corpus, "caller": caller}
    return [status for status in every if names[status.kind] == status.name]


def _rows(found: Sequence[ScopeStatus], epsilon: float, delta: float) -> list[dict[str, Any]]:
    """A row for each budget, with how many answers of (epsilon, delta) are left."""
    from dpicl_rag.configuration import PrivacyConfig
    from dpicl_rag.ledger.budgets import standing

    rows = []
    for status in found:
        # As answers are charged, whatever part of its delta a budget has set apart for thresholds.
        config = PrivacyConfig.create(
            epsilon=epsilon, delta=delta, agreement="only" if status.gaussian else None
        )
        price = config.under(status.booking).rho(booked=True)
        answer = {"answer_epsilon": epsilon, "answer_rho": price, "delta": delta}
        words = standing(status, price, delta)
        rows.append({**_public(status, price, delta), **answer, "standing": words})
    return rows


def _public(status: ScopeStatus, price: float, delta: float) -> dict[str, Any]:
    from dpicl_rag.ledger.budgets import delta_of_rho
    from dpicl_rag.ledger.fixed_point import affordable

    names = ("budget", "unit_budget", "spent", "reserved", "remaining", "unit_remaining")
    amounts = {name: getattr(status, name) for name in names}
    rest = delta_of_rho(status, delta)
    return {
        "kind": status.kind,
        "name": status.name,
        **{f"{name}_rho": rho for name, rho in amounts.items()},
        **{
            f"{name}_epsilon": options.epsilon_of(rho, rest, gaussian=status.gaussian)
            for name, rho in amounts.items()
        },
        "threshold_delta": status.delta,
        "threshold_delta_spent": status.delta_spent,
        "threshold_delta_remaining": status.delta_remaining,
        "threshold_answers": status.answers,
        "gaussian": status.gaussian,
        "answers_left": affordable(status.unit_remaining, price),
        "fixed_answers_left": affordable(status.remaining, price),
        "period": status.period.value,
        "renews_on": None if status.renews_on is None else status.renews_on.isoformat(),
        "questions": status.questions,
        "strict": status.strict,
    }


def _print(found: Sequence[ScopeStatus], rows: Sequence[dict[str, Any]]) -> None:
    caption = (
        "epsilon at delta {delta:g} (zCDP rho); left are answers of epsilon {answer_epsilon:g} "
        "by the public bound"
    )
    table = console.table(
        *("Budget of", "Spent", "", "Answers", "Left", "Renews"),
        right=["Answers", "Left"],
        caption=caption.format(**rows[0]),
    )
    for status, row in zip(found, rows, strict=True):
        left = "no limit" if row["answers_left"] is None else str(row["answers_left"])
        table.add_row(
            console.printable(_scope(row)),
            _bar(status),
            _spent(row),
            str(status.questions),
            left,
            row["renews_on"] or "never",
        )
    console.stdout().print(table)
    for row in rows:
        if row["answers_left"] == 0:
            _tell(row)


def _scope(row: dict[str, Any]) -> str:
    return f"{row['kind']} {row['name']}"


def _bar(status: ScopeStatus) -> RenderableType:
    from rich.progress_bar import ProgressBar

    if status.budget is None:
        return "no limit"
    share = status.spent / status.budget if status.budget else 1.0
    return ProgressBar(total=1.0, completed=min(share, 1.0), width=12)


def _spent(row: dict[str, Any]) -> str:
    limit = "" if row["budget_rho"] is None else f" of {_both(row, 'budget')}"
    unit = "" if row["unit_budget_rho"] is None else f"; a unit alone {_both(row, 'unit_budget')}"
    return f"{_both(row, 'spent')}{limit}{unit}"


def _both(row: dict[str, Any], name: str) -> str:
    return f"{row[f'{name}_epsilon']:.3g} ({row[f'{name}_rho']:.3g})"


def _tell(row: dict[str, Any], also: str = "") -> None:
    line = f"{_scope(row)}: {row['standing']}{also}"
    console.show(line)
