"""``count``, ``tally`` and ``survey``: numbers from all units of a corpus, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag import _validate
from dpicl_rag.cli import console, option_groups, options
from dpicl_rag.cli.asking import (
    asked_model,
    counting,
    opened_corpus,
    opened_reader,
    print_spent,
    tell_calls,
)
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError

if TYPE_CHECKING:
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.stores.chroma import ChromaCollection
    from dpicl_rag.surveys.estimate import Estimate
    from dpicl_rag.surveys.survey_results import PrivateCount, PrivateSurvey, PrivateTally

_RELEASED = "interrupted; a count that was drawn is paid for"
_BAR = 30  # characters of the longest bar

PlanOption = Annotated[
    bool,
    typer.Option("--plan", help="Print how wide the intervals will be, and ask nothing."),
]


@console.reported(_RELEASED)
@option_groups.expanded
def count(
    question: options.QuestionArgument,
    units: option_groups.Units,
    settings: option_groups.Settings,
    answering: option_groups.Answering,
    fresh: options.FreshOption = False,
    plan: PlanOption = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Count the units of a corpus that say yes to a question.

    A noisy count with an interval that holds the true one 95 times in 100. It covers noise, and not
    what the model misreads.
    """
    if plan:
        _print_plan(settings, answering, 1, 1, units.sample, as_json=as_json)
        return
    with ExitStack() as stack:
        opened = stack.enter_context(opened_corpus(units, quiet))
        documents = _documents(opened, units)
        llm = stack.enter_context(asked_model(opened, units, settings, answering, quiet))
        if answering.reader is not None:
            tell_calls(None, answering.max_calls)
        bar = stack.enter_context(console.Bar("Reading the documents", quiet=quiet))
        found = llm.count(
            question, documents, sample=units.sample, fresh=fresh, on_progress=bar.update
        )
    if as_json:
        console.write_json(found.as_dict())
        return
    console.stdout().print(found.text, soft_wrap=True)
    _print_cost(found, answering)


