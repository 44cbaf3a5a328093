"""``ask``: private answers from documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from dpicl_rag.cli import console, data_folder, option_groups, options
from dpicl_rag.cli.asking import (
    asked_model,
    opened_corpus,
    planning_model,
    print_booked,
    print_plan,
    tell_calls,
    tell_toy,
)
from dpicl_rag.cli.model_commands import chosen_model
from dpicl_rag.cli.tally import ask_units, print_plan_of_numbers
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError, EngineUnavailableError
from dpicl_rag.requests import Kind, Request
from dpicl_rag.results import UNSUPPORTED, cost_of

if TYPE_CHECKING:
    from dpicl_rag.answering.plan import Plan
    from dpicl_rag.answering.private_stream import PrivateStream
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.knowledge import Bundle, PublishedItem
    from dpicl_rag.results import PrivateAnswer
    from dpicl_rag.retrieval.search import Search
    from dpicl_rag.stores.chroma import ChromaCollection

_RELEASED = "interrupted; what was released is paid for"
_INSIST = "--kind answer asks for a fact instead"
_CHOSEN: Mapping[Kind, str] = {
    "answer": "answer: a fact that many units state",
    "count": f"count: how many units say so, each asked by itself; {_INSIST}",
    "tally": f"tally: how many units say each of these; {_INSIST}",
    "survey": f"survey: what units are about, and how many; {_INSIST}",
    "summary": f"summary: the largest themes, and what many of their units say; {_INSIST}",
    "person": f"about one person: no document is asked, and it is free; {_INSIST}",
}
"""What is done with a question of each kind."""

_SMALL_TALK = (
    "small talk: the language model replies by itself, no document is asked, and it is free"
)
_UNSUPPORTED = "not supported by the documents: what the model says by itself. "


@console.reported(_RELEASED)
@option_groups.expanded
def ask(
    question: options.QuestionArgument,
    source: option_groups.AskedSource,
    settings: option_groups.AnswerOptions,
    answering: option_groups.Answering,
    reading: option_groups.ReadingOptions,
    asking: option_groups.AskingOptions,
    kind: Annotated[
        Literal["answer", "count", "tally", "survey"] | None,
        typer.Option(
            "--kind",
            help="What to do: answer with a fact, count who says so, tally the labels that the "
            "question names, or survey what units are about. Told from the question by default.",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print what is done, and what it may cost, by part; ask nothing."
        ),
    ] = False,
    published: options.Published = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Answer any question from a corpus, and say what the answer spent.

    Ask what many units state, how many say something, which of several, or what they are about:
    docs/questions.md says what works, and how many must agree.

    Answers that the documents support are remembered, for the one who asked (or, with --shared,
    for all). The same question again costs nothing, and a similar one less.

    A synthetic corpus was paid for when it was written: its answers are ordinary ones and free.
    """
    with ExitStack() as stack:
        if not question.strip():
            raise ConfigurationError("the question is empty")
        request = Request.of(kind, question=question, **asking).settled()
        bundle = data_folder.open_bundle(published, source.embedder)
        records, lacks = None, ""
        if bundle is not None and not (plan or asking.get("fresh")):
            from dpicl_rag.surveys.remembered_counts import published_item

            if (item := published_item(bundle, request)) is not None:
                _print_published(question, item, bundle, as_json=as_json)
                return
            lacks = f"{published} does not have this; "
            if source.corpus:
                console.note(f"{published}: does not have this; the documents are asked")
            elif request.kind == "answer":
                records = _synthetic_records(question, bundle, source)
        if records is None and not source.corpus:
            raise typer.BadParameter(f"{lacks}name the corpus that is asked", param_hint="--corpus")
        if records is None:
            opened = stack.enter_context(opened_corpus(source, quiet))
            records = _synthetic_records(question, opened, source)
        asks = answering.reader is None and not (plan or as_json or quiet)
        answering = replace(answering, model=chosen_model(answering.model, asks=asks))
        if records is not None:
            _ask_synthetic(question, *records, settings, answering, as_json, quiet)
            return
        from dpicl_rag.languages.small_talk import is_small_talk

        config = PrivacyConfig.create(**settings, **reading)
        if request.kind in ("count", "tally", "survey", "summary"):
            _ask_units(request, opened, source, config, answering, plan, as_json, quiet)
            return
        if is_small_talk(question):
            console.note(_SMALL_TALK)
        elif not as_json and (plan or request.kind == "person"):
            console.note(_CHOSEN[request.kind or "answer"])
        search = data_folder.search_of(opened, source)
        if plan:
            _print_plan(request, opened.name, search, source, config, answering, as_json=as_json)
            return
        if request.kind == "person":
            with planning_model(config, answering.reader, opened.name, answering) as free:
                reply = cast("PrivateAnswer", free.run(request, search))
            if as_json:
                console.write_json(_answer_as_dict(reply))
            else:
                console.show(reply.text)
            return
        model = asked_model(opened, source, config, answering, quiet, bundle=bundle)
        llm = stack.enter_context(model)
        if answering.reader is not None:
            tell_calls(search.aim, config.max_calls)
        from dpicl_rag.answering.plan import FewUnitsWarning
        from dpicl_rag.knowledge import NotRememberedWarning

        told = console.told(FewUnitsWarning, NotRememberedWarning)
        with told, console.Bar("Reading the documents", quiet=quiet) as bar:
            with console.status("Searching the corpus", quiet=quiet):
                stream = llm.begin(request, search, on_progress=bar.update)
            with stream:
                _drain(stream, bar, answering.prefix, silent=as_json)
        answer = stream.answer
        asked = Request.of("answer", question=answer.question)
        cost = llm.plan(search, asked) if answer.supported is False else None
        if as_json:
            console.write_json(_answer_as_dict(answer))
        else:
            _print_answer(answer, cost)
            if not answer.from_memory:
                end = f"; {answer.tokens} tokens, stopped by {answer.stopped_by}"
                print_booked(answer, llm, answering, end)
    if answer.stopped_by == "unavailable":
        raise EngineUnavailableError


