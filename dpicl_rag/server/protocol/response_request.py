"""Requests to ``/v1/responses``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dpicl_rag.prompts import plain
from dpicl_rag.requests import Request
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.protocol import fields
from dpicl_rag.server.protocol.conversation import Message, conversation

_REFUSED = {
    **fields.REFUSED,
    "background": (None, False),
    "include": (None, []),
    "max_tool_calls": (None,),
    "prompt": (None,),
    "text": (None, {}, {"format": {"type": "text"}}),
}
_KEPT = ("previous_response_id", "conversation")
_WITHOUT_EFFECT = fields.WITHOUT_EFFECT | {
    *("reasoning", "truncation", "stream_options", "context_management", "prompt_cache_retention"),
}


class InputMessage(Message):
    """A message among the items of ``input``. Items of other types are refused."""

    type: Literal["message"] = "message"


class ResponseRequest(fields.Body):
    """The body of ``/v1/responses``."""

    model_config = fields.with_other_fields(
        {**_REFUSED, **dict.fromkeys(_KEPT, (None,))}, _WITHOUT_EFFECT
    )
    refused: ClassVar = _REFUSED
    without_effect: ClassVar = _WITHOUT_EFFECT

    input: (
        Annotated[str, Field(min_length=1)]
        | Annotated[list[InputMessage], Field(min_length=1, max_length=256)]
    )
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)

    def ignored(self) -> list[str]:
        """See ``Body``. No response is kept, so none can be gone on from."""
        extra = self.model_extra or {}
        for name in _KEPT:
            if extra.pop(name, None) is not None:
                raise Refusal(
                    400,
                    "nothing is kept from one request to the next; send the turns before the "
                    "question in input",
                    param=name,
                )
        return super().ignored()

    def asked(self) -> Request:
        """The question, and how it is asked.

        Raises:
            Refusal: There is none.
        """
        if isinstance(self.input, str):
            items = [InputMessage(role="user", content=self.input)]
        else:
            items = self.input
        system, turns, question = conversation(items, param="input")
        told = [words for words in (plain(self.instructions or ""), system) if words]
        instruction = "\n".join(told) or None
        most = self.max_output_tokens
        return Request.of(
            "answer",
            question=question,
            turns=turns,
            system=instruction,
            max_tokens=most,
            **self.dpicl.model_dump(),
        )
