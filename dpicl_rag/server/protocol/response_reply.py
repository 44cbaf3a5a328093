"""``/v1/responses``: its requests, and replies in one body or as events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from dpicl_rag.prompts import plain
from dpicl_rag.requests import Request
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.server.failures import Refusal, refusal
from dpicl_rag.server.protocol import request_bodies
from dpicl_rag.server.protocol.request_bodies import Message, conversation
from dpicl_rag.server.served_request import ServedRequest, privacy

_PLACE = {"output_index": 0, "content_index": 0}


def body(answering: ServedRequest, answer: PrivateAnswer) -> dict[str, Any]:
    """The body of an answer that was not streamed, and the last event of one that was."""
    ended = answer.stopped_by == "end"
    return {
        **_begun(answering),
        "status": "completed" if ended else "incomplete",
        "incomplete_details": None if ended else {"reason": "max_output_tokens"},
        "output": [_message(answering, [_text(answer.text)], "completed")],
        "usage": {
            "input_tokens": answering.asked_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answer.tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answering.asked_tokens + answer.tokens,
        },
        "privacy": privacy(answer),
    }


async def events(answering: ServedRequest) -> AsyncIterator[str]:
    """An answer as it is drawn."""
    event = _Events(answering)
    try:
        for kind in ("response.created", "response.in_progress"):
            yield event(kind, response=_begun(answering))
        item = _message(answering, [], "in_progress")
        yield event("response.output_item.added", output_index=0, item=item)
        yield event("response.content_part.added", **_PLACE, part=_text(""))
        async for found in answering.news():
            if isinstance(found, str):
                more = {"delta": found, "logprobs": []}
                yield event("response.output_text.delta", **_PLACE, **more)
            else:
                yield f": read {found:g}\n\n"
        answer = await answering.ended()
        whole = body(answering, answer)
        yield event("response.output_text.done", **_PLACE, text=answer.text, logprobs=[])
        yield event("response.content_part.done", **_PLACE, part=_text(answer.text))
        yield event("response.output_item.done", output_index=0, item=whole["output"][0])
        yield event(f"response.{whole['status']}", response=whole)
    except Exception as error:
        failed = refusal(error).body["error"]
        details = {name: failed[name] for name in ("code", "message", "param")}
        yield event("error", **details)
    answering.exchange.left = False


@dataclass
class _Events:
    """Events in their order."""

    answering: ServedRequest
    number: int = 0

    def __call__(self, kind: str, **fields: Any) -> str:
        found = {"type": kind, "sequence_number": self.number, **fields}
        if "content_index" in fields:
            found["item_id"] = _item(self.answering)
        self.number += 1
        return f"event: {kind}\ndata: {json.dumps(found)}\n\n"


def _begun(answering: ServedRequest) -> dict[str, Any]:
    """A response before its first word."""
    return {
        "id": f"resp_{answering.id}",
        "object": "response",
        "created_at": answering.created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": answering.request.system,
        "max_output_tokens": answering.request.max_tokens,
        "model": answering.name,
        "output": [],
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "store": False,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
        **answering.shown_question,
    }


def _item(answering: ServedRequest) -> str:
    return f"msg_{answering.id}"


def _message(
    answering: ServedRequest, content: list[dict[str, Any]], status: str
) -> dict[str, Any]:
    made = {"id": _item(answering), "type": "message", "role": "assistant"}
    return {**made, "status": status, "content": content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


_LENGTHS = [{}, *({"verbosity": one} for one in (None, "low", "medium", "high"))]
_TEXTS = [{**form, **one} for form in ({}, {"format": {"type": "text"}}) for one in _LENGTHS]
_REFUSED = {
    **request_bodies.REFUSED,
    "background": (None, False),
    "include": (None, []),
    "max_tool_calls": (None,),
    "prompt": (None,),
    "text": (None, *_TEXTS),
}
_KEPT = ("previous_response_id", "conversation")
_WITHOUT_EFFECT = request_bodies.WITHOUT_EFFECT | {
    *("reasoning", "truncation", "stream_options", "context_management", "prompt_cache_retention"),
    "text",
}


class InputMessage(Message):
    """A message among the items of ``input``. Items of other types are refused."""

    type: Literal["message"] = "message"


class ResponseRequest(request_bodies.Body):
    """The body of ``/v1/responses``."""

    model_config = request_bodies.with_other_fields(
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
        """Fields without an effect, as in ``Body``. No response is kept to be gone on from."""
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
        return Request.in_conversation(
            question=question,
            turns=turns,
            system=instruction,
            max_tokens=most,
            **self.dpicl.model_dump(),
        )
