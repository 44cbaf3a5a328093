"""Prompts cut as public prefix | document | question, so that a document's state is reusable."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.readers.notes import NOTE
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.languages.languages import SILENT, language_of, worked_examples

CONTENT_FREE = "N/A"
"""A question that asks nothing: Calibrate Before Use (Zhao et al. 2021, section 5)."""

_DOCUMENT = "{document}"
_QUESTION = "{question}"


def plain(text: str) -> str:
    """Public text as every door takes it: without control characters and half characters.

    Control characters mark places of a prompt; but for line ends and tabs none is left.
    """
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs"))


def _make_plain(template: PromptTemplate | Example) -> None:
    for field in fields(template):
        if isinstance(text := getattr(template, field.name), str):
            object.__setattr__(template, field.name, plain(text))


@dataclass(frozen=True, slots=True)
class Example:
    """A public worked example. It must not come from the private corpus."""

    document: str
    question: str
    answer: str

    def __post_init__(self) -> None:
        _make_plain(self)


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """The template of a prompt, for a document and a question. Everything in it is public.

    Attributes:
        system: Instruction to the model.
        user: One turn; holds ``{document}`` and then ``{question}``, each once.
        examples: Worked examples, shown as earlier turns.
        no_document: What the public row reads in a document's place.
        answer_prefix: Words that every answer begins with; not drawn, so free.
        note: What a reader is asked of one unit, for a note of one line; holds ``{document}`` and
            then ``{question}``, each once. It asks for the word NOTHING where the unit says
            nothing.
    """

    system: str = "You answer the question from the document. Answer with one short sentence."
    user: str = "Document:\n{document}\n\nQuestion: {question}"
    examples: tuple[Example, ...] = (
        # About things that few questions ask for: a small model answers with its examples where no
        # document tells it better, and "35 crowns" would fit many questions.
        Example(
            "Note to self: the snail in the hall eats only moss. Ask Ida about the jar.",
            "What does the snail in the hall eat?",
            "The snail in the hall eats only moss.",
        ),
        Example(
            "From: Lou\nSubject: Choir\nHello all, the kite that Oskar painted is teal with a "
            "yellow tail. Best, Lou",
            "What colour is the kite that Oskar painted?",
            "The kite that Oskar painted is teal with a yellow tail.",
        ),
    )
    no_document: str = "(none)"
    answer_prefix: str = ""
    note: str = NOTE

    def __post_init__(self) -> None:
        _make_plain(self)
        for name, text in (("user turn", self.user), ("note", self.note)):
            document, question = text.find(_DOCUMENT), text.find(_QUESTION)
            once = text.count(_DOCUMENT) == 1 and text.count(_QUESTION) == 1
            if not once or question < document:
                raise ConfigurationError(
                    f"the {name} of a prompt template holds {{document}} once and then "
                    "{question} once"
                )

    def instructed(self, system: str | None) -> PromptTemplate:
        """The same with another instruction; with its own where ``system`` is None."""
        return self if system is None else replace(self, system=system)

    def silent_for(self, question: str) -> PromptTemplate:
        """The same for a model that can say that a document does not answer, see `SILENT`.

        Its worked examples are in the question's language, and of its kind. A template that has an
        instruction or examples of its own stays as it is.
        """
        usual = PromptTemplate()
        if (self.system, self.user, self.examples) != (usual.system, usual.user, usual.examples):
            return self
        language = language_of(question)
        shown = worked_examples(language.code, language.kind(question))
        examples = tuple(Example(one.document, one.question, one.answer) for one in shown)
        system = f"{self.system} If the document does not answer it, say {SILENT}."
        return replace(self, system=system, examples=examples)

    def cut(self, tokenizer: Tokenizer, question: str) -> Prompt:
        """Tokens around the document, for one question."""
        # Control characters mark the two cuts: no template contains them, see `plain`.
        head, tail = self._render(tokenizer, "\x01", "\x02").split("\x01")
        middle, end = tail.split("\x02")
        ending = end + self.answer_prefix
        return Prompt(
            lead="" if ending[-1:].isspace() else " ",
            prefix=tuple(opening_tokens(tokenizer, head)),
            suffix=(
                *tokenizer.encode_template(middle),
                *tokenizer.encode(question),
                *tokenizer.encode_template(ending),
            ),
            no_document=self.no_document,
        )

    def _render(self, tokenizer: Tokenizer, document: str, question: str) -> str:
        turns = [(self._turn(e.document, e.question), e.answer) for e in self.examples]
        last = self._turn(document, question)
        messages = [{"role": "system", "content": self.system}]
        for asked, answered in turns:
            messages += [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": answered},
            ]
        chat = tokenizer.chat([*messages, {"role": "user", "content": last}])
        if chat is not None:
            return chat
        shown = "".join(f"{asked}\nAnswer: {answered}\n\n" for asked, answered in turns)
        return f"{self.system}\n\n{shown}{last}\nAnswer:"

    def _turn(self, document: str, question: str) -> str:
        return self.user.replace(_DOCUMENT, document).replace(_QUESTION, question)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Public tokens before and after the document. Synthesis makes one without any question.

    Attributes:
        prefix: Before the document.
        suffix: After it, question and answer prefix included.
        lead: What stands between the prompt and a label: a space, or nothing after white space.
        no_document: What the public row reads in the document's place.
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    lead: str = " "
    no_document: str = "(none)"

    def bare(self, model: LanguageModel) -> int:
        """Tokens that a row reads which has no document, and one at least."""
        return max(1, len(model.tokenizer.encode(self.no_document)))

    def allowance(self, model: LanguageModel, unit_tokens: int, max_tokens: int) -> int:
        """Most document tokens that fit a row beside the public parts; a public number.

        Raises:
            ContextLengthError: The question and the template leave no room for a document.
        """
        public = len(self.prefix) + len(self.suffix) + max_tokens
        left = model.context_length - public
        # The bare row is not always read: an error there would tell what a unit has said.
        if left < self.bare(model):
            raise ContextLengthError(
                f"the question, the template and the answer need {public} tokens, and the "
                f"model's context holds {model.context_length}; shorten the question, lower "
                "max_tokens or take a model with a longer context"
            )
        return min(unit_tokens, left)


def opening_tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    """Tokens of public text that begins a prompt, after what the tokenizer begins every text with.

    A chat template may have written that beginning (BOS) already; it stands there once.
    """
    ids, start = tokenizer.encode_template(text), list(tokenizer.start_tokens)
    return ids if ids[: len(start)] == start else start + ids


def label_tokens(tokenizer: Tokenizer, labels: Sequence[str], lead: str) -> list[list[int]]:
    """Continuations that stand for the labels.

    Where one label's tokens begin another's, its probability contains the other's; every label
    then ends with the token that ends an answer (or a line), so that whole labels are compared.

    Args:
        tokenizer: Of the model that chooses among them.
        labels: At least two distinct, non-empty strings.
        lead: What stands between the prompt and a label, for example a space.

    Raises:
        ConfigurationError: The labels cannot be distinguished.
    """
    if not isinstance(labels, Sequence) or not all(isinstance(label, str) for label in labels):
        raise ConfigurationError("give the labels as a list of names")
    names = [label.strip() for label in labels]
    if len(names) < 2 or not all(names):
        raise ConfigurationError("give at least two labels, none of them empty")
    tokens = [tokenizer.encode(lead + name) for name in names]
    if len(set(map(tuple, tokens))) < len(tokens):
        raise ConfigurationError(
            "two labels are the same to the model's tokenizer and cannot be told apart; "
            "rename one of them"
        )
    nested = any(a is not b and b[: len(a)] == a for a in tokens for b in tokens if len(a) < len(b))
    if nested:
        ending = [min(tokenizer.stop_tokens)] if tokenizer.stop_tokens else tokenizer.encode("\n")
        tokens = [ids + ending for ids in tokens]
    return tokens
