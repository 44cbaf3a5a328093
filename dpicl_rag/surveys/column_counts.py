"""Counts of a metadata column: how many units have each value.

Of public values every one is counted, with noise on each. Without a list those are released that
enough units have, by a threshold on noisy counts, so that no rare value shows. A unit has the
values of all of its documents; of more than count, coins of its own choose (docs/privacy.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.documents import field_text
from dpicl_rag.errors import ConfigurationError, DeltaSpentError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreement, Histogram, bounded
from dpicl_rag.prompts import plain
from dpicl_rag.requests import Request
from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.retrievers import Documents, all_units
from dpicl_rag.surveys.count_plans import column_plan
from dpicl_rag.surveys.remembered_counts import memory_of_counts, remembered_or_released
from dpicl_rag.surveys.survey_results import Counted, PrivateColumn


def count_column(request: Request, documents: Documents, run: PrivateRun) -> PrivateColumn:
    """Count units by the values of a metadata column.

    Args:
        request: Names the column, and perhaps the values that are counted.
        documents: Private: a corpus, a store, or a list.
        run: Pays.

    Raises:
        ConfigurationError: ``documents`` is a search, which finds a part of the units.
        BudgetExceededError: A budget of the ledger cannot pay.
        DeltaSpentError: Nor for the threshold of values that are not given.
        MissingDocumentsError: ``documents`` is None.
    """
    if isinstance(documents, Retriever):
        raise ConfigurationError("a column is of all units; give a corpus, a store, or a list")
    column, labels = request.column or "", request.labels
    plan, _ = plan_of_column(request, documents, run)
    counts = plan.mechanism

    def release() -> PrivateColumn:
        opened = run.open_account(
            documents, rho=plan.rho, delta=plan.threshold_delta, gaussian=plan.gaussian
        )
        with opened as account:
            if not account.pays_thresholds(plan.threshold_delta):
                raise DeltaSpentError
            held = _held(column, documents, run)
            account.pay(plan.price("counts"), delta=plan.threshold_delta)
            if isinstance(counts, Histogram):
                given = [[one for one in own if one in labels] for own in held]
                every = (bounded(own, request.most, run.randomness) for own in given)
                found = Counter(one for own in every for one in own)
                noisy = counts.draw([found[one] for one in labels], run.randomness)
                return _result(request, labels, noisy, plan)
            listed = counts.draw(held, run.randomness)
        return _result(request, [one.key for one in listed], [one.count for one in listed], plan)

    memory = memory_of_counts(documents, run)
    shaping = (column, labels, request.most)
    return remembered_or_released(memory, PrivateColumn, request, shaping, run, release)


def plan_of_column(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Histogram | Agreement], None]:
    """The plan of a column's counts; a model reads nothing for it."""
    if len(set(request.labels)) < len(request.labels):
        raise ConfigurationError("a value stands there twice, and would be counted twice")
    if request.labels and request.most > len(request.labels):
        raise ConfigurationError("a unit cannot have more values than are counted")
    values = len(request.labels)
    return column_plan(run.config, values, request.most, booked=run.booked), None


def _held(column: str, documents: Documents, run: PrivateRun) -> list[list[str]]:
    """The values of each unit that has some, each once, in an order of their own. Private."""
    units = all_units(documents, run.config.privacy_unit).search("").choose().units.values()
    texts = [
        [plain(field_text(one.metadata.get(column)) or "").strip() for one in own] for own in units
    ]
    return [sorted({*own} - {""}) for own in texts]


def _result(
    request: Request,
    values: Sequence[str],
    noisy: Sequence[int],
    plan: Plan[Histogram | Agreement],
) -> PrivateColumn:
    counts = plan.mechanism
    assert isinstance(counts.noise, DiscreteGaussian)
    counted = Counted(noisy, counts.noise, 1.0, plan.epsilon, plan.delta, plan.rho)
    return PrivateColumn(
        request.asked(),
        dict(zip(values, counted.estimates, strict=True)),
        counted.total,
        *counted.cost,
        smallest=counts.threshold if isinstance(counts, Agreement) else None,
    )
