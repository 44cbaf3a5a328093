"""Requests: one question to private documents, with everything public about how it is asked.

Each field is written here once: its help, its range and its default. Options of the command line,
bodies over HTTP, schemas of agents' tools and keywords of Python are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal, Self, TypedDict

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SkipValidation,
    ValidationError,
    field_validator,
    model_validator,
)

from dpicl_rag import _validate
from dpicl_rag.configuration import MethodName
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.languages.request_kinds import asked_for, labels_in

Kind = Literal[
    "answer", "label", "count", "tally", "column", "label-head", "survey", "summary", "person"
]
"""What is asked for. About one person nothing is: a fixed sentence says so, and is free."""

ReadBy = Literal["model", "vectors"]
"""What reads units for a tally or a survey."""

Turn = tuple[str, str]
"""Who speaks, such as ``"user"``, and what was said. No name where the words say who speaks."""

VOTES = 3
"""Words that a unit votes for, where nothing else is said."""


class Request(BaseModel):
    """One question. All of it is public, and each kind has fields of its own (`FIELDS`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind | None = Field(
        None,
        description="What is asked for. Left out, it is told from the question: a fact, how many, "
        "which of several, or what documents are about.",
    )
    question: str | None = Field(
        None,
        description="A whole question that stands by itself. Public. A survey without one asks "
        "what the documents are about.",
    )
    turns: SkipValidation[Sequence[Turn]] = Field(
        (),
        description="The conversation before the question, as pairs of speaker and words. A "
        "question that leans on it is put into whole words first.",
    )
    system: str | None = Field(None, description="In place of the template's instruction.")
    max_tokens: int | None = Field(
        None, ge=1, description="Most tokens of the answer; no more than the settings say."
    )
    stop: tuple[str, ...] = Field((), description="The answer ends before any of these strings.")
    labels: tuple[str, ...] = Field(
        (),
        description="Answers that are counted or chosen among. Public: choose them without "
        "looking at the documents.",
    )
    column: str | None = Field(
        None,
        min_length=1,
        description="The metadata column whose values are counted: those of public ``labels``, or "
        "all that enough units have. Of a label head, the column of its labels.",
    )
    method: SkipValidation[MethodName | None] = Field(
        None,
        description="A published method, charged the same for every unit; see docs/methods.md. By "
        "default the settings decide.",
    )
    most: int = Field(
        1, ge=1, le=1000, strict=True, description="Labels that one unit says at most."
    )
    by: ReadBy | None = Field(
        None,
        description="What reads a unit: the model, or the stored vectors, which tell subjects "
        "apart and take no time. A tally is by the model by default, a survey by vectors.",
    )
    vocabulary: tuple[str, ...] | None = Field(
        None,
        description="Public words or phrases that units vote for; by default 1,000 English words, "
        "and in a summary the units' own, where a model can say them.",
    )
    votes: int = Field(VOTES, ge=1, strict=True, description="Words that one unit votes for.")
    threshold: float | None = Field(
        None, ge=-1, le=1, description="Cosine with the question from which a unit is asked."
    )
    sample: float = Field(
        1.0,
        ge=1e-6,  # what is scaled by less is no number
        le=1,
        description="Ask each unit by a secret coin of its own, with this probability: fewer are "
        "read, and intervals are wider.",
    )
    anyway: bool = Field(
        False,
        description="Count also by a model that misreads too often by its rehearsal: "
        "the number is then wrong in a way that no interval holds.",
    )
    fresh: bool = Field(
        False, description="Ask the documents again, and pay again, for what was asked before."
    )
    _words: str | None = PrivateAttr(None)

    @field_validator("labels", mode="before")
    @classmethod
    def _refuse_one_string(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("must be a list, not one string")
        return value

    @model_validator(mode="after")
    def _refuse_fields_of_other_kinds(self) -> Self:
        own = type(self).model_fields if self.kind is None else FIELDS[self.kind]
        for name in sorted(self.model_fields_set - {"kind", *own}):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: the kind {self.kind} has none; leave it out")
        return self

    @classmethod
    def of(cls, kind: Kind | None, **fields: Any) -> Self:
        """A request of a kind, or of that which its question tells.

        Raises:
            ConfigurationError: A field is unknown, not of this kind, of the wrong type or outside
                its range.
        """
        try:
            return cls(kind=kind, **fields)
        except ValidationError as error:
            raise ConfigurationError(_validate.sentence_of(error, cls.model_fields)) from None

    @classmethod
    def in_conversation(cls, kind: Kind | None, **fields: Any) -> Self:
        """The same, but what a client sends with every question is left out where it has no place.

        Raises:
            ConfigurationError: As in ``of``.
        """
        out = {*CONVERSATION} - {*FIELDS[kind]} if kind else set()
        return cls.of(kind, **{name: one for name, one in fields.items() if name not in out})

    @classmethod
    def of_column(cls, given: str, kind: Kind = "column") -> Self:
        """A request for a column's counts or label head: ``status=open,closed``, or ``status``."""
        name, _, values = given.partition("=")
        labels = tuple(one.strip() for one in values.split(",") if one.strip())
        return cls.of(kind, column=name.strip(), labels=labels)

    def settled(self) -> Request:
        """The same with its kind: as it is given, or by its fields and the words of its question.

        A tally without labels has those that its question names. A function of the request alone,
        which is public. What a conversation or a client sends with every question, such as the most
        tokens of an answer, is left out where the kind has none.

        Raises:
            ConfigurationError: A field was given that this kind does not have.
        """
        if self.column is not None or self.kind in _OF_COLUMNS:
            return self._of_column()
        if self.kind == "tally" and not self.labels:
            return self.model_copy(update={"labels": labels_in(self.question or "")})
        if self.kind is not None:
            return self
        given = {
            name: value
            for name in self.model_fields_set - {"kind"}
            if (value := getattr(self, name)) != type(self).model_fields[name].default
        }
        told = asked_for(self.question or "")
        kind = self._settled_by(given.keys() - {"fresh", *CONVERSATION}) or told.kind
        if kind == "tally":
            given.setdefault("labels", told.labels or labels_in(self.question or ""))
        if kind in ("survey", "summary") and told.of_all:
            given["question"] = None
        return Request.in_conversation(kind, **given).asked_as(self.question)

    def _settled_by(self, given: Set[str]) -> Kind | None:
        """The kind that fields settle, whatever is asked; None where they are those of several."""
        if "labels" in given:
            return "label" if "method" in given else "tally"
        others = {kind: fields for kind, fields in FIELDS.items() if kind != "column"}
        kinds = [kind for kind, fields in others.items() if given and given <= {*fields}]
        return kinds[0] if len(kinds) == 1 else None

    def _of_column(self) -> Self:
        """The same with a question, by which its answer is found again."""
        kind: Kind = self.kind or "column"
        if not (self.column or "").strip():
            raise ConfigurationError("name the column whose values are read (column=...)")
        given = {name: getattr(self, name) for name in self.model_fields_set - {"kind"}}
        asked = self.question or _OF_COLUMNS[kind].format(self.column)
        return type(self).in_conversation(kind, **{**given, "question": asked})

    @property
    def read_by(self) -> ReadBy:
        """The reader of units in a tally or a survey."""
        return self.by or ("vectors" if self.kind == "survey" else "model")

    @property
    def words(self) -> str | None:
        """The question, or that of whole documents in whose language the result is told."""
        return self.question or self._words

    @property
    def says_nothing_of_how(self) -> bool:
        """Whether it is a survey of all there is, asked for in words and by no other field."""
        given = {name: getattr(self, name) for name in FIELDS["survey"] if name != "fresh"}
        default = {name: type(self).model_fields[name].default for name in given}
        return self.kind == "survey" and self.words is not None and given == default

    def asked_as(self, words: str | None) -> Self:
        """The same; where it has no question it is told in the language of these words."""
        if self.question:
            return self
        other = self.model_copy()
        other._words = self._words or words
        return other

    def asked(self) -> str:
        """The question.

        Raises:
            ConfigurationError: It has none.
        """
        if self.question is None:
            raise ConfigurationError(f"a {self.kind or 'request'} needs a question")
        return self.question


FIELDS: Mapping[Kind, tuple[str, ...]] = {
    "answer": ("question", "turns", "system", "max_tokens", "stop", "fresh"),
    "label": ("question", "labels", "method"),
    "count": ("question", "turns", "sample", "anyway", "fresh"),
    "tally": ("question", "turns", "labels", "most", "by", "sample", "anyway", "fresh"),
    "column": ("question", "column", "labels", "most", "fresh"),
    "label-head": ("question", "column", "labels", "fresh"),
    "summary": ("question", "turns", "vocabulary", "fresh"),
    "survey": ("question", "turns", "vocabulary", "votes", "threshold", "by", "sample", "fresh"),
    "person": ("question", "turns", "system", "max_tokens", "stop", "fresh"),
}
"""The fields of each kind."""

_OF_COLUMNS: Mapping[Kind, str] = {
    "column": "How many have each {}?",
    "label-head": "Which {} does a text have?",
}
"""Questions of what is released of a column."""

CONVERSATION = ("question", "turns", "system", "max_tokens", "stop")
"""Fields of an answer for which OpenAI's API has places of its own."""


class AnswerFields(TypedDict, total=False):
    """Fields of an answer beside its question, as keywords."""

    turns: Sequence[Turn]
    system: str | None
    max_tokens: int | None
    stop: Sequence[str]
    fresh: bool
