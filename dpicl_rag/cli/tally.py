"""``count``, ``tally`` and ``survey``: numbers from all units of a corpus, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl_rag.cli import console, option_groups, options
from dpicl_rag.cli.asking import (
    asked_model,
    opened_corpus,
    planning_model,
    print_booked,
    tell_calls,
)
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.requests import Request

if TYPE_CHECKING:
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.results import Estimate
    from dpicl_rag.stores.chroma import ChromaCollection
    from dpicl_rag.surveys.survey_results import (
        PrivateCount,
        PrivateSummary,
        PrivateSurvey,
        PrivateTally,
    )

    Numbers = PrivateCount | PrivateTally | PrivateSurvey | PrivateSummary

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
    settings: option_groups.SettingOptions,
    answering: option_groups.Answering,
    reading: option_groups.MaxCallsOptions,
    asking: option_groups.CountingOptions,
    plan: PlanOption = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Count the units of a corpus that say yes to a question.

    A noisy count with an interval that holds the true one 95 times in 100, of noise and of what the
    model misreads, by its rehearsal. A model that cannot count is refused.
    """
    config = PrivacyConfig.create(**settings, **reading)
    request = Request.of("count", question=question, **asking)
    if plan:
        print_plan_of_numbers(
            request, config, answering.reader, units.corpus, answering, as_json=as_json
        )
        return
    with opened_corpus(units, quiet) as opened:
        ask_units(request, opened, units, config, answering, as_json=as_json, quiet=quiet)


