"""Arguments of the tools that agents call. All of them are public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpicl_rag.server.failures import Refusal
from dpicl_rag.surveys.counts_units import ReadBy

LONGEST_QUESTION = 4096
"""Letters."""

Text = Annotated[str, Field(min_length=1, max_length=512)]
Question = Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)]
Fresh = Annotated[
    bool, Field(description="Read the documents again, and pay again, for what was asked before.")
]
Sample = Annotated[
    float, Field(gt=0, le=1, description="Ask each unit with this probability: fewer are read.")
]


class Arguments(BaseModel):
    """What every tool is given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    corpus: Text = Field(description="Which documents.")

    @classmethod
    def schema_for(cls, corpora: Sequence[str]) -> dict[str, Any]:
        """JSON schema, for a caller who may ask these corpora.

        Args:
            corpora: Their names.
        """
        schema = cls.model_json_schema()
        schema["properties"]["corpus"]["enum"] = [*corpora]
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
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])[:128]
            raise Refusal(400, f"{place or 'arguments'}: {first['msg']}", param=place) from None


class AskArguments(Arguments):
    """A question that a document answers."""

    question: Question = Field(description="A whole question that stands by itself. Public.")
    fresh: Fresh = False


class CountArguments(Arguments):
    """A question that each unit answers with yes or no."""

    question: Question = Field(description="A question of yes or no about one unit. Public.")
    sample: Sample = 1.0
    fresh: Fresh = False


class TallyArguments(Arguments):
    """A question and the answers that are counted."""

    question: Question = Field(description="What each unit is asked. Public.")
    labels: list[Text] = Field(max_length=256, description="Answers that are counted. Public.")
    most: int = Field(1, ge=1, description="Labels that one unit says at most.")
    by: ReadBy | None = Field(
        None, description="What reads a unit: the model, or stored vectors, which tell subjects."
    )
    sample: Sample = 1.0
    fresh: Fresh = False


class SurveyArguments(Arguments):
    """What the units are about, or what they say to a question."""

    question: Question | None = Field(None, description="What they are asked, if anything. Public.")
    by: ReadBy | None = Field(None, description="What reads a unit; stored vectors by default.")
    sample: Sample = 1.0
    fresh: Fresh = False


class BudgetArguments(Arguments):
    """Whose budget."""
