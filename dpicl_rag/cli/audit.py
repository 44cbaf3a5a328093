"""``audit``: does the guarantee hold on this corpus, with this model and these settings?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import console, options, stores
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import NotPrivateWarning

if TYPE_CHECKING:
    from dpicl_rag.documents import Document
    from dpicl_rag.retrieval import Retriever

T = TypeVar("T")

_QUESTION = "What does the document say?"


@console.reported("interrupted; an audit changes nothing, run it again")
@options.expanded
def audit(
    context: typer.Context,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]",
            help="Documents to audit with, as for ingest; or give --corpus, to audit with what it "
            "has for the question.",
        ),
    ] = None,
    corpus: options.AnyCorpus = None,
    question: options.QuestionOption = _QUESTION,
    text_field: options.TextField = None,
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
    *,
    settings: options.AnswerSettings,
    model: options.Model = None,
    threshold: options.Threshold = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a one-page report, text and plot.")
    ] = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare neighbours, exactly and by what is told beside the answer; attack. Nothing is spent.

    What it prints comes from the documents without noise: it is for their owner.
    """
    if (source is None) == (corpus is None):
        raise typer.BadParameter("give a path or --corpus, one of them", param_hint="PATH")
    for name in ("threshold", "path", "embedder") if corpus is None else ():
        given = context.get_parameter_source(name)
        if given is not None and given.name == "COMMANDLINE":  # a store may be in the environment
            raise typer.BadParameter("it goes only with --corpus", param_hint=f"--{name}")
    config = PrivacyConfig.create(**asdict(settings))
    if out is not None:
        optional("matplotlib", "eval")
    with console.status("Reading the documents", quiet=quiet):
        if source is not None:
            from dpicl_rag.loaders import load

            documents = load(source, text_field=text_field).documents
        else:
            assert corpus is not None
            asked = options.Source(corpus, threshold=threshold, path=path, embedder=embedder)
            with stores.open_retriever(asked) as retriever:
                documents = _priced(retriever, config).search(question).choose().documents
    if not documents:
        raise ConfigurationError(
            "no document was found for the question; give one that the documents answer with "
            "--question, or a lower --threshold"
        )
    sample, around = _sample(documents, units), _sample(documents, canary_units)
    from dpicl_rag import auditing
    from dpicl_rag.language_models.load import load_language_model
    from dpicl_rag.language_models.prefix_cache import PrefixCache

    loading = console.status("Loading the language model", quiet=quiet)
    with console.told(NotPrivateWarning), loading:
        whole = load_language_model(model, PrefixCache(memory=0))
        remembering = auditing.RememberingModel(whole)
        stored = stores.load_embedder(embedder)
    subject = auditing.Subject(remembering, question, asdict(settings))
    reading_anew = replace(subject, model=whole)

    def part(label: str, run: Callable[..., T], *given: Any, **numbers: int) -> T:
        with console.Bar(label, quiet=quiet) as bar:
            return run(*given, **numbers, on_progress=bar.update)

    synthetic = part("Worst-case experts", auditing.audit_synthetic, subject)
    ties = part("Planted near-ties", auditing.audit_near_ties, reading_anew)
    neighbours = part(
        "Neighbours of the sample", auditing.audit_neighbours, subject, sample, tokens=tokens
    )
    unit = part("Choosing a canary", auditing.worst_canary, subject, around)
    canary = part(
        "Canary", auditing.audit_canary, subject, around, unit, runs=runs, tokens=canary_tokens
    )
    extraction = part("Extraction", auditing.audit_extraction, subject, sample)
    # Without a bar: what is printed meanwhile is compared.
    channels = auditing.audit_channels(reading_anew, sample, embedder=stored)
    report = auditing.AuditReport(neighbours, synthetic, canary, extraction, channels, ties)
    files = report.save(out) if out is not None else []
    if as_json:
        console.write_json(report.summary())
    else:
        console.write_piece(report.text())
        for file in files:
            console.note(f"written: {file}")
    if not report.holds:
        raise typer.Exit(1)


def _priced(retriever: Retriever, config: PrivacyConfig) -> Retriever:
    """The search with the noise that it has in an answer."""
    from dpicl_rag.accounting import epsilon_to_rho
    from dpicl_rag.retrieval.base import Priced

    if not isinstance(retriever, Priced):
        return retriever
    return retriever.within(epsilon_to_rho(config.epsilon, config.delta), config.adjacency)


def _sample(documents: Sequence[Document], size: int) -> list[Document]:
    """All documents of some units, the same ones each time."""
    from dpicl_rag.documents import group_by_unit

    units = list(group_by_unit(documents).values())
    chosen = random.Random(0).sample(units, min(size, len(units)))  # noqa: S311
    return [document for unit in chosen for document in unit]
