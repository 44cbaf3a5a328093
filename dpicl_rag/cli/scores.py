"""``corpora scores``: how many units reach each threshold, with noise and paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl_rag.cli import console, data_folder, file_budgets, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpicl_rag.retrieval import ScoreHistogram

_WIDTH = 40


@console.reported("interrupted; nothing was shown")
def scores(
    name: options.CorpusArgument,
    question: Annotated[
        list[str],
        typer.Argument(metavar="QUESTION...", help="Questions as they will be asked. Public."),
    ],
    sigma: Annotated[
        float, typer.Option(help="Noise on each count, above 0; less noise costs more.")
    ] = 3.0,
    units: Annotated[
        int, typer.Option(min=1, help="Suggest the threshold that lets about this many units pass.")
    ] = 64,
    caller: options.CallerOption = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Count the units between thresholds, with noise, to choose a threshold for `ask`.

    Each question costs every unit of the corpus 1 / (2 sigma^2) of rho, which the ledger pays
    before anything is shown.
    """
    from dpicl_rag.retrieval import score_histograms, suggest_threshold
    from dpicl_rag.retrieval.score_histogram import histograms_rho

    rho = histograms_rho(sigma, len(question))
    with (
        data_folder.open_corpus(name, path, embedder) as corpus,
        file_budgets.open_book(ledger, corpus.name) as book,
        console.status("Counting", quiet=quiet),
    ):
        found = score_histograms(
            corpus, question, ledger=book, corpus=corpus.name, caller=caller, sigma=sigma
        )
    suggested = suggest_threshold(found, units)
    if as_json:
        console.write_json(_public(found, suggested, units, rho))
        return
    for histogram in found:
        _plot(histogram)
    out = console.stdout()
    out.print(f"about {units} units: --threshold {suggested:g}", soft_wrap=True)
    spent = f"epsilon {options.epsilon_of(rho):.3g}, delta {options.DELTA:g}, rho {rho:.4g}"
    out.print(f"spent: {spent}", style="dim")


def _public(
    found: Sequence[ScoreHistogram], suggested: float, units: int, rho: float
) -> dict[str, Any]:
    return {
        "histograms": [
            {
                "question": histogram.question,
                "thresholds": histogram.thresholds,
                "counts": histogram.counts,
                "passing": histogram.passing,
            }
            for histogram in found
        ],
        "sigma": found[0].sigma,
        "units": units,
        "suggested_threshold": suggested,
        "epsilon": options.epsilon_of(rho),
        "delta": options.DELTA,
        "rho": rho,
    }


def _plot(histogram: ScoreHistogram) -> None:
    """A bar for each noisy count."""
    from rich import box
    from rich.bar import Bar
    from rich.table import Table

    title = f"{console.printable(histogram.question)}\n(noise of {histogram.sigma:g} on each count)"
    table = Table(box=box.SIMPLE, title=title, title_justify="left", title_style="")
    table.add_column("Cosine from", justify="right")
    table.add_column("Units", justify="right")
    table.add_column("", width=_WIDTH)
    table.add_column("All above", justify="right")
    tallest = max(1, *histogram.counts)
    rows = zip(histogram.thresholds, histogram.counts, histogram.passing, strict=True)
    for threshold, count, passing in rows:
        bar = Bar(tallest, 0, max(0, count), width=_WIDTH)
        table.add_row(f"{threshold:.2f}", str(count), bar, str(passing))
    console.stdout().print(table)
