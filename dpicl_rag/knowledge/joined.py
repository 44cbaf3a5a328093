"""Several sources of public knowledge as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.knowledge.answer_memory import AnswerMemory
from dpicl_rag.knowledge.base import Knowledge
from dpicl_rag.knowledge.public_documents import PublicDocuments


class JoinedKnowledge:
    """Texts that each source recalls, in the order in which the sources are given.

    Args:
        sources: At most one of them is a memory of released answers.

    Raises:
        ConfigurationError: There are two memories: which one keeps an answer is not defined.
    """

    def __init__(self, sources: Sequence[Knowledge]) -> None:
        self._sources: tuple[Knowledge, ...] = tuple(
            part
            for source in sources
            for part in (source._sources if isinstance(source, JoinedKnowledge) else (source,))
        )
        memories = [source for source in self._sources if isinstance(source, AnswerMemory)]
        if len(memories) > 1:
            raise ConfigurationError("give one memory of released answers, not two")
        self.memory = memories[0] if memories else None

    def __repr__(self) -> str:
        return f"JoinedKnowledge({list(self._sources)!r})"

    def recall(self, question: str) -> list[str]:
        """See `Knowledge.recall`."""
        return [text for source in self._sources for text in source.recall(question)]


def as_knowledge(given: Any) -> JoinedKnowledge:
    """Public knowledge from whatever a caller gives.

    Args:
        given: None, a `Knowledge`, what `PublicDocuments` takes, or a list of these.

    Raises:
        ConfigurationError: It is none of these, or private.
    """
    if isinstance(given, JoinedKnowledge):
        return given
    if given is None:
        return JoinedKnowledge(())
    every = given if isinstance(given, (list, tuple)) else (given,)
    return JoinedKnowledge([_source(one) for one in every])


def _source(given: Any) -> Knowledge:
    if isinstance(given, type) or not isinstance(given, Knowledge):
        return PublicDocuments(given)
    return given
