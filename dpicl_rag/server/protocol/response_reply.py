"""Replies of ``/v1/responses``: one body, or events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from dpicl_rag.results import PrivateAnswer
from dpicl_rag.server.failures import refusal
from dpicl_rag.server.protocol.guarantee import asked, privacy
from dpicl_rag.server.served_answer import ServedAnswer, news

_PLACE = {"output_index": 0, "content_index": 0}


def body(answering: ServedAnswer, answer: PrivateAnswer) -> dict[str, Any]:
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


async def events(answering: ServedAnswer) -> AsyncIterator[str]:
    """An answer as it is drawn."""
    event = _Events(answering)
    try:
        for kind in ("response.created", "response.in_progress"):
            yield event(kind, response=_begun(answering))
        item = _message(answering, [], "in_progress")
        yield event("response.output_item.added", output_index=0, item=item)
        yield event("response.content_part.added", **_PLACE, part=_text(""))
        async for found in news(answering):
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
    """Events in their order.

    Attributes:
        answering: What they are about.
        number: Of the next.
    """

    answering: ServedAnswer
    number: int = 0

    def __call__(self, kind: str, **fields: Any) -> str:
        found = {"type": kind, "sequence_number": self.number, **fields}
        if "content_index" in fields:
            found["item_id"] = _item(self.answering)
        self.number += 1
        return f"event: {kind}\ndata: {json.dumps(found)}\n\n"


def _begun(answering: ServedAnswer) -> dict[str, Any]:
    """A response before its first word."""
    return {
        "id": f"resp_{answering.id}",
        "object": "response",
        "created_at": answering.created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": answering.asked.system,
        "max_output_tokens": answering.asked.max_tokens,
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
        **asked(answering),
    }


def _item(answering: ServedAnswer) -> str:
    return f"msg_{answering.id}"


def _message(answering: ServedAnswer, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    made = {"id": _item(answering), "type": "message", "role": "assistant"}
    return {**made, "status": status, "content": content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
