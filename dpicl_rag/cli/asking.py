"""A question on the command line: its corpus, its model, its ledger and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from dpicl_rag.cli import console, data_folder, file_budgets, option_groups
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.randomness import NotPrivateWarning

if TYPE_CHECKING:
    from dpicl_rag.accounting.prices import PricedPlan
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.knowledge import AnswerMemory, Bundle
    from dpicl_rag.language_models.base import LanguageModel
    from dpicl_rag.language_models.readers.base import Reader
    from dpicl_rag.private_context_llm import PrivateContextLLM
    from dpicl_rag.results import Paid
    from dpicl_rag.stores.chroma import ChromaCollection

TOY = (
    "toy model: the default is for trying the library; for real use give --model small, medium or "
    "large, or a model of your own"
)
_UNLIMITED = (
    "no budget is set, so nothing bounds all answers together; dpicl-rag budget set sets one"
)
_NEVER_ASKED = (
    "this model was not asked here before: of one that can say nothing fewer documents are enough"
)
_SENT = "each unit that is found is sent to the reader in a call of its own"


@contextmanager
def opened_corpus(source: option_groups.Place, quiet: bool) -> Iterator[Corpus | ChromaCollection]:
    """The corpus that is asked."""
    with ExitStack() as stack:
        with console.status("Opening the corpus", quiet=quiet):
            found = data_folder.open_corpus(source.corpus, source.path, source.embedder)
            opened = stack.enter_context(found)
        yield opened


@contextmanager
def asked_model(
    opened: Corpus | ChromaCollection,
    source: option_groups.Place,
    config: PrivacyConfig,
    paying: option_groups.Paying,
    quiet: bool,
    *,
    reader: str | None = None,
    bundle: Bundle | None = None,
) -> Iterator[PrivateContextLLM]:
    """The model that is asked, with its ledger and memory; a survey by vectors loads none."""
    from dpicl_rag.language_models.prefix_cache import ReadAnewWarning
    from dpicl_rag.language_models.readers.no_writer import UnloadedModel
    from dpicl_rag.prompts import PromptTemplate
    from dpicl_rag.rehearsal import keep_name

    answering = paying if isinstance(paying, option_groups.Answering) else None
    made: dict[str, Any] = config.model_dump(exclude_unset=True)
    if answering is not None:
        reader = answering.reader
        made["template"] = PromptTemplate(answer_prefix=answering.prefix)
        made["prefix_cache"] = data_folder.open_prefixes(opened.name, source.path)
    config.require_reader(reader)
    with ExitStack() as stack:
        booked = None if paying.no_ledger else opened.name
        ledger = stack.enter_context(file_budgets.open_book(paying.ledger, booked))
        loading = console.status("Loading the language model", quiet=quiet or answering is None)
        with console.told(NotPrivateWarning, ReadAnewWarning), loading:
            from dpicl_rag.private_context_llm import PrivateContextLLM

            model: Any = UnloadedModel()
            if answering is not None:
                spread = data_folder.spread_model(answering.model, answering.workers)
                model = stack.enter_context(spread)
            llm = PrivateContextLLM(
                model,
                reader=stack.enter_context(opened_reader(reader, opened, source)),
                ledger=ledger,
                corpus=opened.name,
                caller=paying.caller,
                knowledge=[
                    *_knowledge(stack, opened.name, source, paying),
                    *([] if bundle is None else [bundle]),
                ],
                **made,
            )
        tell_toy(llm.model)
        if answering is not None and reader is None:
            rehearse(llm.model, quiet=quiet)
            if answering.model is not None:
                keep_name(answering.model, llm.model)
        yield llm


@contextmanager
def planning_model(
    config: PrivacyConfig,
    reader: str | None,
    name: str,
    paying: option_groups.Paying,
) -> Iterator[PrivateContextLLM]:
    """A model that makes plans alone: none is loaded, nothing is searched, and nothing is paid."""
    from dpicl_rag.language_models.readers.no_writer import UnloadedModel, UnloadedReader
    from dpicl_rag.private_context_llm import PrivateContextLLM
    from dpicl_rag.rehearsal import unloaded

    config.require_reader(reader)
    known = UnloadedModel()
    if isinstance(paying, option_groups.Answering) and paying.model and reader is None:
        found = unloaded(paying.model)
        if found is None:
            console.note(_NEVER_ASKED)
        known = found or known
    file, booked = (None, None) if paying.no_ledger else (paying.ledger, name)
    with file_budgets.open_book(file, booked) as ledger:
        yield PrivateContextLLM(
            known,
            reader=None if reader is None else UnloadedReader(),
            ledger=ledger,
            corpus=name,
            caller=paying.caller,
            **config.model_dump(exclude_unset=True),
        )


def tell_calls(aim: int | None, limit: int | None) -> None:
    """Say what is sent to a reader, and about how often it is called.

    Args:
        aim: About how many units are found; None where only the documents tell.
        limit: Most calls.
    """
    about = min((number for number in (aim, limit) if number is not None), default=None)
    many = "as many as are found; --max-calls limits them" if about is None else f"about {about}"
    console.note(f"{_SENT}: {many}")


@contextmanager
def opened_reader(
    address: str | None, opened: Corpus | ChromaCollection, source: option_groups.Place
) -> Iterator[Reader | None]:
    """The reader at an address, with what it replied before; None without one."""
    if address is None:
        yield None
        return
    from dpicl_rag.language_models.readers.as_reader import as_reader

    with closing(data_folder.open_replies(opened, source.path)) as replies:
        yield as_reader(address, replies)


def rehearse(model: LanguageModel, *, quiet: bool) -> None:
    """Rehearse a model where it is new here, with a bar: that takes minutes, once."""
    from dpicl_rag.rehearsal import rehearsal_of

    with console.Bar("Rehearsing the model, once", quiet=quiet, counts=True) as bar:
        rehearsal_of(model, on_progress=bar.update)


def tell_toy(model: LanguageModel) -> None:
    """Say that the default model is a toy, where it is taken."""
    from dpicl_rag.language_models.defaults import is_toy

    if is_toy(model):
        console.note(TOY)


def _knowledge(
    stack: ExitStack, name: str, source: option_groups.Place, paying: option_groups.Paying
) -> list[AnswerMemory | Corpus | ChromaCollection]:
    """The memory of the corpus, and the public corpora that were named."""
    found: list[AnswerMemory | Corpus | ChromaCollection] = []
    if paying.remembers:
        memory = data_folder.open_memory(
            name, paying.caller, paying.ledger, source.embedder, shared=paying.shared
        )
        found.append(stack.enter_context(memory))
    for public in (paying.public if isinstance(paying, option_groups.Answering) else None) or ():
        corpus = data_folder.open_corpus(public, source.path, source.embedder)
        found.append(stack.enter_context(corpus))
    return found


def print_spent(answer: Paid, end: str = "", *, recorded: bool) -> None:
    """One line on what a result cost."""
    spent = f"spent: epsilon {answer.epsilon:g}, delta {answer.delta:g}, rho {answer.rho:.4g}"
    note = "" if recorded else " (not recorded)"
    console.show(f"{spent}{note}{end}", style="dim")


def print_booked(
    answer: Paid, llm: PrivateContextLLM, paying: option_groups.Paying, end: str = ""
) -> None:
    """What a result cost, and where no budget bounds it; while the ledger is open."""
    print_spent(answer, end, recorded=not paying.no_ledger)
    if not paying.no_ledger and llm.budget_left() is None:
        console.show(_UNLIMITED, style="dim")


def print_plan(
    plan: PricedPlan, *, as_json: bool, kind: Mapping[str, str | None] | None = None
) -> None:
    """The parts of a plan with their prices, and its notes; or all its numbers."""
    if as_json:
        console.write_json({**(kind or {}), **plan.as_dict()})
        return
    table = console.table("", "rho", "", box=None)
    for row in plan.rows():
        table.add_row(*row)
    console.stdout().print(table)
    for note in plan.notes():
        console.show(note, style="dim")
