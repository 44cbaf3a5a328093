"""Tallies by stored vectors: a unit says the labels that its passages are nearest to."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag import _validate
from dpicl_rag.accounting import DIRECT
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import Documents, vectors_of
from dpicl_rag.surveys.counting import Counting
from dpicl_rag.surveys.released_counts import Counted
from dpicl_rag.surveys.survey_results import PrivateTally
from dpicl_rag.surveys.tally_plan import tally_plan
from dpicl_rag.surveys.vocabulary import Vocabulary
from dpicl_rag.surveys.word_votes import nearest_words


def tally_by_vectors(
    question: str,
    labels: Sequence[str],
    documents: Documents,
    counting: Counting,
    *,
    most: int = 1,
    sample: float = 1.0,
) -> PrivateTally:
    """Noisy counts of the units that are nearest to each label; all units pay.

    Args:
        question: Public text, which stands before each label.
        labels: At least two. Public.
        documents: A corpus, a Chroma collection or a list. Private.
        counting: Settings, budget, coins and memory.
        most: Labels that one unit says.
        sample: Public probability with which a unit is asked, by a secret coin of its own.

    Raises:
        ConfigurationError: The labels or the settings do not fit, or ``documents`` is a search.
        BudgetExceededError: A budget of the ledger cannot pay.
    """
    config = counting.config
    if len(labels) < 2:
        raise ConfigurationError("give at least two labels, none of them empty")
    if _validate.count("most", most) > len(labels):
        raise ConfigurationError(f"a unit cannot say {most} of {len(labels)} labels")
    _validate.rate("sample", sample)
    if config.accounting == "individual":
        raise ConfigurationError("all units say a label and pay; leave accounting out")
    plan = tally_plan(config, DIRECT, 0.0, len(labels), most)
    embedder = getattr(documents, "embedder", None) or SentenceTransformerEmbedder()

    def release() -> PrivateTally:
        public = Vocabulary.embedded([f"{question} {label}".strip() for label in labels], embedder)
        with counting.open_account(rho=plan.rho) as account:
            vectors = vectors_of(documents, embedder, config.privacy_unit)
            asked = vectors.sampled(sample, counting.randomness)
            *counts, _ = nearest_words(asked.blocks, public.vectors, most)
            account.pay(plan.mechanism.rho)
            noisy = plan.mechanism.draw(counts, counting.randomness)
        noise = plan.mechanism.noise
        counted = Counted(noisy, noise, sample, config.epsilon, config.delta, plan.rho)
        return PrivateTally.of(question, labels, counted)

    shaping = (tuple(labels), most, sample, embedder.fingerprint)
    return counting.remembered.or_release(PrivateTally, question, shaping, config, release)
