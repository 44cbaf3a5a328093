"""``audit`` and ``probe-reader``: checks of the guarantee, with a corpus, a model and a reader."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import console, data_folder, option_groups, options
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import NotPrivateWarning

if TYPE_CHECKING:
    from dpicl_rag.auditing import Subject
    from dpicl_rag.documents import Document
    from dpicl_rag.language_models.base import Progress
    from dpicl_rag.retrieval import Search
    from dpicl_rag.retrieval.embeddings import Embedder

_CHOOSING = 0.2  # of the canary's time goes into its choice, about
_QUESTION = "What does the document say?"
_EQUAL = "equal: {} public calls moved no reply (evidence, not proof)"
_MOVED = (
    "not equal: replies to the same public document differ. They follow from other calls (batches, "
    "a history), or they are drawn: set temperature 0 and try again. An answer's guarantee needs "
    "that a reply depends on its own call alone"
)


@console.reported("interrupted; with --out the same command goes on after the last part it ended")
@option_groups.expanded
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
    settings: option_groups.AnswerOptions,
    model: options.Model = None,
    threshold: options.ThresholdOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write a one-page report, text and plot, which grows with each part. An audit "
            "that was stopped goes on from there.",
        ),
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
    config = PrivacyConfig.create(**settings)
    if out is not None:
        optional("matplotlib", "dpicl-rag[plots]")
    with console.status("Reading the documents", quiet=quiet):
        if source is not None:
            from dpicl_rag.loaders import load

            documents = load(source, text_field=text_field).documents
        else:
            assert corpus is not None
            asked = option_groups.Source(corpus, threshold=threshold)
            with data_folder.open_corpus(corpus, path, embedder) as opened:
                documents = _found(data_folder.search_of(opened, asked), question, config)
    if not documents:
        raise ConfigurationError(
            "no document was found for the question; give one that the documents answer with "
            "--question, or a lower --threshold"
        )
    sample, around = _sample(documents, units), _sample(documents, canary_units)
    from dpicl_rag import __version__, auditing
    from dpicl_rag.auditing.audit_report import identity
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.language_models.prefix_cache import PrefixCache

    loading = console.status("Loading the language model", quiet=quiet)
    with console.told(NotPrivateWarning), loading:
        whole = load_language_model(model, PrefixCache(memory=0))
        remembering = auditing.RememberingModel(whole)
        stored = data_folder.load_embedder(embedder)
    reading_anew = auditing.Subject(whole, question, settings)
    # Draws are compared; answers by agreement have an attack of their own.
    drawn = {**reading_anew.settings, "agreement": "off"}
    subject = replace(reading_anew, model=remembering, settings=drawn)

    lengths = {"tokens": tokens, "runs": runs, "canary_tokens": canary_tokens}
    parts = _parts(subject, reading_anew, sample, around, stored, **lengths)
    folder = None if out is None else auditing.AuditFolder(out)
    of = identity(
        [*sample, *around],
        question,
        settings,
        lengths,
        whole.fingerprint,
        stored.fingerprint,
        __version__,
    )
    report = auditing.AuditReport() if folder is None else folder.go_on(of)
    if report.parts:
        console.note(f"going on after {len(report.parts)} of {len(parts)} parts")
    files: list[Path] = []
    try:
        for name, (label, run) in parts.items():
            if getattr(report, name) is None:
                with console.Bar(label, quiet=quiet or not label) as bar:
                    found = run(on_progress=bar.update)
                report = replace(report, **{name: found})
                if folder is not None:
                    files = folder.keep(report, of)
    finally:  # also of an audit that was stopped, what it has
        if report.parts and as_json:
            console.write_json(report.summary())
        elif report.parts:
            console.write_piece(report.text())
    for file in () if as_json else files:
        console.note(f"written: {file}")
    if not report.holds:
        raise typer.Exit(1)


@console.reported()
def probe_reader(
    reader: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="A chat model: chat+http://HOST:PORT/v1#MODEL (its key is in DPICL_RAG_READER_KEY)"
            ".",
        ),
    ],
    calls: Annotated[
        int, typer.Option(min=32, metavar="N", help="Calls at most; whoever pays it pays them.")
    ] = 64,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """See whether a reader's replies change with what else it is asked.

    Made-up public documents are read alone and among others, in other orders. Ends with status 1
    where the same document gets another reply.
    """
    from dpicl_rag.language_models.readers.as_reader import independent
    from dpicl_rag.language_models.readers.chat_endpoint import chat_endpoint

    with console.Bar("Asking the reader", quiet=quiet) as bar:
        equal = independent(chat_endpoint(reader), calls=calls, on_progress=bar.update)
    if as_json:
        console.write_json({"equal": equal, "calls": calls})
    else:
        console.show(_EQUAL.format(calls) if equal else _MOVED)
    if not equal:
        raise typer.Exit(1)


def _parts(
    subject: Subject,
    reading_anew: Subject,
    sample: Sequence[Document],
    around: Sequence[Document],
    embedder: Embedder,
    *,
    tokens: int,
    runs: int,
    canary_tokens: int,
) -> dict[str, tuple[str, Callable[..., Any]]]:
    """Every part of a report, with the label of its bar, in the order in which they are run."""
    from dpicl_rag import auditing

    def canary(on_progress: Progress) -> auditing.CanaryAudit:
        def choosing(done: float, kinds: float | None) -> None:
            on_progress(_CHOOSING * done / (kinds or 1), 1.0)

        def drawing(done: float, of: float | None) -> None:
            on_progress(_CHOOSING + (1 - _CHOOSING) * done / (of or 1), 1.0)

        unit = auditing.worst_canary(subject, around, on_progress=choosing)
        return auditing.audit_canary(
            subject=subject,
            documents=around,
            canary=unit,
            runs=runs,
            tokens=canary_tokens,
            on_progress=drawing,
        )

    return {
        "synthetic": ("Worst-case experts", partial(auditing.audit_synthetic, subject)),
        "agreement": ("Units that collude", partial(auditing.audit_agreement, subject)),
        "near_ties": ("Planted near-ties", partial(auditing.audit_near_ties, reading_anew)),
        "documents": (
            "Neighbours of the sample",
            partial(auditing.audit_neighbours, subject, sample, tokens=tokens),
        ),
        "canary": ("Canary", canary),
        "extraction": ("Extraction", partial(auditing.audit_extraction, subject, sample)),
        # Without a bar: what is printed meanwhile is compared.
        "channels": (
            "",
            lambda on_progress: auditing.audit_channels(reading_anew, sample, embedder=embedder),
        ),
    }


def _found(search: Search, question: str, config: PrivacyConfig) -> list[Document]:
    """The documents of an audit, the same each time, so that it can go on."""
    from dpicl_rag.accounting import epsilon_to_rho
    from dpicl_rag.mechanisms.randomness import Randomness

    rho = epsilon_to_rho(config.epsilon, config.delta)
    priced = search.within(rho, config.adjacency)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # nothing is released
        coins = Randomness.of(0)
    return priced.search(question).choose(randomness=coins).documents


def _sample(documents: Sequence[Document], size: int) -> list[Document]:
    """All documents of some units, the same ones each time."""
    from dpicl_rag.documents import group_by_unit

    units = list(group_by_unit(documents).values())
    chosen = random.Random(0).sample(units, min(size, len(units)))  # noqa: S311
    return [document for unit in chosen for document in unit]
