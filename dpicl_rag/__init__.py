"""Answers from private documents with a differential privacy guarantee.

Names are imported when first used, so that ``import dpicl_rag`` loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag._packaged import importing

if TYPE_CHECKING:
    from dpicl_rag.accounting import Adjacency, Stability
    from dpicl_rag.answering.plan import FewUnitsWarning, Plan
    from dpicl_rag.answering.private_stream import AsyncPrivateStream, PrivateStream
    from dpicl_rag.configuration import PrivacyConfig
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.documents import Document
    from dpicl_rag.errors import (
        BudgetExceededError,
        ConfigurationError,
        ContextLengthError,
        CorpusError,
        DPICLError,
        EngineUnavailableError,
        KnowledgeError,
        LedgerError,
        LoaderError,
        MissingDependencyError,
        MissingDocumentsError,
        ModelError,
    )
    from dpicl_rag.knowledge import AnswerMemory, Bundle, NotRememberedWarning, PublicDocuments
    from dpicl_rag.language_models.openai_compatible.openai_model import OpenAICompatibleModel
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.language_models.ray import RayModel
    from dpicl_rag.language_models.readers.reply_cache import ReplyCache
    from dpicl_rag.language_models.transformers import TransformersModel
    from dpicl_rag.ledger import Ledger, NoBudgetWarning
    from dpicl_rag.loaders import load
    from dpicl_rag.mechanisms.randomness import NotPrivateWarning
    from dpicl_rag.private_context_llm import PrivateContextLLM
    from dpicl_rag.prompts import Example, PromptTemplate
    from dpicl_rag.publishing import publish
    from dpicl_rag.rehearsal import Rehearsal
    from dpicl_rag.requests import Request
    from dpicl_rag.results import PrivateAnswer, PrivateLabel
    from dpicl_rag.retrieval import (
        CountedRetriever,
        PoissonSampledRetriever,
        PrivateThresholdRetriever,
        PrivateTopKRetriever,
        ThresholdRetriever,
        TopKRetriever,
    )
    from dpicl_rag.surveys.survey_results import (
        PrivateCount,
        PrivateSummary,
        PrivateSurvey,
        PrivateTally,
    )

__getattr__, __dir__ = importing(__name__)

__version__ = "0.2.0.dev0"
__all__ = [
    "Adjacency",
    "AnswerMemory",
    "AsyncPrivateStream",
    "BudgetExceededError",
    "Bundle",
    "ConfigurationError",
    "ContextLengthError",
    "Corpus",
    "CorpusError",
    "CountedRetriever",
    "DPICLError",
    "Document",
    "EngineUnavailableError",
    "Example",
    "FewUnitsWarning",
    "KnowledgeError",
    "Ledger",
    "LedgerError",
    "LoaderError",
    "MissingDependencyError",
    "MissingDocumentsError",
    "ModelError",
    "NoBudgetWarning",
    "NotPrivateWarning",
    "NotRememberedWarning",
    "OpenAICompatibleModel",
    "Plan",
    "PoissonSampledRetriever",
    "PrefixCache",
    "PrivacyConfig",
    "PrivateAnswer",
    "PrivateContextLLM",
    "PrivateCount",
    "PrivateLabel",
    "PrivateStream",
    "PrivateSummary",
    "PrivateSurvey",
    "PrivateTally",
    "PrivateThresholdRetriever",
    "PrivateTopKRetriever",
    "PromptTemplate",
    "PublicDocuments",
    "RayModel",
    "Rehearsal",
    "ReplyCache",
    "Request",
    "Stability",
    "ThresholdRetriever",
    "TopKRetriever",
    "TransformersModel",
    "load",
    "publish",
]
