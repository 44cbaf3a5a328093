"""Schemas of the tools that agents call: arguments, and results. All of it is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpicl_rag import _validate
from dpicl_rag.prompts import plain
from dpicl_rag.requests import Kind, Request
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.protocol.request_bodies import (
    ANY_QUESTION,
    PublicText,
    remote_fields,
    with_fields,
)

ASKED: tuple[Kind, ...] = ("answer", "count", "tally", "survey")
"""Kinds of requests that have a tool."""


class Arguments(BaseModel):
    """What every tool is given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    corpus: PublicText = Field("", description="Which documents.")

    @classmethod
    def schema_for(cls, corpora: Sequence[str]) -> dict[str, Any]:
        """JSON schema, for a caller who may ask these corpora."""
        schema = cls.model_json_schema()
        only = {"default": corpora[0]} if len(corpora) == 1 else {}
        schema["properties"]["corpus"] = {
            "description": cls.model_fields["corpus"].description,
            "enum": [*corpora],
            "type": "string",
            **only,
        }
        if not only:
            schema["required"] = ["corpus", *schema.get("required", ())]
        return schema

    @classmethod
    def of(cls, given: dict[str, Any] | None) -> Arguments:
        """The arguments of a call.

        Raises:
            Refusal: One is missing, unknown or outside its range.
        """
        try:
            return cls.model_validate(given or {})
        except ValidationError as error:
            place, sentence = _validate.place_and_sentence(error)
            raise Refusal(
                400, sentence if place else f"arguments: {sentence}", param=place
            ) from None

    def request(self, kind: Kind | None) -> Request:
        """The request that these arguments make.

        Args:
            kind: That of the tool; None where its arguments or the question tell it.

        Raises:
            Refusal: The question has no words.
        """
        given = self.model_dump(exclude={"corpus"})
        if given.get("question") is not None:
            given["question"] = plain(given["question"])
            if not given["question"].strip():
                raise Refusal(400, "the question is empty", param="question")
        return Request.of(**{"kind": kind, **given})


ARGUMENTS: Mapping[Kind, type[Arguments]] = {
    kind: with_fields(
        f"{kind.capitalize()}Arguments",
        Arguments,
        "question",
        *(("kind", *remote_fields(*ANY_QUESTION)) if kind == "answer" else remote_fields(kind)),
        required={"survey": (), "answer": ("question",)}.get(kind, ("question", "labels")),
    )
    for kind in ASKED
}
"""Arguments of the tool of each kind; that of answers takes any question."""


class ToolResult(BaseModel):
    """A result, or a part of one."""

    model_config = ConfigDict(extra="forbid")


class Cost(ToolResult):
    """Price of a result: the most that it may have revealed, and the charge for that."""

    epsilon: float = Field(description="It is (epsilon, delta)-DP for every privacy unit.")
    delta: float
    rho: float = Field(description="zCDP charged for it at most; 0 for what was given before.")
    from_memory: bool = Field(description="Whether it was released before, and is free now.")


class Range(ToolResult):
    """A noisy count; the true one is from low to high, 95 times in 100."""

    units: int
    low: int
    high: int


class AnswerPart(ToolResult):
    """An item of a list, or a word of a reason."""

    text: str
    count: Range | None = Field(description="About how many units gave it; null: not counted.")


class AnswerResult(Cost):
    """A private answer, or numbers as text and parts."""

    text: str
    kind: str = Field(
        description="What the question asked for: answer, label, count, tally, column, survey or "
        "summary; person where it was about one, and nothing is told."
    )
    numbers: dict[str, Any] | None = Field(description="What the text has in words.")
    stopped_by: str = Field(description="end, length, budget or unavailable")
    supported: bool | None = Field(
        description="Whether the documents back it; where false the text says that they do not, or "
        "is the model's guess, as the owner chose."
    )
    by: str | None = Field(
        description="agreement, tokens, counts, memory or published; public where no document was "
        "asked"
    )
    agreeing: int | None = Field(description="About how many units say so, by a noisy count.")
    agreeing_within: int | None
    parts: list[AnswerPart] = Field(
        description="All items that enough units gave, of a list or a reason; the most frequent "
        "first."
    )
    released: str | None = Field(description="What was released, where the text is that reworded.")


class Part(ToolResult):
    """A part of all units, 0 to 1."""

    part: float
    low: float
    high: float


class ReadRight(ToolResult):
    """The parts that a model reads right, of public documents that say yes, and that say no."""

    yes: float
    no: float


class CountResult(Cost):
    """About how many units say yes."""

    text: str
    yes: Range
    read_right: ReadRight | None = Field(
        description="By the model's rehearsal; the count is corrected by it. None: it is not."
    )
    asked: int | None = Field(description="About how many units were asked; null: not counted.")
    complete: bool = Field(description="False where units had spent their budget and are left out.")


class TallyResult(Cost):
    """About how many units say each label."""

    text: str
    counts: dict[str, Range]
    shares: dict[str, Part]
    total: Range
    read_right: ReadRight | None = Field(
        description="Of documents that a label fits, and that it does not; as of a count."
    )
    complete: bool


class Theme(ToolResult):
    """What some units are about."""

    name: str
    words: dict[str, Range]
    units: Range
    share: Part


class SurveyResult(Cost):
    """What the units are about."""

    text: str
    themes: list[Theme]
    others: Range
    total: Range
    smallest: int = Field(description="Words that fewer units are near to are hardly ever shown.")
    complete: bool


class BudgetScope(ToolResult):
    """One budget that an answer comes out of."""

    kind: str
    name: str | None
    budget_rho: float | None
    budget_epsilon: float | None
    spent_rho: float
    spent_epsilon: float | None
    remaining_rho: float | None
    remaining_epsilon: float | None
    delta: float
    period: str
    renews_on: str | None
    strict: bool
    gaussian: bool
    threshold_answers: int
    standing: str
    answers: int | None
    answers_left: int | None


class Calls(ToolResult):
    """About how many calls of a reader are made."""

    answer: int | None
    count: int | None


class BudgetResult(ToolResult):
    """What an answer costs, and how many are left."""

    model: str
    epsilon: float
    delta: float
    answers_left: int | None = Field(description="By the public bound; null without a limit.")
    calls: Calls | None
    scopes: list[BudgetScope]
