"""One private label of a picture, from private pictures with labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dpicl_rag.answering.answer_plan import label_plan
from dpicl_rag.configuration import PrivacyConfig, Settings
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.ledger import open_account
from dpicl_rag.mechanisms.privacy_filters import privacy_filter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.methods.registry import over_documents
from dpicl_rag.results import PrivateLabel
from dpicl_rag.retrieval.retrievers import GivenDocuments
from dpicl_rag.synthesis.pools import public_labels
from dpicl_rag.vision.base import VisionModel, read_picture, read_rows

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


def classify_image(
    query: bytes | Path,
    documents: Iterable[Document],
    labels: Sequence[str],
    *,
    model: VisionModel,
    method: str = "poe",
    ledger: Ledger | None = None,
    corpus: str = "default",
    caller: str | None = None,
    randomness: Randomness | None = None,
    **settings: Unpack[Settings],
) -> PrivateLabel:
    """Choose one of several labels for a picture, in one private draw.

    Every unit of the documents is an expert, or joins one of ``groups`` random groups by a secret
    coin. An arrival adds an expert in the one case and changes one in the other, which costs twice
    as much; the noise is made for it.

    A document whose image cannot be read, or whose text is none of the labels, counts as an empty
    one, without notice.

    Args:
        query: A public image: the bytes of a file, or its path.
        documents: Private images, each with its label as text; see ``loaders.load_images``.
        labels: The public list.
        model: Reads the images.
        method: ``poe``, ``votes``, ``votes-gaussian``, ``permute-and-flip`` or
            ``permute-and-flip-votes``; see ``dpicl_rag.methods``.
        ledger: Keeps the budget of ``corpus``.
        corpus: Whose budget.
        caller: Who asks, for budgets per caller.
        randomness: Where the coins come from.
        **settings: Of ``PrivacyConfig``: ``epsilon``, ``delta``, ``adjacency``, ``groups``,
            ``privacy_unit``, ``clip``, ``seed``.

    Raises:
        BudgetExceededError: The ledger cannot pay.
        ConfigurationError: A setting is outside its range or does not fit, the labels are no public
            list, or the query cannot be read.
    """
    names = public_labels(labels)
    if len(names) < 2:
        raise ConfigurationError("give at least two labels")
    config = PrivacyConfig.create(**settings)
    if randomness is not None and config.seed is not None:
        raise ConfigurationError("give a seed or randomness, not both")
    coins = randomness or Randomness.of(config.seed)
    given = GivenDocuments(documents, privacy_unit=config.privacy_unit)
    plan = label_plan(config, given.stability, 0.0, partial(over_documents, method, config))
    if plan.takes_priors:
        raise ConfigurationError(f"method {method!r} reads a question without content; use poe")
    picture = read_picture(query, model.side)
    if picture is None:
        raise ConfigurationError("the query is no JPEG or PNG image that can be read")
    cost = plan.mechanism.rho
    with open_account(ledger, corpus=corpus, caller=caller, rho=plan.rho, at_least=cost) as account:
        spend = privacy_filter(account, (), cost)
        experts = grouped(group_by_unit(given.retrieve("")), plan.groups, coins)
        with enough_memory():
            step = read_rows(model, experts, picture, names)
            chosen = plan.mechanism.draw(step, spend, coins)
    return PrivateLabel(names[chosen], config.epsilon, plan.mechanism.delta, spend.rho)


def grouped(
    units: Mapping[str, Sequence[Document]], groups: int | None, randomness: Randomness
) -> list[list[Document]]:
    """The documents of each expert.

    Args:
        units: Documents of each unit.
        groups: A public number of groups, which each unit joins by its own coin (stability
            ``RANDOM_GROUPS``); None for one expert each (``DIRECT``).
        randomness: Where the coins come from.
    """
    if groups is None:
        return [list(own) for own in units.values()]
    members: list[list[Document]] = [[] for _ in range(groups)]
    for own in units.values():
        members[randomness.below(groups)].extend(own)
    return members