@console.reported(_RELEASED)
@option_groups.expanded
def tally(
    question: options.QuestionArgument,
    label: Annotated[
        list[str], typer.Option("--label", help="One of the labels; give it twice or more.")
    ],
    units: option_groups.Units,
    *,
    settings: option_groups.Settings,
    answering: option_groups.Answering,
    most: Annotated[
        int, typer.Option(min=1, metavar="N", help="Labels that one unit says at most.")
    ] = 1,
    by: Annotated[
        Literal["model", "vectors"],
        typer.Option(
            help="What reads the units: the language model, or the vectors that the corpus stores, "
            "which tell subjects apart and take no time."
        ),
    ] = "model",
    fresh: options.FreshOption = False,
    plan: PlanOption = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Count the units of a corpus that say each of several labels.

    Noisy counts with intervals, as of `count`. Choose labels without looking at the documents.
    """
    if len(label) < 2:
        raise typer.BadParameter("give at least two labels", param_hint="--label")
    if most > len(label):
        raise typer.BadParameter("more labels a unit than labels", param_hint="--most")
    if len(set(label)) < len(label):
        raise typer.BadParameter("a label stands there twice", param_hint="--label")
    from dpicl_rag.surveys.vector_tally import tally_by_vectors

    if plan:
        read = option_groups.Answering() if by == "vectors" else answering
        _print_plan(settings, read, len(label), most, units.sample, as_json=as_json)
        return
    with ExitStack() as stack:
        opened = stack.enter_context(opened_corpus(units, quiet))
        if by == "vectors":
            if units.threshold is not None:
                raise ConfigurationError("vectors of all units are read; leave --threshold out")
            config = PrivacyConfig.create(**settings.made())
            counts = stack.enter_context(counting(opened, units, config, answering, fresh=fresh))
            found = tally_by_vectors(
                question, label, opened, counts, most=most, sample=units.sample
            )
        else:
            documents = _documents(opened, units)
            llm = stack.enter_context(asked_model(opened, units, settings, answering, quiet))
            if answering.reader is not None:
                tell_calls(None, answering.max_calls)
            bar = stack.enter_context(console.Bar("Reading the documents", quiet=quiet))
            found = llm.tally(
                question,
                label,
                documents,
                most=most,
                sample=units.sample,
                fresh=fresh,
                on_progress=bar.update,
            )
    if as_json:
        console.write_json(found.as_dict())
        return
    _print_bars(found.counts)
    if not found.complete:
        console.stdout().print(found.text.splitlines()[-1], style="yellow", soft_wrap=True)
    _print_cost(found, answering)


@console.reported(_RELEASED)
@option_groups.expanded
def survey(
    units: option_groups.Units,
    *,
    question: Annotated[
        str | None,
        typer.Option(help="What each unit is asked; public. Whole units are surveyed by default."),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Public words or phrases that units vote for, one on each line; by default 1,000 "
            "English words.",
        ),
    ] = None,
    votes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Words that one unit votes for.")
    ] = 3,
    reader: options.SurveyReader = None,
    max_calls: options.MaxCalls = None,
    epsilon: options.Epsilon = options.EPSILON,
    delta: options.Delta = options.DELTA,
    paying: option_groups.Paying,
    fresh: options.FreshOption = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print how small a theme can be seen, and ask nothing.")
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Survey a corpus: what its units are about, and how many are of each theme.

    By the vectors that the corpus stores: no language model reads anything, but for a reader, by
    whose phrases units vote instead.
    """
    from dpicl_rag.surveys.survey_plan import survey_plan
    from dpicl_rag.surveys.survey_results import LISTED
    from dpicl_rag.surveys.surveying import survey_documents
    from dpicl_rag.surveys.vocabulary import packaged_words, words_of_file

    config = PrivacyConfig.create(epsilon=epsilon, delta=delta, max_calls=max_calls)
    config.require_reader(reader)
    words = packaged_words() if vocabulary is None else words_of_file(vocabulary)
    planned = survey_plan(config, len(words), votes)
    smallest = planned.smallest(_validate.rate("sample", units.sample))
    if plan:
        if as_json:
            console.write_json({"smallest": smallest, "rho": planned.rho})
            return
        console.stdout().print(
            f"themes of fewer than about {smallest} units will not be seen; a survey costs "
            f"epsilon {epsilon:g}, delta {delta:g}, rho {planned.rho:.4g}",
            soft_wrap=True,
        )
        return
    with ExitStack() as stack:
        opened = stack.enter_context(opened_corpus(units, quiet))
        counts = stack.enter_context(counting(opened, units, config, paying, fresh=fresh))
        reads = stack.enter_context(opened_reader(reader, opened, units))
        if reads is None:
            stack.enter_context(console.status("Counting words", quiet=quiet))
            told = None
        else:
            tell_calls(None, max_calls)
            told = stack.enter_context(console.Bar("Reading the documents", quiet=quiet)).update
        found = survey_documents(
            question,
            opened,
            counts,
            vocabulary=words,
            votes=votes,
            threshold=units.threshold,
            sample=units.sample,
            reader=reads,
            on_progress=told,
        )
    if as_json:
        console.write_json(found.as_dict())
        return
    listed = {one.name: one.units for one in found.themes[:LISTED]}
    _print_bars({**listed, "others": found.others})
    if (smaller := len(found.themes) - LISTED) > 0:
        console.stdout().print(f"and {smaller} smaller themes; --json has all", style="dim")
    console.stdout().print(
        f"themes of fewer than about {found.smallest} units are not seen", style="dim"
    )
    _print_cost(found, paying)


def _documents(opened: Corpus | ChromaCollection, units: option_groups.Units) -> Any:
    """All units, or those near enough to the question."""
    if units.threshold is None:
        return opened
    from dpicl_rag.retrieval import ThresholdRetriever

    return ThresholdRetriever(opened, units.threshold)


def _print_cost(
    found: PrivateCount | PrivateTally | PrivateSurvey, paying: option_groups.Paying
) -> None:
    """What it spent, or that it was counted before."""
    if found.from_memory:
        note = "from memory: counted before, so it costs nothing; --fresh counts again"
        console.stdout().print(note, style="dim", soft_wrap=True)
    else:
        print_spent(found, recorded=not paying.no_ledger)


def _print_bars(counts: Mapping[str, Estimate]) -> None:
    """A bar for each label, the longest first, with its interval in figures."""
    from rich.table import Table

    longest = max(1, *(one.units for one in counts.values()))
    table = Table.grid(padding=(0, 1))
    for name, one in sorted(counts.items(), key=lambda item: -item[1].units):
        bar = "\u2588" * round(_BAR * one.units / longest)
        table.add_row(console.printable(name), bar, str(one))
    console.stdout().print(table)


def _print_plan(
    settings: option_groups.Settings,
    answering: option_groups.Answering,
    labels: int,
    most: int,
    sample: float,
    *,
    as_json: bool,
) -> None:
    """How wide an interval will be. No model is loaded, nothing is searched, nothing is paid."""
    from dpicl_rag.answering.label_reading import most_label_tokens
    from dpicl_rag.surveys.estimate import within
    from dpicl_rag.surveys.tally_plan import planned_tally

    config = PrivacyConfig.create(**settings.made(), max_calls=answering.max_calls)
    config.require_reader(answering.reader)
    read = answering.reader is not None
    planned = planned_tally(config, labels, most, sample=sample, read=read)
    near = within(planned.mechanism.noise)
    if as_json:
        numbers = {"within": near, "sample": sample, "rho": planned.rho}
        if labels > 1:
            numbers["label_tokens"] = most_label_tokens()
        console.write_json(numbers)
        return
    of_sample = "" if sample == 1 else f" in the sample, which is scaled by {1 / sample:g}"
    of_labels = "" if labels == 1 else f"; its labels have {most_label_tokens():,} tokens at most"
    console.stdout().print(
        f"each count is within {near:,} of the true one, 95 times in 100{of_sample}; it costs "
        f"epsilon {config.epsilon:g}, delta {config.delta:g}, rho {planned.rho:.4g}{of_labels}",
        soft_wrap=True,
    )
