"""The log: one line for every question that was asked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

from dpicl_rag.results import PrivateAnswer


@dataclass
class Exchange:
    """The log entry of one question. Public, but for the question, which is its asker's own.

    Attributes:
        corpus: The model that was asked; empty before it is known to be there.
        caller: Who asks; None where no keys are in use.
        question: As it was asked.
        answer: What came of it; None if nothing was begun.
        left: Whether the client left before the end.
        refused: Status of a refusal that a response of 200 carries, as a tool's does; else 0.
    """

    corpus: str = ""
    caller: str | None = None
    question: str = ""
    answer: PrivateAnswer | None = None
    left: bool = False
    refused: int = 0


class RequestLog:
    """Writes JSON lines.

    It writes to a stream and not through ``logging``, where libraries tell what they like.

    Args:
        stream: Standard output or error; None writes nothing.
        questions: Whether to write the questions down.
    """

    def __init__(self, stream: TextIO | None = None, *, questions: bool = False) -> None:
        self._stream = stream
        self._questions = questions

    def write(self, exchange: Exchange, status: int) -> None:
        """One line.

        Args:
            exchange: What came of the question.
            status: Of HTTP; 499 if the client had gone before the end.
        """
        if self._stream is None:
            return
        answer = exchange.answer
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "caller": exchange.caller,
            "corpus": exchange.corpus,
            "status": status,
            "tokens": 0 if answer is None else answer.tokens,
            "stopped_by": None if answer is None else answer.stopped_by,
        }
        if self._questions:
            line["question"] = exchange.question
        try:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody reads it any more; answers go on.
            self._stream = None
