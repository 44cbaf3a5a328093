"""Counts that were released before: the same one again costs nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import KnowledgeError
from dpicl_rag.knowledge.answer_file import Entry
from dpicl_rag.knowledge.answer_memory import AnswerMemory
from dpicl_rag.surveys.survey_results import PrivateCount, PrivateSurvey, PrivateTally

R = TypeVar("R", PrivateCount, PrivateTally, PrivateSurvey)

_OF_WHOLE_UNITS = "What are the documents about?"  # of a survey that asks nothing
_ROUNDING = 1e-9  # of an epsilon that is turned into rho


@dataclass(frozen=True, slots=True)
class Remembered:
    """Where counts of one corpus are kept, and whether a kept one will do.

    Attributes:
        memory: Of the corpus that is counted; None keeps nothing.
        fresh: Count again what is kept.
    """

    memory: AnswerMemory | None = None
    fresh: bool = False

    def or_release(
        self,
        kind: type[R],
        question: str | None,
        shaping: tuple[object, ...],
        config: PrivacyConfig,
        release: Callable[[], R],
    ) -> R:
        """What was released before, if it has no more noise than is asked for; else release it.

        Args:
            kind: A count, a tally or a survey.
            question: What units are asked. Public.
            shaping: All else that shapes it but epsilon and delta. Public.
            config: Public settings.
            release: Counts, and pays.

        Raises:
            KnowledgeError: The memory cannot be read. Nothing is spent.
        """
        if self.memory is None:
            return release()
        asked = question or _OF_WHOLE_UNITS
        shaped = (kind.__name__, config.adjacency.value, config.privacy_unit, *shaping)
        form = hashlib.sha256(repr(shaped).encode("utf-8", "replace")).hexdigest()[:16]
        if not self.fresh and (entry := self.memory.same_count(asked, form)):
            found, least = _read(entry, kind), epsilon_to_rho(config.epsilon, config.delta)
            if found.rho >= least * (1 - _ROUNDING):
                return replace(found, epsilon=0.0, delta=0.0, rho=0.0, from_memory=True)
        released = release()
        numbers = TypeAdapter(kind).dump_json(released).decode()
        self.memory.keep_count(asked, form, released, released.text, numbers)
        return released


def _read(entry: Entry, kind: type[R]) -> R:
    try:
        return TypeAdapter(kind).validate_json(entry.numbers)
    except ValidationError:
        raise KnowledgeError(
            f"entry {entry.id} of the memory is damaged; `dpicl-rag memory forget {entry.id}` "
            "forgets it"
        ) from None