def _print_answer(answer: PrivateAnswer, cost: Plan[Any] | None) -> None:
    """What stands below the text of an answer: where it is from, and what would help."""
    if answer.released is not None:
        console.show(f"released: {answer.released}", style="dim")
    _print_grounds(answer)
    if cost is not None:
        own = "" if answer.text == UNSUPPORTED else _UNSUPPORTED
        console.show(f"{own}{_what_would_help(cost)}", style="yellow")


def _answer_as_dict(answer: PrivateAnswer) -> dict[str, Any]:
    names = ("tokens", "stopped_by", "supported", "from_memory", "recalled", "by", "agreeing")
    beside = {name: getattr(answer, name) for name in (*names, "agreeing_within")}
    told = {"kind": answer.kind, "answer": answer.text, **cost_of(answer), **beside}
    return {**told, "parts": answer.parts_as_dicts(), "released": answer.released}


def _ask_units(
    request: Request,
    opened: Corpus | ChromaCollection,
    source: option_groups.Source,
    config: PrivacyConfig,
    answering: option_groups.Answering,
    plan: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Count, tally, survey or summarise, as the question asks; with the options of an answer."""
    for name in ("units", "top_k", "private_top_k"):
        if getattr(source, name) is not None:
            raise ConfigurationError(
                f"a {request.kind} is of all units; leave --{name.replace('_', '-')} out, or take "
                "--kind answer"
            )
    fields: dict[str, Any] = {"sample": source.sample}
    if request.kind == "survey":
        fields |= {"threshold": source.threshold}
        fields |= {"by": None if answering.reader is None else "model"}
    given = {name: one for name, one in fields.items() if one is not None}
    words, given = request.words, {**request.model_dump(exclude_unset=True), **given}
    request = Request.of(**given).asked_as(words)
    kind = request.kind or "answer"
    if not as_json:
        console.note(_CHOSEN[kind])
    told = {"kind": kind}
    if plan and kind == "summary":
        _print_plan(request, opened.name, opened, source, config, answering, as_json=as_json)
        return
    if plan:
        print_plan_of_numbers(
            request, config, answering.reader, opened.name, answering, kind=told, as_json=as_json
        )
        return
    reader = answering.reader if kind in ("survey", "summary") else None
    asked = partial(ask_units, request, opened, source, config, answering)
    asked(reader=reader, kind=told, as_json=as_json, quiet=quiet)


def _what_would_help(plan: Plan[Any]) -> str:
    """One sentence of public numbers, for an answer that documents do not support."""
    at, needed = f"at epsilon {plan.epsilon:g}", plan.units_to_agree
    many = f"{at} many" if needed is None else f"{at} about {needed}"
    return (
        f"For an answer {many} units must state the same: ask for one fact that many state, raise "
        "--epsilon, or add documents (docs/questions.md); count, tally and survey give numbers"
    )


def _print_plan(
    request: Request,
    name: str,
    documents: Search | Corpus | ChromaCollection,
    source: option_groups.Source,
    config: PrivacyConfig,
    answering: option_groups.Answering,
    *,
    as_json: bool,
) -> None:
    """The price of an answer or a summary, by part."""
    from dpicl_rag.knowledge.public_knowledge import PublicDocuments

    for public in answering.public or ():
        with data_folder.open_corpus(public, source.path, source.embedder) as corpus:
            PublicDocuments(corpus)  # refuses a private one
    with planning_model(config, answering.reader, name, answering) as llm:
        numbers = {"kind": request.kind} if as_json else None
        print_plan(llm.plan(documents, request), as_json=as_json, kind=numbers)


def _synthetic_records(
    question: str, place: Bundle | Corpus | ChromaCollection, source: option_groups.Source
) -> tuple[Sequence[str], Mapping[str, Any]] | None:
    """Synthetic records near to a question, and what they cost once; None where there are none."""
    from dpicl_rag.knowledge import Bundle

    made = place.records if isinstance(place, Bundle) else place.synthetic
    if made is None:
        return None
    from dpicl_rag.synthesis.public_records import RECORDS, nearest_records

    most = source.top_k or source.units or RECORDS
    cost = {"epsilon": made.epsilon, "delta": made.delta}
    if isinstance(place, Bundle):
        return place.records_near(question, most), cost
    assert place.synthetic is not None
    return nearest_records(place, question, most), {**cost, "run": place.synthetic.run}


def _ask_synthetic(
    question: str,
    records: Sequence[str],
    cost: Mapping[str, Any],
    settings: option_groups.AnswerOptions,
    answering: option_groups.Answering,
    as_json: bool,
    quiet: bool,
) -> None:
    """Answer by ordinary RAG: nothing is charged, remembered or drawn."""
    from dpicl_rag.answering.prompt_rows import greedy_answer
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.prompts import PromptTemplate

    with data_folder.spread_model(answering.model, answering.workers) as named:
        with console.status("Loading the language model", quiet=quiet):
            model = load_language_model(named)
        tell_toy(model)
        with console.status("Reading the synthetic records", quiet=quiet):
            most = PrivacyConfig.create(**settings).max_tokens
            template = PromptTemplate(answer_prefix=answering.prefix)
            text = greedy_answer(model, template, question, records, max_tokens=most)
    if as_json:
        free = {"epsilon": 0.0, "delta": 0.0, "rho": 0.0}
        console.write_json({"answer": text, **free, "synthetic": dict(cost)})
        return
    console.show(text)
    line = (
        f"from synthetic records, written once for epsilon {cost['epsilon']:g}, delta "
        f"{cost['delta']:g}: an ordinary answer, at no cost"
    )
    console.show(line, style="dim")


def _print_published(question: str, item: PublishedItem, bundle: Bundle, *, as_json: bool) -> None:
    """An answer that was bought with a bundle."""
    if as_json:
        free = {"epsilon": 0.0, "delta": 0.0, "rho": 0.0}
        found = {"question": item.asked, "kind": item.kind, "numbers": item.numbers}
        end = {"by": "published", "supported": item.supported, "published": bundle.published}
        console.write_json({"answer": item.text, **free, **end, **found})
        return
    console.show(item.text)
    asked = "" if item.asked == question else f", where it was asked as: {item.asked}"
    line = f"published on {bundle.published}{asked}; it costs nothing; --fresh asks the documents"
    console.show(line, style="dim")


def _print_grounds(answer: PrivateAnswer) -> None:
    """One line on what an answer stands on: memory, units that agree, or public knowledge."""
    if answer.from_memory:
        line = "from memory: answered before, so it costs nothing; --fresh asks the documents again"
    elif answer.agreeing is not None:
        many = f"about {answer.agreeing} (\u00b1{answer.agreeing_within})"
        line = f"{many} units say so, each by itself"
    elif answer.recalled:
        texts = "public text" if answer.recalled == 1 else "public texts"
        line = f"informed by {answer.recalled} {texts}, such as earlier answers, at no cost"
    else:
        return
    console.show(line, style="dim")


def _drain(stream: PrivateStream, bar: console.Bar, prefix: str, *, silent: bool) -> None:
    """Read a stream to its end and print its pieces as they come, unless ``silent``."""
    waiting, begun = "", False
    for piece in stream:
        waiting += piece
        # The prefix comes before the documents are read: shown now, the bar would cut through it.
        if silent or waiting == prefix:
            continue
        bar.stop()
        text = waiting if begun else waiting.lstrip()
        console.write_piece(text)
        waiting, begun = "", begun or bool(text)
    bar.stop()
    if not silent:
        console.write_piece(f"{waiting}\n")
