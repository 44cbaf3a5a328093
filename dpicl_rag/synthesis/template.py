"""Templates of synthetic texts: public words, and fields between them that are drawn.

Public words cost nothing, and they lead a small model to copy a short field where it would
rephrase a long text.
"""

from __future__ import annotations

import tomllib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dpicl_rag import _validate
from dpicl_rag.answering.decoding import decode
from dpicl_rag.answering.experts import Experts
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import BlockRows, GrowingRows, LanguageModel, Rows
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.prompts import Example, Prompt, PromptTemplate, opening_tokens

_KEY = "{key}"
_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class RecordField:
    """One drawn part of a record.

    Attributes:
        lead: Public words before it.
        tokens: Most tokens drawn.
        stop: It ends before any of these strings.
        after: Public words behind it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    lead: str
    tokens: int = 16
    stop: tuple[str, ...] = (". ", "\n")
    after: str = "."

    def __post_init__(self) -> None:
        _validate.count("tokens of a field", self.tokens)
        if not all(self.stop):
            raise ConfigurationError("a stop string of a field is empty")

    def value(self, tokenizer: Tokenizer, drawn: Sequence[int]) -> str:
        """Text of the field so far, cut at the first stop string."""
        return _cut(tokenizer.decode(drawn), self.stop)

    def ended(self, tokenizer: Tokenizer, drawn: Sequence[int]) -> bool:
        """True where its end was drawn: a function of what was released."""
        return ended(tokenizer, drawn, self.stop)

    def kept(self, tokenizer: Tokenizer, drawn: Sequence[int]) -> int:
        """Number of tokens before the end."""
        if not self.ended(tokenizer, drawn):
            return len(drawn)
        value = self.value(tokenizer, drawn)
        most = len(drawn) - 1  # the last one is of the end
        fits = (n for n in range(most, 0, -1) if len(tokenizer.decode(drawn[:n])) <= len(value))
        return next(fits, 0)

    def written(self, tokenizer: Tokenizer, drawn: Sequence[int]) -> str:
        """The field with its public words."""
        value = self.value(tokenizer, drawn).strip()
        return f"{self.lead} {value}".strip().removesuffix(self.after) + self.after


@dataclass(frozen=True, slots=True)
class RecordExample:
    """A public worked example. It must not come from the private documents.

    Attributes:
        document: What is read.
        key: The key that the record is about.
        record: The whole record, leads included.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    document: str
    key: str
    record: str


