"""Public knowledge: texts that the public row reads, so that an answer pays only for news."""

from dpicl_rag.knowledge.answer_file import Entry
from dpicl_rag.knowledge.answer_memory import AnswerMemory, NotRememberedWarning
from dpicl_rag.knowledge.bundle import Bundle, PublishedItem
from dpicl_rag.knowledge.public_knowledge import (
    JoinedKnowledge,
    Knowledge,
    PublicDocuments,
    as_knowledge,
)

__all__ = [
    "AnswerMemory",
    "Bundle",
    "Entry",
    "JoinedKnowledge",
    "Knowledge",
    "NotRememberedWarning",
    "PublicDocuments",
    "PublishedItem",
    "as_knowledge",
]
