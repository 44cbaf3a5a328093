"""Arguments of the tools that agents call. All of them are public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpicl_rag import _validate
from dpicl_rag.prompts import plain
from dpicl_rag.requests import Kind, Request
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.request_fields import PublicText, remote_fields, with_fields

ASKED: tuple[Kind, ...] = ("answer", "count", "tally", "survey")
"""Kinds of requests that have a tool."""


class Arguments(BaseModel):
    """What every tool is given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    corpus: PublicText = Field(description="Which documents.")

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
            place, sentence = _validate.place_and_sentence(error)
            raise Refusal(
                400, sentence if place else f"arguments: {sentence}", param=place
            ) from None

    def request(self, kind: Kind) -> Request:
        """What is asked.

        Raises:
            Refusal: The question has no words.
        """
        given = self.model_dump(exclude={"corpus"})
        if given.get("question") is not None:
            given["question"] = plain(given["question"])
            if not given["question"].strip():
                raise Refusal(400, "the question is empty", param="question")
        return Request.of(kind, **given)


ARGUMENTS: Mapping[Kind, type[Arguments]] = {
    kind: with_fields(
        f"{kind.capitalize()}Arguments",
        Arguments,
        "question",
        *remote_fields(kind),
        required=() if kind == "survey" else ("question", "labels"),
    )
    for kind in ASKED
}
"""Arguments of the tool of each kind."""