@console.reported(_RELEASED)
@option_groups.expanded
def tally(
    question: options.QuestionArgument,
    label: options.Labels,
    units: option_groups.Units,
    *,
    settings: option_groups.SettingOptions,
    answering: option_groups.Answering,
    reading: option_groups.MaxCallsOptions,
    asking: option_groups.TallyingOptions,
    plan: PlanOption = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Count the units of a corpus that say each of several labels.

    Noisy counts with intervals, as of `count`; a model that cannot is refused. Choose
    labels without looking at the documents.
    """
    request = Request.of("tally", question=question, labels=label, **asking)
    options.at_least_two(label)
    if request.most > len(label):
        raise typer.BadParameter("more labels a unit than labels", param_hint="--most")
    if len(set(label)) < len(label):
        raise typer.BadParameter("a label stands there twice", param_hint="--label")
    by_vectors = request.read_by == "vectors"
    config = PrivacyConfig.create(**settings, **({} if by_vectors else reading))
    if plan:
        reader = None if by_vectors else answering.reader
        print_plan_of_numbers(request, config, reader, units.corpus, answering, as_json=as_json)
        return
    with opened_corpus(units, quiet) as opened:
        ask_units(request, opened, units, config, answering, as_json=as_json, quiet=quiet)


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
    reader: options.SurveyReader = None,
    reading: option_groups.MaxCallsOptions,
    settings: option_groups.SurveySettingOptions,
    asking: option_groups.SurveyingOptions,
    paying: option_groups.Paying,
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
    from dpicl_rag.surveys.vocabulary import words_of_file

    config = PrivacyConfig.create(**settings, **reading)
    config.require_reader(reader)
    request = Request.of(
        "survey",
        question=question,
        vocabulary=None if vocabulary is None else words_of_file(vocabulary),
        threshold=units.threshold,
        by="vectors" if reader is None else "model",
        **asking,
    )
    if plan:
        print_plan_of_numbers(request, config, reader, units.corpus, paying, as_json=as_json)
        return
    with opened_corpus(units, quiet) as opened:
        asked = partial(ask_units, request, opened, units, config, paying, reader=reader)
        asked(as_json=as_json, quiet=quiet)


def ask_units(
    request: Request,
    opened: Corpus | ChromaCollection,
    place: option_groups.Units | option_groups.Source,
    config: PrivacyConfig,
    paying: option_groups.Paying,
    *,
    reader: str | None = None,
    kind: Mapping[str, str] | None = None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Count, tally, survey or summarise, and print what comes of it."""
    survey, by_vectors = request.kind == "survey", request.read_by == "vectors"
    if by_vectors and not survey and place.threshold is not None:
        raise ConfigurationError("vectors of all units are read; leave --threshold out")
    reads = request.says_nothing_of_how and reader is None  # a model that can be silent
    if isinstance(paying, option_groups.Answering) and (by_vectors or survey) and not reads:
        paying = paying.paying()
    whole = by_vectors or request.kind in ("survey", "summary")
    documents: Any = opened
    if not whole and place.threshold is not None:
        from dpicl_rag.retrieval import ThresholdRetriever

        documents = ThresholdRetriever(opened, place.threshold)
    with ExitStack() as stack:
        model = asked_model(opened, place, config, paying, quiet, reader=reader)
        llm = stack.enter_context(model)
        found: Any
        if by_vectors and not reads:
            with console.status("Counting", quiet=quiet):
                found = llm.run(request, documents)
        else:
            if llm.reader is not None:
                tell_calls(None, llm.config.max_calls)
            with console.Bar("Reading the documents", quiet=quiet) as bar:
                found = llm.run(request, documents, on_progress=bar.update)
        if as_json:
            console.write_json({**(kind or {}), **found.as_dict()})
            return
        _print_numbers(found)
        if found.from_memory:
            note = "from memory: counted before, so it costs nothing; --fresh counts again"
            console.show(note, style="dim")
        else:
            print_booked(found, llm, paying)


def _print_numbers(found: Numbers) -> None:
    """A sentence, or bars and what they leave out."""
    from dpicl_rag.surveys.survey_results import (
        LISTED,
        PrivateCount,
        PrivateSummary,
        PrivateTally,
    )

    screen = console.stdout()
    if isinstance(found, PrivateCount):
        screen.print(found.text, soft_wrap=True)
    elif isinstance(found, PrivateTally):
        _print_bars(found.counts)
        for note in found.notes:
            screen.print(note, style="yellow", soft_wrap=True)
    elif isinstance(found, PrivateSummary):
        screen.print(console.printable(found.text), soft_wrap=True)
        _print_bars({**{one.title: one.units for one in found.themes}, "others": found.others})
    else:
        listed = {one.name: one.units for one in found.themes[:LISTED]}
        _print_bars({**listed, "others": found.others})
        if (smaller := len(found.themes) - LISTED) > 0:
            screen.print(f"and {smaller} smaller themes; --json has all", style="dim")
        for note in found.notes:
            screen.print(note, style="dim", soft_wrap=True)


def _print_bars(counts: Mapping[str, Estimate]) -> None:
    """A bar for each label, the longest first, with its interval in figures."""
    from rich.table import Table

    longest = max(1, *(one.units for one in counts.values()))
    table = Table.grid(padding=(0, 1))
    for name, one in sorted(counts.items(), key=lambda item: -item[1].units):
        bar = "\u2588" * round(_BAR * one.units / longest)
        table.add_row(console.printable(name), bar, str(one))
    console.stdout().print(table)


def print_plan_of_numbers(
    request: Request,
    config: PrivacyConfig,
    reader: str | None,
    name: str,
    paying: option_groups.Paying,
    *,
    kind: Mapping[str, str] | None = None,
    as_json: bool,
) -> None:
    """The width of the intervals, or the size of the smallest theme, and their price."""
    from dpicl_rag.answering.labels import most_label_tokens
    from dpicl_rag.results import within

    with planning_model(config, reader, name, paying) as llm:
        plan = llm.plan((), request)
    cost = f"epsilon {plan.epsilon:g}, delta {plan.delta:g}, rho {plan.rho:.4g}"
    sample = request.sample
    if request.kind == "survey":
        smallest = plan.mechanism.smallest(sample)
        numbers = {"smallest": smallest, "rho": plan.rho}
        sentence = f"themes of fewer than about {smallest} units will not be seen; a survey costs "
        sentence += cost
    else:
        near, many = within(plan.mechanism.noise), len(request.labels)
        numbers = {"within": near, "sample": sample, "rho": plan.rho}
        if many:
            numbers["label_tokens"] = most_label_tokens()
        of_sample = "" if sample == 1 else f" in the sample, which is scaled by {1 / sample:g}"
        most = f"; its labels have {most_label_tokens():,} tokens at most" if many else ""
        sentence = (
            f"noise moves each count by {near:,} at most, 95 times in 100{of_sample}; it costs "
            f"{cost}{most}"
        )
    if as_json:
        console.write_json({**(kind or {}), **numbers})
    else:
        console.show(sentence)
