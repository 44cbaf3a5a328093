"""``audit``: does the guarantee hold on this corpus, with this model and these settings?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpicl_rag.cli import ask, console, options, stores

if TYPE_CHECKING:
    from dpicl_rag.auditing import AuditReport, Subject
    from dpicl_rag.documents import Document

_QUESTION = "What does the document say?"


@console.reported("interrupted; an audit changes nothing, run it again")
def audit(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]",
            help="Documents to audit with, as for ingest; or give --corpus.",
            show_default=False,
        ),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            "--corpus",
            metavar="NAME",
            help="Audit with what this corpus has for the question.",
            show_default=False,
        ),
    ] = None,
    question: Annotated[str, typer.Option(help="The question. It is public.")] = _QUESTION,
    text_field: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="Column of PATH with the text.", show_default=False),
    ] = None,
    units: Annotated[int, typer.Option(min=2, help="Privacy units in the sample.")] = 12,
    tokens: Annotated[int, typer.Option(min=1, help="Length of the audited answers.")] = 6,
    runs: Annotated[
        int, typer.Option(min=4, help="Answers drawn with a canary, and as many without.")
    ] = 500,
    canary_units: Annotated[
        int,
        typer.Option(min=0, help="Units around the canary: the fewer, the more one unit shows."),
    ] = 1,
    canary_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of an answer by which the canary is looked for.")
    ] = 5,
    epsilon: ask.Epsilon = 8.0,
    delta: Annotated[
        float, typer.Option(help="Privacy of one answer, strictly between 0 and 1.")
    ] = 1e-5,
    model: ask.Model = None,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 32,
    threshold: ask.Threshold = None,
    accounting: ask.Accounting = None,
    utility: ask.Utility = None,
    unit_tokens: ask.UnitTokens = 256,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write a one-page report, text and plot.", show_default=False
        ),
    ] = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare neighbours exactly, try to find a canary, and attack. Nothing is spent.

    What it prints comes from the documents without noise: it is for their owner.
    """
    if (source is None) == (corpus is None):
        raise typer.BadParameter("give a path or --corpus, one of them", param_hint="PATH")
    from dpicl_rag.configuration import PrivacyConfig

    settings = {
        "epsilon": epsilon,
        "delta": delta,
        "max_tokens": max_tokens,
        "accounting": accounting,
        "utility": utility,
        "unit_tokens": unit_tokens,
    }
    PrivacyConfig.create(**settings)
    if out is not None:
        from dpicl_rag.auditing.report import require_plots

        require_plots()
    with console.status("Reading the documents", quiet=quiet):
        if source is not None:
            documents = _loaded(source, text_field)
        else:
            assert corpus is not None
            documents = _retrieved(corpus, question, threshold, path, embedder)
    sample, around = _sample(documents, units), _sample(documents, canary_units)
    with console.status("Loading the language model", quiet=quiet):
        from dpicl_rag.auditing import RememberingModel, Subject

        subject = Subject(RememberingModel(ask.load_model(model)), question, settings)
    report = _audit(
        subject,
        sample,
        around,
        tokens=tokens,
        canary_tokens=canary_tokens,
        runs=runs,
        quiet=quiet,
    )
    files = report.save(out) if out is not None else []
    if as_json:
        console.write_json(report.summary())
    else:
        console.write_piece(report.text())
        for file in files:
            console.note(f"written: {file}")
    if not report.holds:
        raise typer.Exit(1)


def _audit(
    subject: Subject,
    sample: Sequence[Document],
    around: Sequence[Document],
    *,
    tokens: int,
    canary_tokens: int,
    runs: int,
    quiet: bool,
) -> AuditReport:
    from dpicl_rag.auditing import (
        AuditReport,
        audit_canary,
        audit_extraction,
        audit_neighbours,
        audit_synthetic,
        worst_canary,
    )

    with console.Bar("Worst-case experts", quiet=quiet) as bar:
        synthetic = audit_synthetic(subject, on_progress=bar.update)
    with console.Bar("Neighbours of the sample", quiet=quiet) as bar:
        documents = audit_neighbours(subject, sample, tokens=tokens, on_progress=bar.update)
    with console.Bar("Choosing a canary", quiet=quiet) as bar:
        unit = worst_canary(subject, around, on_progress=bar.update)
    with console.Bar("Canary", quiet=quiet) as bar:
        canary = audit_canary(
            subject, around, unit, runs=runs, tokens=canary_tokens, on_progress=bar.update
        )
    with console.Bar("Extraction", quiet=quiet) as bar:
        extraction = audit_extraction(subject, sample, on_progress=bar.update)
    return AuditReport(documents, synthetic, canary, extraction)


def _loaded(source: Path, text_field: str | None) -> list[Document]:
    from dpicl_rag.loaders import load

    return load(source, text_field=text_field).documents


def _retrieved(
    corpus: str, question: str, threshold: float | None, path: Path | None, embedder: str | None
) -> list[Document]:
    from dpicl_rag.retrieval import ThresholdRetriever

    with stores.open_corpus(corpus, path, embedder) as opened:
        retriever = (
            ThresholdRetriever(opened)
            if threshold is None
            else ThresholdRetriever(opened, threshold)
        )
        return retriever.retrieve(question)


def _sample(documents: Sequence[Document], size: int) -> list[Document]:
    """All documents of some units, the same ones each time."""
    from dpicl_rag.documents import group_by_unit

    units = list(group_by_unit(documents).values())
    chosen = random.Random(0).sample(units, min(size, len(units)))  # noqa: S311
    return [document for unit in chosen for document in unit]
