"""A reader whose replies are a function of the prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class ScriptedReader:
    """Replies as it is told, and remembers what it was asked."""

    fingerprint = "scripted"

    def __init__(self, reply: Callable[[str], str]) -> None:
        self._reply = reply
        self.asked: list[str] = []

    def replies(self, prompts: Sequence[str], on_progress=None) -> list[str]:
        self.asked += prompts
        return [self._reply(prompt) for prompt in prompts]


def document_of(prompt: str) -> str:
    """The document in a prompt for notes or labels."""
    return prompt.split("Document:\n")[1].split("\n\nQuestion:")[0]
