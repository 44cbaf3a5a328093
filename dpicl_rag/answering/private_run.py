"""The run of one request: settings, what reads, who pays, and whose coins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from dpicl_rag.accounting.budget import Booking
from dpicl_rag.answering.canonical_form import CanonicalForm, canonical_form
from dpicl_rag.answering.experts import Experts, gather
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.question import Question
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.knowledge.public_knowledge import JoinedKnowledge
from dpicl_rag.language_models.base import Input, LanguageModel, Progress, speaks
from dpicl_rag.language_models.defaults import is_toy
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import UnitReading
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.ledger.account import Account, AroundPayment, open_account
from dpicl_rag.ledger.budgets import booking, least_remaining, least_unit_remaining
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import Charged
from dpicl_rag.prompts import Prompt, PromptTemplate
from dpicl_rag.rehearsal import rehearsal_of
from dpicl_rag.retrieval.retrievers import Documents, as_retriever, corpus_name_of
from dpicl_rag.retrieval.search import Search
from dpicl_rag.retrieval.vectors import unit_field_of

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger

NO_CORPUS = "default"
"""Where a ledger books lists."""

M = TypeVar("M", bound=Charged)


@dataclass(frozen=True, slots=True, repr=False)
class PrivateRun:
    """One request under way. It pays the parts of its plan, and no others.

    Attributes:
        config: Public settings.
        model: Reads units.
        reader: Reads them in its place, if there is one.
        template: How units and questions become prompts.
        form: Canonical form of sentences.
        knowledge: What is public; its memory is of the documents that are asked.
        randomness: Where the coins come from.
        corpus: Name under which a ledger books it; None books it under that of the documents.
        ledger: Who holds the budget; None accounts for each release alone.
        caller: Who asks, for budgets per caller.
        on_progress: Called with the part of the documents that is read, 0 to 1.
        paying: Entered around each payment; where that raises, nothing is paid.
    """

    config: PrivacyConfig
    model: LanguageModel
    reader: Reader | None
    template: PromptTemplate
    form: CanonicalForm
    knowledge: JoinedKnowledge
    randomness: Randomness
    corpus: str | None
    ledger: Ledger | None
    caller: str | None
    on_progress: Progress | None = None
    paying: AroundPayment = nullcontext

    def booked_under(self, source: str | None) -> str:
        """The name under which a ledger books it.

        Args:
            source: Name of the corpus that the documents are from.
        """
        return self.corpus or source or NO_CORPUS

    @property
    def booked(self) -> bool:
        """True where a ledger books it."""
        return self.ledger is not None

    @property
    def speaks(self) -> bool:
        """Ability of experts to say sentences each by itself."""
        return self.reader is not None or speaks(self.model)

    @property
    def silent(self) -> bool:
        """Ability of experts to say that their document does not tell, see `Rehearsal`."""
        if self.reader is not None or self.template.silent_for("") == self.template:
            return False
        return rehearsal_of(self.model).knows_silence

    def extractive(self, question: str) -> bool:
        """Whether experts read one sentence of their unit, to be agreed on alone, see `extracts`.

        They do of the packaged model, which nobody chose. Who names one is answered by it.

        Args:
            question: Public text.
        """
        config, template = self.config, self.template
        counts_alone = config.agreement in (None, "only") and config.sentences == 1
        as_usual = template.silent_for("") != template and self.form is canonical_form
        if self.reader is not None or config.groups is not None or not (counts_alone and as_usual):
            return False
        return is_toy(self.model) and answer_keys(question).by_value

    def prompt(self, question: str) -> Prompt:
        """The prompt of a question whose answer is one of some labels.

        Raises:
            ConfigurationError: It has no words.
        """
        return Question(question, self.template, self.model, self.config, self.form).prompt

    def question(self, text: str, model: LanguageModel | None = None) -> Question:
        """A question and how it is asked.

        Raises:
            ConfigurationError: It has no words.
        """
        silent = self.config.agreement != "off" and self.silent
        shaped = self.template, model or self.model, self.config, self.form
        return Question(text, *shaped, silent=silent, extractive=self.extractive(text))

    def require_memory(self, search: Search) -> None:
        """Check that the memory of released answers, if there is one, is that of these documents.

        Raises:
            ConfigurationError: It is that of others.
        """
        if self.knowledge.memory is not None:
            name = self.corpus or search.corpus_name
            self.knowledge.memory.require_documents(name, search.filter)

    def search(self, documents: Documents) -> Search:
        """The search for the units that answer; nothing is looked at yet."""
        found = as_retriever(documents, self.config.privacy_unit, self.config.units)
        if self.reader is None or self.config.max_calls is None:
            return found
        return found.limited(self.config.max_calls)

    def open_account(
        self,
        documents: Documents,
        *,
        rho: float,
        at_least: float | None = None,
        units: Sequence[str] | None = None,
        delta: float = 0.0,
        gaussian: bool = False,
    ) -> Account:
        """Open the account of documents; see `dpicl_rag.ledger.open_account`."""
        source = corpus_name_of(documents)
        return open_account(
            self.ledger,
            corpus=self.booked_under(source),
            source=source,
            unit_field=unit_field_of(documents),
            caller=self.caller,
            rho=rho,
            at_least=at_least,
            units=units,
            delta=delta,
            gaussian=gaussian,
            paying=self.paying,
        )

    def booking(self, source: str | None) -> Booking:
        """Terms of the budgets that it comes out of."""
        if self.ledger is None:
            return Booking()
        return booking(self.ledger.status(), self.booked_under(source), self.caller)

    def under_terms(self, source: str | None) -> PrivateRun:
        """The same with the settings of what these budgets pay for; see `booking`."""
        return replace(self, config=self.config.under(self.booking(source)))

    def every_unit_has(self, rho: float, source: str | None) -> bool:
        """True where no unit can have less left, by public numbers."""
        return self._has(least_unit_remaining, rho, source)

    def all_can_pay(self, rho: float, source: str | None) -> bool:
        """True where there is budget left that no unit has for itself, by public numbers."""
        return self._has(least_remaining, rho, source)

    def _has(self, least: Callable[..., float | None], rho: float, source: str | None) -> bool:
        if self.ledger is None:
            return True
        left = least(self.ledger.status(), self.booked_under(source))
        return left is None or left >= rho

    def experts(
        self,
        questions: Sequence[str],
        search: Search,
        plan: Plan[M],
        digest: Callable[[Sequence[str]], Input],
        reading: UnitReading | None = None,
    ) -> Experts[M]:
        """Search, open the account, pay for the search, and build the experts; see `gather`."""
        return gather(
            questions=questions,
            search=search,
            plan=plan,
            open_account=partial(self.open_account, search),
            randomness=self.randomness,
            digest=digest,
            reading=reading,
            on_progress=self.on_progress,
        )
