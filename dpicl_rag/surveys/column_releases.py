"""Releases from a metadata column: counts of its values, and the label head of its labels.

A unit has the values that its documents have in the column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.documents import Document, field_text
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreement, Histogram, bounded
from dpicl_rag.prompts import plain
from dpicl_rag.requests import Request
from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import Documents, all_units
from dpicl_rag.surveys.count_plans import column_plan
from dpicl_rag.surveys.paying_units import taking_part
from dpicl_rag.surveys.remembered_counts import memory_of_counts, remembered_or_released
from dpicl_rag.surveys.survey_results import Counted, PrivateColumn
from dpicl_rag.synthesis.label_head import LabelHead, LabelHeadPlan, paid_head
from dpicl_rag.synthesis.pools import LabelledDocument, public_labels


def count_column(request: Request, documents: Documents, run: PrivateRun) -> PrivateColumn:
    """Count units by the values of a metadata column, of which a unit has those of its documents.

    Of public values every one is counted. Without a list those are released that enough units have,
    by a threshold on noisy counts. Of a unit with more than count, coins of its own choose.

    Args:
        request: Names the column, and perhaps the values that are counted.
        documents: Private: a corpus, a store, or a list.
        run: Pays.

    Raises:
        ConfigurationError: ``documents`` is a search, which finds a part of the units.
        DeltaSpentError: No budget is left for the threshold of values that are not given.
    """
    _require_all_units(documents)
    column, labels, most = request.column or "", request.labels, request.most
    plan, _ = plan_of_column(request, documents, run)
    counts, coins = plan.mechanism, run.randomness

    def release() -> PrivateColumn:
        units = _units(documents, run)
        with taking_part(plan, documents, run, [*units]) as some:
            held = _held(column, [units[name] for name in some.among(units)])
            some.account.pay(plan.price("counts"), delta=plan.threshold_delta)
            smallest, values = None, labels
            if isinstance(counts, Agreement):
                listed, smallest = counts.draw(held, coins), counts.threshold
                values, noisy = tuple(one.key for one in listed), [one.count for one in listed]
            else:
                given = ([one for one in own if one in labels] for own in held)
                found = Counter(one for own in given for one in bounded(own, most, coins))
                noisy = counts.draw([found[one] for one in labels], coins)
        assert isinstance(counts.noise, DiscreteGaussian)
        cost = plan.epsilon, plan.delta, plan.rho, some.complete
        counted = Counted(noisy, counts.noise, 1.0, *cost)
        told = dict(zip(values, counted.estimates, strict=True))
        return PrivateColumn(request.asked(), told, counted.total, *counted.cost, smallest=smallest)

    memory, shaping = memory_of_counts(documents, run), (column, labels, most)
    return remembered_or_released(memory, PrivateColumn, request, shaping, run, release)


def plan_of_column(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Histogram | Agreement], None]:
    """The plan of a column's counts; a model reads nothing for it."""
    values = len(request.labels)
    if values and len({*request.labels}) < max(values, request.most):
        raise ConfigurationError("give each value once, and no fewer than a unit may have (most)")
    return column_plan(run.config, values, request.most, booked=run.booked), None


def release_head(request: Request, documents: Documents, run: PrivateRun) -> LabelHead:
    """Release the label head of a metadata column, in which texts have their labels.

    Args:
        request: Names the column and its labels; others are left out.
        documents: As in `count_column`. Their texts are embedded anew.
        run: Pays.

    Raises:
        ConfigurationError: As in `count_column`, or as of its plan.
    """
    _require_all_units(documents)
    plan, _ = plan_of_head(request, documents, run)
    embedder = getattr(documents, "embedder", None) or SentenceTransformerEmbedder()
    with run.open_account(documents, rho=plan.rho, gaussian=plan.gaussian) as account:
        labelled = (
            LabelledDocument(one.text, _value(one, request.column or ""), unit)
            for unit, own in _units(documents, run).items()
            for one in own
        )
        return paid_head(
            account, labelled, request.labels, plan.mechanism, embedder, run.randomness
        )


def plan_of_head(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[LabelHeadPlan], None]:
    """The plan of a label head; a language model reads nothing for it.

    Raises:
        ConfigurationError: Fewer than two labels are given, or settings of single units.
    """
    config = run.config
    if config.accounting == "individual" or config.groups is not None:
        raise ConfigurationError("all units of a label head pay; leave accounting and groups out")
    head = LabelHeadPlan(
        len(public_labels(request.labels)),
        config.epsilon,
        config.delta,
        config.adjacency,
        gaussian=config.only_gaussian,
    )
    plan = Plan(
        mechanism=head,
        individual=False,
        epsilon=head.epsilon,
        delta=head.delta,
        rho=head.rho,
        parts=head.parts,
        gaussian=head.gaussian,
    )
    return plan, None


def _require_all_units(documents: Documents) -> None:
    if isinstance(documents, Retriever):
        raise ConfigurationError("a column is of all units; give a corpus, a store, or a list")


def _units(documents: Documents, run: PrivateRun) -> Mapping[str, Sequence[Document]]:
    """The documents of each unit. Private."""
    return all_units(documents, run.config.privacy_unit).search("").choose().units


def _value(document: Document, column: str) -> str:
    """What a document has in a column; empty where it has nothing. Private."""
    return plain(field_text(document.metadata.get(column)) or "").strip()


def _held(column: str, units: Sequence[Sequence[Document]]) -> list[list[str]]:
    """The values of each unit that has some, each once, in an order of their own. Private."""
    return [sorted({_value(one, column) for one in own} - {""}) for own in units]
