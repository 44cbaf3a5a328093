"""One question, and all that is public about how it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dpicl_rag.answering.canonical_form import CanonicalForm, canonical_form
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.knowledge.answer_memory import asking_part
from dpicl_rag.language_models.base import Input, LanguageModel
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.sentences import mail_as_read
from dpicl_rag.prompts import Prompt, PromptTemplate


@dataclass(frozen=True)
class Question:
    """A question and how it is asked. Public.

    Attributes:
        text: Its words.
        template: How it becomes a prompt.
        model: Reads it, and no knowledge.
        config: The settings of its answer.
        form: Canonical form of an answer.
        silent: Whether experts may say that their document does not tell: the model can, the
            template shows how, and what they say decides who has a vote.
        extractive: Whether they read the sentence of their unit that is nearest to it alone, see
            `extracts`.

    Raises:
        ConfigurationError: It has no words.
    """

    text: str
    template: PromptTemplate
    model: LanguageModel
    config: PrivacyConfig
    form: CanonicalForm = canonical_form
    silent: bool = False
    extractive: bool = False

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ConfigurationError("the question is empty")

    @cached_property
    def shown_template(self) -> PromptTemplate:
        """The template of its prompt, with the examples that are shown for it."""
        return self.template.silent_for(self.text) if self.silent else self.template

    @property
    def shown(self) -> str:
        """Answers of those examples."""
        return " ".join(one.answer for one in self.shown_template.examples)

    @property
    def examples(self) -> str:
        """All that those examples say. A model takes things from their documents, too."""
        shown = self.shown_template.examples
        return " ".join(f"{one.document} {one.question} {one.answer}" for one in shown)

    @cached_property
    def prompt(self) -> Prompt:
        """Text around a document."""
        return self.shown_template.cut(self.model.tokenizer, self.text)

    @property
    def keys_counted(self) -> int | None:
        """Keys of one unit, at most, where keys alone are counted; None counts sentences first.

        A model that reads well words one answer in many ways, and so do units.
        """
        if not (self.silent or self.extractive) or self.form is not canonical_form:
            return None
        return answer_keys(self.text).most

    @property
    def domain_counted(self) -> tuple[tuple[str, ...], ...]:
        """All keys that there may be, the likelier ones first; none where they have no list."""
        return () if self.keys_counted is None else answer_keys(self.text).domain

    @cached_property
    def allowance(self) -> int:
        """Tokens that an expert reads of its unit."""
        config = self.config
        return self.prompt.allowance(self.model, config.unit_tokens, config.max_tokens)

    def hears(self, other: Question) -> bool:
        """Room for another question behind whatever a row reads in a document's place. Public."""
        read = max(self.allowance, self.prompt.bare(self.model))
        longest = len(self.prompt.prefix) + read + len(other.prompt.suffix)
        return longest + self.config.max_tokens <= self.model.context_length

    def digest(self, passages: Sequence[str]) -> Input:
        """Input of an expert from its unit; of one that may be silent see `mail_as_read`."""
        read = list(map(mail_as_read, passages)) if self.silent else passages
        return self.model.digest(read, self.allowance)

    @property
    def phrasings(self) -> tuple[Prompt, ...]:
        """Prompts of experts: of the part that asks, and of the whole where it says more.

        None has more behind the document than the whole: rows have no room for it, and an error
        would tell that an expert has much to say. "Troubleshooting" at a beginning is four tokens.
        """
        brief = self.worded(asking_part(self.text)).prompt
        shorter = len(brief.suffix) < len(self.prompt.suffix)
        return (brief, self.prompt) if shorter else (self.prompt,)

    def worded(self, text: str) -> Question:
        """The same in other words."""
        return replace(self, text=text)
