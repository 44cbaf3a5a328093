"""What a question needs on the command line: the corpus, the model, the ledger and the memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from dpicl_rag.cli import console, data_folder, file_budgets, option_groups
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness

if TYPE_CHECKING:
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.knowledge import AnswerMemory
    from dpicl_rag.language_models.base import LanguageModel
    from dpicl_rag.language_models.readers.base import Reader
    from dpicl_rag.private_context_llm import PrivateContextLLM
    from dpicl_rag.results import Paid
    from dpicl_rag.stores.chroma import ChromaCollection
    from dpicl_rag.surveys.counting import Counting

_TOY = (
    "toy model: the default is for trying the library; for real use give --model small, medium or "
    "large, or a model of your own"
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
    settings: option_groups.Settings,
    answering: option_groups.Answering,
    quiet: bool,
    *,
    polish: bool = False,
) -> Iterator[PrivateContextLLM]:
    """What answers, with its ledger and memory; settings are checked before the slow steps."""
    from dpicl_rag.language_models.prefix_cache import ReadAnewWarning
    from dpicl_rag.prompts import PromptTemplate

    config = PrivacyConfig.create(**settings.made(), max_calls=answering.max_calls, polish=polish)
    config.require_reader(answering.reader)
    with ExitStack() as stack:
        ledger = None
        if not answering.no_ledger:
            ledger = stack.enter_context(file_budgets.open_book(answering.ledger, opened.name))
        loading = console.status("Loading the language model", quiet=quiet)
        with console.told(NotPrivateWarning, ReadAnewWarning), loading:
            from dpicl_rag.private_context_llm import PrivateContextLLM

            model = data_folder.spread_model(answering.model, answering.workers)
            llm = PrivateContextLLM(
                stack.enter_context(model),
                reader=stack.enter_context(opened_reader(answering.reader, opened, source)),
                template=PromptTemplate(answer_prefix=answering.prefix),
                ledger=ledger,
                corpus=opened.name,
                caller=answering.caller,
                knowledge=_knowledge(stack, opened.name, source, answering),
                prefix_cache=data_folder.open_prefixes(opened.name, source.path),
                **config.model_dump(exclude_unset=True),
            )
        tell_toy(llm.model)
        yield llm


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


def tell_toy(model: LanguageModel) -> None:
    """Say that the default model is a toy, where it is taken."""
    from dpicl_rag.language_models.defaults import is_toy

    if is_toy(model):
        console.note(_TOY)


def _knowledge(
    stack: ExitStack, name: str, source: option_groups.Place, answering: option_groups.Answering
) -> list[AnswerMemory | Corpus | ChromaCollection]:
    """The memory of the corpus, and the public corpora that were named."""
    found: list[AnswerMemory | Corpus | ChromaCollection] = []
    if answering.remembers:
        found.append(stack.enter_context(_memory(name, source, answering)))
    for public in answering.public or ():
        corpus = data_folder.open_corpus(public, source.path, source.embedder)
        found.append(stack.enter_context(corpus))
    return found


def _memory(
    name: str, source: option_groups.Place, paying: option_groups.Paying
) -> AbstractContextManager[AnswerMemory]:
    return data_folder.open_memory(
        name, paying.caller, paying.ledger, source.embedder, shared=paying.shared
    )


@contextmanager
def counting(
    opened: Corpus | ChromaCollection,
    source: option_groups.Place,
    config: PrivacyConfig,
    paying: option_groups.Paying,
    *,
    fresh: bool,
) -> Iterator[Counting]:
    """What counts by stored vectors, with its ledger and memory. No language model is loaded."""
    from dpicl_rag.ledger import open_account
    from dpicl_rag.surveys.counting import Counting
    from dpicl_rag.surveys.remembered_counts import Remembered

    name = opened.name
    with ExitStack() as stack:
        book = memory = None
        if not paying.no_ledger:
            book = stack.enter_context(file_budgets.open_book(paying.ledger, name))
        if paying.remembers:
            memory = stack.enter_context(_memory(name, source, paying))
        opening = partial(open_account, book, corpus=name, source=name, caller=paying.caller)
        coins = Randomness.of(config.seed)
        yield Counting(config, opening, coins, Remembered(memory, fresh))


def print_spent(answer: Paid, end: str = "", *, recorded: bool) -> None:
    """One line on what a result cost."""
    spent = f"spent: epsilon {answer.epsilon:g}, delta {answer.delta:g}, rho {answer.rho:.4g}"
    note = "" if recorded else " (not recorded)"
    console.stdout().print(f"{spent}{note}{end}", style="dim", soft_wrap=True)
