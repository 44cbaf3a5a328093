"""What a method of the leaderboard is, and what all of them are given alike.

All pay for the same search, `find`, but for those whose own search costs nothing: a method
whose paper finds documents without noise has no charge that would hold otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dpicl_rag import PromptTemplate
from dpicl_rag.accounting import DIRECT, Adjacency, Budget, epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.configuration import UNITS, PrivacyConfig
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import LanguageModel, Rows
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.prompts import Prompt
from dpicl_rag.retrieval.base import Retrieved
from dpicl_rag.retrieval.retrievers import Documents, as_retriever

ADJACENCY = Adjacency.ADD_OR_REMOVE_ONE


@dataclass(frozen=True)
class Setting:
    """What all methods are given alike. Public.

    Attributes:
        model: Reads and writes.
        template: How a document and a question become a prompt.
        max_tokens: Most tokens of an answer.
        stop: It ends before any of these.
        units: How many units a search aims at.
        bar: Cosine of a search whose threshold is fixed beforehand.
        released: Folder of finished syntheses, one for each epsilon, if there is one.
    """

    model: LanguageModel
    template: PromptTemplate
    max_tokens: int
    stop: tuple[str, ...] = ()
    units: int = UNITS
    bar: float = 0.5
    released: Path | None = None


@dataclass(frozen=True)
class Told:
    """An answer.

    Attributes:
        text: The answer; nothing where the method has none.
        supported: Whether the method says that documents support it. One that says nothing of it
            stands by all that it answers.
    """

    text: str
    supported: bool


@dataclass(frozen=True)
class Asked:
    """One question, what it costs at most, and the coins.

    Attributes:
        question: Public.
        documents: Private; a unit of them is added or removed.
        epsilon: Of the answer.
        delta: Of the answer.
        randomness: Where coins come from.
    """

    question: str
    documents: Documents
    epsilon: float
    delta: float
    randomness: Randomness


class Method(Protocol):
    """A way to answer from private documents: a file of ``methods``, which calls it ``METHOD``."""

    name: str
    source: str
    """Paper and equation or algorithm."""

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """The epsilon, at this delta, that an answer asked for at epsilon truly costs one unit.

        By a bound that tests hold, its search included; infinite where nothing is private.
        """
        ...

    def needed(self, setting: Setting, epsilon: float) -> int | None:
        """How many documents must agree, without a search; None where that is not known."""
        return None

    def answer(self, setting: Setting, asked: Asked) -> Told | None:
        """One answer; None where it cannot be had here."""
        ...


def budget_beside_search(epsilon: float, delta: float) -> Budget:
    """The budget of an answer, and in it the price of the search that all pay for."""
    rho = epsilon_to_rho(epsilon, delta)
    # A millionth more: the noise of the search is rounded towards its charge.
    search = SHARES.counting(rho) * (1 + 1e-6)
    return Budget(epsilon, delta, ADJACENCY, DIRECT, search_rho=search)


def find(setting: Setting, asked: Asked, budget: Budget) -> Retrieved:
    """What the search at that price finds: above a threshold that noisy counts choose."""
    whole = epsilon_to_rho(budget.epsilon, budget.delta)
    search = as_retriever(asked.documents, units=setting.units).within(whole, ADJACENCY)
    return search.search(asked.question).choose(randomness=asked.randomness)


def read_units(
    setting: Setting, question: str, units: Iterable[Sequence[Document]]
) -> tuple[Prompt, Rows, int]:
    """Rows of the units, one each, as the library reads them.

    Returns:
        The prompt, the public row and those of the units, and how many these are.
    """
    config = PrivacyConfig.create()
    model = copying(setting.model, config.copy_bias)
    prompt = setting.template.cut(model.tokenizer, question)
    room = prompt.allowance(model, config.unit_tokens, setting.max_tokens)
    digests = (model.digest([one.text for one in own], room) for own in units)
    inputs = [own for own in digests if own]
    return prompt, read(model, prompt, inputs, room=setting.max_tokens), len(inputs)


def written(
    setting: Setting, prompt: Prompt, rows: Rows, draw: Callable[[Step], int | None]
) -> str:
    """Text of drawn tokens, until one ends it, a stop string does, or None is drawn."""
    tokenizer, start = setting.model.tokenizer, setting.template.answer_prefix
    tokens: list[int] = []
    pending: Sequence[int] = prompt.suffix
    text = ""
    while len(tokens) < setting.max_tokens:
        token = draw(rows.extend(pending))
        if token is None or token in tokenizer.stop_tokens:
            break
        tokens.append(token)
        pending = (token,)
        text = start + tokenizer.decode(tokens)
        cuts = [at for stop in setting.stop if (at := text.find(stop, len(start))) >= 0]
        if cuts:
            return text[: min(cuts)].strip()
    return text.strip()
