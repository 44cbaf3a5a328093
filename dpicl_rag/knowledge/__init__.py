"""Public knowledge: texts that the public row reads, so that an answer pays only for news."""

from dpicl_rag.knowledge.answer_memory import AnswerMemory, NotRememberedWarning
from dpicl_rag.knowledge.base import Knowledge
from dpicl_rag.knowledge.entry import Entry
from dpicl_rag.knowledge.joined import JoinedKnowledge, as_knowledge
from dpicl_rag.knowledge.public_documents import PublicDocuments

__all__ = [
    "AnswerMemory",
    "Entry",
    "JoinedKnowledge",
    "Knowledge",
    "NotRememberedWarning",
    "PublicDocuments",
    "as_knowledge",
]
