"""Tallies by stored vectors: a unit says the labels that its passages are nearest to."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag import _validate
from dpicl_rag.accounting import DIRECT
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.given import Documents, vectors_of
from dpicl_rag.surveys.surveying import OpenAccount
from dpicl_rag.surveys.tally_plan import tally_plan
from dpicl_rag.surveys.tallying import Counted
from dpicl_rag.surveys.vocabulary import Vocabulary
from dpicl_rag.surveys.word_votes import nearest_words


def tally_by_vectors(
    question: str,
    labels: Sequence[str],
    documents: Documents,
    *,
    config: PrivacyConfig,
    most: int,
    open_account: OpenAccount,
    randomness: Randomness,
) -> Counted:
    """Noisy counts of the units that are nearest to each label; all units pay.

    Args:
        question: Public text, which stands before each label.
        labels: At least two. Public.
        documents: A corpus, a Chroma collection or a list. Private.
        config: Public settings.
        most: Labels that one unit says.
        open_account: Holds the budget.
        randomness: Where the noise comes from.

    Raises:
        ConfigurationError: The labels or the settings do not fit, or ``documents`` is a search.
        BudgetExceededError: A budget of the ledger cannot pay.
    """
    if len(labels) < 2:
        raise ConfigurationError("give at least two labels, none of them empty")
    if _validate.count("most", most) > len(labels):
        raise ConfigurationError(f"a unit cannot say {most} of {len(labels)} labels")
    if config.accounting == "individual":
        raise ConfigurationError("all units say a label and pay; leave accounting out")
    plan = tally_plan(config, DIRECT, 0.0, len(labels), most)
    embedder = getattr(documents, "embedder", None) or SentenceTransformerEmbedder()
    public = Vocabulary.embedded([f"{question} {label}".strip() for label in labels], embedder)
    with open_account(rho=plan.rho) as account:
        blocks = vectors_of(documents, embedder, config.privacy_unit).blocks
        *counts, _ = nearest_words(blocks, public.vectors, most)
        account.pay(plan.mechanism.rho)
        noisy = plan.mechanism.draw(counts, randomness)
    return Counted(
        noisy=noisy,
        noise=plan.mechanism.noise,
        rate=1.0,
        epsilon=config.epsilon,
        delta=config.delta,
        rho=plan.rho,
        complete=True,
    )
