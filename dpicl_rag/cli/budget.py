"""``budget``: show, set and forecast what corpora and callers may spend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag.cli import console, options, stores

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dpicl_rag.ledger import ScopeStatus

app = typer.Typer(help="Show, set and forecast budgets.", no_args_is_help=True)

_UNLIMITED = (
    "Where no budget is set, answers are recorded but not limited; set one with "
    "`dpicl-rag budget set`."
)
_SPENT = (
    "Spent is the bound that holds for every unit. What a unit has really lost under individual "
    "accounting is private and is not shown."
)
_NO_FORECAST = (
    "Answers under individual accounting are not forecast: each unit pays only for what it "
    "reveals, and how much the units have left is private. They go on after this has reached 0."
)

Delta = Annotated[float, typer.Option(help="Delta at which epsilon is given.")]


@app.command()
@console.reported()
def show(
    corpus: options.AnyCorpus = None,
    caller: options.Caller = None,
    delta: Delta = options.DELTA,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Show budgets and what was spent. All of it is public."""
    path = ledger or stores.default_ledger()
    found = _chosen(_status(path), corpus, caller)
    if as_json:
        console.write_json({"budgets": [_public(status, delta) for status in found]})
        return
    if found:
        _print(found, delta)
        if any(status.kind == "corpus" for status in found):
            console.note(_SPENT)
    else:
        console.stdout().print("Nothing is recorded yet.")
    if not found or any(status.budget is None for status in found):
        console.note(_UNLIMITED)


