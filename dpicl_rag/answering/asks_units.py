"""What the parts of `PrivateContextLLM` share: settings, a model, a reader, a budget."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from dpicl_rag.answering.experts import OpenAccount
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import Prompt, PromptTemplate
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.retrieval.search import Search

if TYPE_CHECKING:
    from dpicl_rag.knowledge.answer_memory import AnswerMemory
    from dpicl_rag.knowledge.public_knowledge import JoinedKnowledge
    from dpicl_rag.ledger import Ledger


class AsksUnits(ABC):
    """What has a model, settings and a budget, and asks units.

    Attributes:
        config: Public settings.
        model: Reads units.
        reader: Reads them in its place, if there is one.
        template: How units and questions become prompts.
    """

    config: PrivacyConfig
    model: LanguageModel
    reader: Reader | None
    template: PromptTemplate
    _ledger: Ledger | None
    _caller: str | None
    _knowledge: JoinedKnowledge
    _randomness: Randomness

    @abstractmethod
    def _prompt(self, question: str) -> Prompt:
        """Of one question."""

    @abstractmethod
    def _search(self, documents: Documents) -> Search:
        """The search for the units that are asked; nothing is looked at yet."""

    @abstractmethod
    def _opening(self, search: Search) -> OpenAccount:
        """Opens the account of a search."""

    @abstractmethod
    def _memory(self, search: Search) -> AnswerMemory | None:
        """What was released before from the documents of a search."""

    @abstractmethod
    def _booked_under(self, corpus: str | None) -> str:
        """The name under which a ledger books what a corpus tells."""