@dataclass(frozen=True, slots=True)
class RecordTemplate:
    """The template of a record and of the prompt for it. Everything in it is public.

    Attributes:
        fields: In order.
        instruction: To the model.
        request: What is asked after the document; holds ``{key}`` where the key word is named.
        examples: Shown as earlier turns.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    fields: tuple[RecordField, ...] = (RecordField("In short:", tokens=40, stop=("\n",), after=""),)
    instruction: str = "You write down what the document says, in its own words."
    request: str = "Write down what it says about {key}."
    examples: tuple[RecordExample, ...] = (
        RecordExample(
            "Note to self: the snail in the hall eats only moss. Ask Ida about the jar.",
            "snail",
            "In short: The snail in the hall eats only moss.",
        ),
        RecordExample(
            "From: Lou\nSubject: Choir\nHello all, the kite that Oskar painted is teal with a "
            "yellow tail. Best, Lou",
            "kite",
            "In short: The kite that Oskar painted is teal with a yellow tail.",
        ),
    )

    def __post_init__(self) -> None:
        if not self.fields:
            raise ConfigurationError("a template of records needs a field that is drawn")

    @property
    def tokens(self) -> int:
        """Most tokens that a record draws."""
        return sum(field.tokens for field in self.fields)

    def prompt(self, tokenizer: Tokenizer, key: str) -> Prompt:
        """Public tokens around a document, up to the first field.

        Args:
            tokenizer: Of the model.
            key: A released word.
        """
        shown = tuple(
            Example(example.document, self._asked(example.key), example.record)
            for example in self.examples
        )
        template = PromptTemplate(
            system=self.instruction,
            user="Document:\n{document}\n\n{question}",
            examples=shown,
            answer_prefix=self.fields[0].lead,
        )
        return template.cut(tokenizer, self._asked(key))

    def between(self, tokenizer: Tokenizer, field: int) -> list[int]:
        """Public tokens from the end of a field to the beginning of the next one."""
        following = self.fields[field + 1]
        return tokenizer.encode(f"{self.fields[field].after} {following.lead}")

    def room(self, tokenizer: Tokenizer) -> int:
        """Tokens of the longest record, behind its first public words."""
        public = (len(self.between(tokenizer, at)) for at in range(len(self.fields) - 1))
        return self.tokens + sum(public)

    def parts(self, tokenizer: Tokenizer, tokens: Sequence[int]) -> list[list[int]]:
        """Released tokens by field: where one ends follows from them alone."""
        parts: list[list[int]] = [[]]
        for token in tokens:
            field = self.fields[len(parts) - 1]
            if len(parts[-1]) == field.tokens or field.ended(tokenizer, parts[-1]):
                parts.append([])
            parts[-1].append(token)
        return parts

    def text(self, tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
        """The record that released tokens make."""
        if not tokens:
            return ""
        parts = zip(self.fields, self.parts(tokenizer, tokens), strict=False)
        return " ".join(field.written(tokenizer, drawn) for field, drawn in parts)

    def _asked(self, key: str) -> str:
        return self.request.replace(_KEY, key)

    @staticmethod
    def read(path: str | Path) -> RecordTemplate:
        """A template from a TOML file; see docs/synthesis.md.

        Raises:
            ConfigurationError: The file cannot be read, or is no template.
        """
        try:
            found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{path}: no TOML file that can be read") from error
        for many, one in (("fields", "field"), ("examples", "example")):
            found[many] = found.pop(one, [])
        try:
            return TypeAdapter(RecordTemplate).validate_python(found)
        except ValidationError as error:
            _, sentence = _validate.place_and_sentence(error)
            raise ConfigurationError(
                f"{path}: {sentence}; a template has instruction, request, [[field]] "
                "with lead, tokens, stop and after, and [[example]] with document, key and record"
            ) from None


_ENDS = ("\n", " END")


@dataclass(frozen=True, slots=True)
class ExampleTemplate:
    """Pairs of a label and a text, behind one instruction: Tang et al. 2024, Appendix C.

    Attributes:
        instruction: What is asked for.
        label: What stands before a label.
        text: What stands before a text.
        no_example: What the public row reads in an example's place.
    """

    instruction: str = "Given a label, write a text of this kind."
    label: str = "Label:"
    text: str = "Text:"
    no_example: str = "Here is one."

    def prompt(self, tokenizer: Tokenizer, label: str) -> Prompt:
        """Tokens around the examples of one label."""
        return Prompt(
            prefix=tuple(opening_tokens(tokenizer, f"{self.instruction}\n\n")),
            suffix=tuple(tokenizer.encode(f"\n\n{self.label} {label}\n{self.text}")),
            no_document=self.no_example,
        )

    def shown(self, label: str, text: str) -> str:
        """A private example as it stands in a prompt."""
        return f"{self.label} {label}\n{self.text} {text}"


def ended(tokenizer: Tokenizer, tokens: Sequence[int], ends: Sequence[str] = _ENDS) -> bool:
    """True where a text has come to its end: a stop token, or one of the strings."""
    if tokens and tokens[-1] in tokenizer.stop_tokens:
        return True
    text = tokenizer.decode(tokens)
    return any(end in text for end in ends)


def written(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    """The text up to its end, without the white space around it."""
    text = tokenizer.decode([token for token in tokens if token not in tokenizer.stop_tokens])
    return _cut(text, _ENDS).strip()


def _cut(text: str, ends: Sequence[str]) -> str:
    return text[: min([at for end in ends if (at := text.find(end)) >= 0], default=len(text))]


def draw_text(
    rows: GrowingRows,
    suffix: Sequence[int],
    mechanism: Mechanism,
    spend: PrivacyFilter,
    randomness: Randomness,
    *,
    tokenizer: Tokenizer,
    tokens: int,
    ends: Sequence[str] = _ENDS,
) -> Generator[int, None, list[int]]:
    """Draw a text, or a field of one, by the loop that answers are drawn with.

    Args:
        rows: Of the public row and the experts.
        suffix: Public tokens that they read first.
        mechanism: Draws a token.
        spend: Pays for it.
        randomness: Where the coins come from.
        tokenizer: Of the model.
        tokens: Most tokens.
        ends: Strings that end the text.

    Returns:
        The tokens, each of which was yielded once it was paid for.
    """
    drawn: list[int] = []
    for token in decode(
        rows,
        suffix,
        mechanism,
        spend,
        randomness,
        max_tokens=tokens,
        stop_tokens=tokenizer.stop_tokens,
    ):
        drawn.append(token)
        yield token
        if ended(tokenizer, drawn, ends):
            break
    return drawn


def draw_record(
    model: LanguageModel,
    prompt: Prompt,
    template: RecordTemplate,
    experts: Experts[Mechanism],
    randomness: Randomness,
) -> Iterator[int]:
    """Draw the fields of a record; a token is yielded once it is paid for.

    Args:
        model: Reads the documents.
        prompt: Public tokens around a document, up to the first field.
        template: The fields, and the public words between them.
        experts: The experts, how strong they are, and how they pay.
        randomness: Where the coins come from.

    Raises:
        EngineUnavailableError: The engine does not answer.
        ModelError: There is not enough memory.
    """
    tokenizer = model.tokenizer
    between = [template.between(tokenizer, at) for at in range(len(template.fields) - 1)]
    with enough_memory():
        rows = read(model, prompt, experts.inputs, room=template.room(tokenizer))
        suffix: Sequence[int] = prompt.suffix
        for at, field in enumerate(template.fields):
            drawn = yield from draw_text(
                rows,
                suffix,
                experts.mechanism,
                experts.spend,
                randomness,
                tokenizer=tokenizer,
                tokens=field.tokens,
                ends=field.stop,
            )
            if at < len(between):
                kept = drawn[: field.kept(tokenizer, drawn)]
                suffix = [*_unread(rows, drawn, kept), *between[at]]


def _unread(rows: Rows, drawn: Sequence[int], kept: Sequence[int]) -> Sequence[int]:
    """Tokens that stay and that the rows have not read; the rows forget those that do not.

    Rows have read all drawn tokens but the last.
    """
    read_on = len(drawn) - 1
    if len(kept) < read_on and isinstance(rows, BlockRows):
        rows.rewind(read_on - len(kept))
    return kept[read_on:]