@app.command("set")
@console.reported()
def set_budget(
    corpus: options.AnyCorpus = None,
    caller: options.Caller = None,
    rho: Annotated[
        float | None, typer.Option(help="zCDP rho per period; inf for no limit.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="The same as epsilon at --delta per period.")
    ] = None,
    delta: Delta = options.DELTA,
    unit_rho: Annotated[
        float | None,
        typer.Option(
            help="The part of rho that a unit may spend under individual accounting; all of it "
            "by default."
        ),
    ] = None,
    unit_epsilon: Annotated[
        float | None, typer.Option(help="The same as epsilon at --delta.")
    ] = None,
    period: Annotated[
        Literal["lifetime", "day", "month", "year"],
        typer.Option(
            help="How often the budget renews (UTC). Only a lifetime bounds what is ever learned: "
            "a renewing budget protects per period."
        ),
    ] = "lifetime",
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Set all budgets of one corpus or one caller. What was spent stays spent."""
    amount = _amount("--rho", rho, "--epsilon", epsilon, delta)
    if amount is None:
        raise typer.BadParameter("give --rho or --epsilon", param_hint="--rho")
    unit_amount = _amount("--unit-rho", unit_rho, "--unit-epsilon", unit_epsilon, delta)
    with stores.open_ledger(ledger) as book:
        book.set_budget(
            corpus=corpus, caller=caller, rho=amount, unit_rho=unit_amount, period=period
        )
        found = _chosen(book.status(), corpus, caller)
    if as_json:
        console.write_json({"budgets": [_public(status, delta) for status in found]})
        return
    _print(found, delta)


@app.command()
@console.reported()
def forecast(
    corpus: options.AnyCorpus = None,
    caller: options.Caller = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Forecast answers of this epsilon; by default of the mean cost so far."),
    ] = None,
    delta: Delta = options.DELTA,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
) -> None:
    """How many more answers the budgets pay for, from public numbers alone."""
    price = _amount("--rho", None, "--epsilon", epsilon, delta)
    found = _chosen(_status(ledger or stores.default_ledger()), corpus, caller)
    limited = [status for status in found if status.remaining is not None]
    forecasts = [_forecast(status, price) for status in limited]
    if as_json:
        console.write_json({"forecasts": forecasts, "individual": _NO_FORECAST})
        return
    out = console.stdout()
    for status, row in zip(limited, forecasts, strict=True):
        out.print(f"{_scope(status)}: {_sentence(row)}", soft_wrap=True)
    if not limited:
        out.print("There is no budget to run out.")
        console.note(_UNLIMITED)
    if any(status.kind == "corpus" for status in limited):
        console.note(_NO_FORECAST)


def _status(path: Path) -> list[ScopeStatus]:
    if not path.exists():  # reading makes no file
        return []
    with stores.open_ledger(path) as book:
        return book.status()


def _chosen(
    every: Sequence[ScopeStatus], corpus: str | None, caller: str | None
) -> list[ScopeStatus]:
    """The scopes named; all if none is."""
    if corpus is None and caller is None:
        return list(every)
    names = {"corpus": corpus, "caller": caller}
    return [status for status in every if names[status.kind] == status.name]


def _amount(
    rho_name: str, rho: float | None, epsilon_name: str, epsilon: float | None, delta: float
) -> float | None:
    """ZCDP rho of one of two options, or None where neither is given."""
    options.at_most_one({rho_name: rho, epsilon_name: epsilon})
    if epsilon is None:
        return rho
    from dpicl_rag.accounting import epsilon_to_rho

    return epsilon_to_rho(epsilon, delta)


def _public(status: ScopeStatus, delta: float) -> dict[str, Any]:
    return {
        "kind": status.kind,
        "name": status.name,
        "budget_rho": status.budget,
        "budget_epsilon": options.epsilon_of(status.budget, delta),
        "unit_budget_rho": status.unit_budget,
        "spent_rho": status.spent,
        "spent_epsilon": options.epsilon_of(status.spent, delta),
        "reserved_rho": status.reserved,
        "remaining_rho": status.remaining,
        "delta": delta,
        "period": status.period.value,
        "renews_on": None if status.renews_on is None else status.renews_on.isoformat(),
        "questions": status.questions,
    }


def _print(found: Sequence[ScopeStatus], delta: float) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, caption=f"epsilon at delta {delta:g}, rho of zCDP in brackets")
    table.add_column("Budget of", overflow="fold")
    table.add_column("Spent")
    table.add_column("")
    table.add_column("Questions", justify="right")
    table.add_column("Renews")
    for status in found:
        renews = "never" if status.renews_on is None else status.renews_on.isoformat()
        table.add_row(
            _scope(status), _bar(status), _spent(status, delta), str(status.questions), renews
        )
    console.stdout().print(table)


def _scope(status: ScopeStatus) -> str:
    return console.printable(f"{status.kind} {status.name}")


def _bar(status: ScopeStatus) -> RenderableType:
    from rich.progress_bar import ProgressBar

    if status.budget is None:
        return "no limit"
    share = status.spent / status.budget if status.budget else 1.0
    return ProgressBar(total=1.0, completed=min(share, 1.0), width=20)


def _spent(status: ScopeStatus, delta: float) -> str:
    spent = _both(status.spent, delta)
    if status.budget is None:
        return spent
    per_unit = ""
    if status.unit_budget is not None:
        per_unit = f"; a unit alone {_both(status.unit_budget, delta)}"
    return f"{spent} of {_both(status.budget, delta)}{per_unit}"


def _both(rho: float, delta: float) -> str:
    return f"{options.epsilon_of(rho, delta):.3g} ({rho:.3g})"


def _forecast(status: ScopeStatus, price: float | None) -> dict[str, Any]:
    """Answers left of those that cost every unit the same; ``price`` is zCDP rho of one."""
    if price is None and status.questions:
        price = status.spent / status.questions
    remaining = status.remaining or 0.0
    return {
        "kind": status.kind,
        "name": status.name,
        "remaining_rho": remaining,
        "rho_per_answer": price,
        # A hair of slack, for a budget set as a multiple of the price.
        "answers_left": math.floor(remaining / price * (1 + 1e-9)) if price else None,
        "renews_on": None if status.renews_on is None else status.renews_on.isoformat(),
    }


def _sentence(row: dict[str, Any]) -> str:
    if row["answers_left"] is None:
        return "no answer yet to go by; give --epsilon"
    kind = "answers under fixed accounting" if row["kind"] == "corpus" else "answers"
    until = "" if row["renews_on"] is None else f" until it renews on {row['renews_on']}"
    return (
        f"{row['answers_left']} more {kind} at rho {row['rho_per_answer']:.3g} each{until} "
        f"(rho {row['remaining_rho']:.3g} left)"
    )
