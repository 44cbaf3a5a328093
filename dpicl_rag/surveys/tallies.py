"""Counts and tallies: opinions of units, counted and paid for, with noise on each count.

Units are read by the language model, by a reader, or by the vectors that a corpus stores: a unit
then says the labels that its passages are nearest to, and all units pay.

A unit's opinion is a function of that unit and of public text: its own row over the labels, beside
the row that reads no document. What the model says to the question in any case is no opinion of the
unit; a content-free question in its place (Zhao et al. 2021) knows less of that (docs/surveys.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from dpicl_rag.accounting import DIRECT
from dpicl_rag.answering.experts import Experts
from dpicl_rag.answering.free_answers import form_of
from dpicl_rag.answering.labels import label_reading, require_few_tokens
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Input, Progress
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step, rows_of
from dpicl_rag.prompts import label_tokens
from dpicl_rag.requests import Request
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import (
    Documents,
    all_units,
    corpus_name_of,
    shaped_by,
    vectors_of,
)
from dpicl_rag.surveys.count_plans import tally_plan, tally_search, units_of_a_step
from dpicl_rag.surveys.remembered_counts import memory_of_counts, remembered_or_released
from dpicl_rag.surveys.survey_results import Counted, PrivateCount, PrivateTally
from dpicl_rag.surveys.vocabulary import Vocabulary, nearest_words


def count_units(request: Request, documents: Documents, run: PrivateRun) -> PrivateCount:
    """Count units that say yes; see `PrivateContextLLM.count` for errors.

    Args:
        request: A question of yes or no.
        documents: Private.
        run: Reads them, and pays.
    """
    question = request.asked()

    def release() -> PrivateCount:
        counted = _counted(request, YES_OR_NO, documents, run, bins=1)
        return PrivateCount(question, counted.estimates[0], *counted.cost)

    shaping = (request.sample, *_read_by(documents, run))
    memory = memory_of_counts(documents, run)
    return remembered_or_released(memory, PrivateCount, request, shaping, run.config, release)


def tally_units(request: Request, documents: Documents, run: PrivateRun) -> PrivateTally:
    """Count units that say each label; see `PrivateContextLLM.tally` for errors.

    Args:
        request: A question and its labels.
        documents: Private.
        run: Reads them, and pays.
    """
    question, labels = request.asked(), request.labels
    memory = memory_of_counts(documents, run)
    if request.read_by == "vectors":
        if len(labels) < 2:
            raise ConfigurationError("give at least two labels, none of them empty")
        _require_labels(request, labels)
        if run.config.accounting == "individual":
            raise ConfigurationError("all units say a label and pay; leave accounting out")
        embedder = getattr(documents, "embedder", None) or SentenceTransformerEmbedder()
        counts = partial(_nearest_labels, request, documents, run, embedder)
        read_by: tuple[object, ...] = (embedder.fingerprint,)
    else:
        counts = partial(_counted, request, labels, documents, run)
        read_by = _read_by(documents, run)

    def release() -> PrivateTally:
        return PrivateTally.of(question, labels, counts())

    shaping = (labels, request.most, request.sample, *read_by)
    return remembered_or_released(memory, PrivateTally, request, shaping, run.config, release)


def plan_of_tally(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Histogram], int | None]:
    """The plan of a count or a tally, and about how many units are read for it."""
    bins = 1 if request.kind == "count" else len(request.labels)
    if request.read_by == "vectors":
        return tally_plan(run.config, DIRECT, 0.0, bins, request.most), None
    config, read = run.config, run.reader is not None
    search = tally_search(documents, config, request.sample, read=read)
    price = search.rho(config.adjacency)
    return tally_plan(config, search.stability, price, bins, request.most), search.aim


def noisy_counts(
    experts: Experts[Histogram], said: Callable[[], torch.Tensor], randomness: Randomness
) -> list[int]:
    """Noisy counts of each label; paid for, and the account is closed in any case.

    Args:
        experts: The units, and how they pay.
        said: Reads them: the labels that each says, bool [n, labels]. Private.
        randomness: Where the noise comes from.

    Raises:
        ConfigurationError: No unit could ever pay.
        StoppedError: It was ended before all units were read.
    """
    price = experts.mechanism.rho
    with experts.paying():
        if not experts.spend.can_count(price):
            raise ConfigurationError(
                f"it costs a unit rho {price:.4g}, and the ledger's budget lets a unit spend less; "
                "raise the corpus's unit budget with `dpicl-rag budget set`, or lower epsilon"
            )
        with enough_memory():
            votes = said()
        # A unit that says nothing moves no count.
        able = experts.spend.pay_votes(price, votes.any(dim=-1), 0.0)
        counts = votes[able].sum(dim=0).tolist()
        return experts.mechanism.draw(counts, randomness)


def _counted(
    request: Request,
    labels: Sequence[str],
    documents: Documents,
    run: PrivateRun,
    bins: int | None = None,
) -> Counted:
    """Noisy counts of the first ``bins`` labels, of all if None, by a model or a reader."""
    config, model, reader, most = run.config, run.model, run.reader, request.most
    question = request.asked()
    prompt = run.prompt(question)
    tokens = label_tokens(model.tokenizer, labels, prompt.lead)
    _require_labels(request, labels)
    bins = bins or len(labels)
    search = tally_search(documents, config, request.sample, read=reader is not None)
    require_few_tokens(tokens, search.aim, "or count by vectors (by='vectors')")
    plan = tally_plan(config, search.stability, search.rho(config.adjacency), bins, most)
    longest = max(map(len, tokens))
    allowance = prompt.allowance(model, config.unit_tokens, longest)
    complete = not plan.individual or run.every_unit_has(plan.rho, search.corpus_name)
    how = label_reading(reader, model, question, labels, prompt, tokens, allowance, most=most)
    experts = run.experts((question,), search, plan, how.digest, how.reading)
    together = units_of_a_step(allowance + len(prompt.suffix) + longest)
    by_model = run.on_progress if reader is None else None

    def said() -> torch.Tensor:
        read = opinions_in_steps(how.step, experts.inputs, most, together, by_model)
        return read[:, :bins]

    return Counted(
        noisy=noisy_counts(experts, said, run.randomness),
        noise=plan.mechanism.noise,
        rate=experts.rate,
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=experts.spend.rho,
        complete=complete,
    )


def _nearest_labels(
    request: Request, documents: Documents, run: PrivateRun, embedder: Embedder
) -> Counted:
    """Noisy counts of the labels that stored vectors are nearest to."""
    plan = tally_plan(run.config, DIRECT, 0.0, len(request.labels), request.most)
    texts = [f"{request.asked()} {label}".strip() for label in request.labels]
    public = Vocabulary.embedded(texts, embedder)
    with run.open_account(corpus_name_of(documents), rho=plan.rho) as account:
        vectors = vectors_of(documents, embedder, run.config.privacy_unit)
        asked = vectors.sampled(request.sample, run.randomness)
        *counts, _ = nearest_words(asked.blocks, public.vectors, request.most)
        account.pay(plan.price("counts"))
        noisy = plan.mechanism.draw(counts, run.randomness)
    noise = plan.mechanism.noise
    return Counted(noisy, noise, request.sample, plan.epsilon, plan.delta, plan.rho)


def _require_labels(request: Request, labels: Sequence[str]) -> None:
    if request.most > len(labels):
        raise ConfigurationError(f"a unit cannot say {request.most} of {len(labels)} labels")


def _read_by(documents: Documents, run: PrivateRun) -> tuple[object, ...]:
    """Settings that shape the opinions of units. Public."""
    config = run.config
    shaping: tuple[object, ...] = (
        run.model.fingerprint,
        config.unit_tokens,
        form_of(run.template, ()),
    )
    if run.reader is not None:
        shaping = ("reader", run.reader.fingerprint, config.max_calls)
    return (*shaping, *(shaped_by(all_units(documents, config.privacy_unit)) or ()))


YES_OR_NO = ("yes", "no")
"""The labels of a count."""

_ROUNDING = 1e-9  # of a sum of probabilities over labels


def opinions(step: Step, most: int = 1) -> torch.Tensor:
    """The labels that each unit says: the likeliest, and of more those that beat an even chance.

    Args:
        step: Rows of the units over the labels.
        most: Labels that one unit says at most.

    Returns:
        Bool [n, labels]. A unit whose row is no distribution says none.
    """
    public, rows = step.public.double().cpu(), rows_of(step)[1:].double().cpu()
    rows = torch.log_softmax(rows - public, dim=-1)
    labels = rows.shape[-1]
    ordered, places = rows.sort(dim=-1, descending=True, stable=True)
    said = ordered >= -math.log(labels) - _ROUNDING
    said[:, :1] = True
    said &= ordered.isfinite()  # NaN is not
    said[:, most:] = False
    return torch.zeros_like(said).scatter(-1, places, said)


def opinions_in_steps(
    step: Callable[[Sequence[Input], Progress | None], Step],
    inputs: Sequence[Input],
    most: int,
    together: int,
    on_progress: Progress | None = None,
) -> torch.Tensor:
    """The labels that each unit says, read a few units at a time; none is moved by the others.

    Args:
        step: The rows of some units over the labels.
        inputs: What each unit is read by. Private.
        most: Labels that one unit says at most.
        together: Units of a step. Public.
        on_progress: Called with each tenth of the units that is read.

    Returns:
        Bool [n, labels].

    Raises:
        StoppedError: It was ended between two steps.
    """
    tenths = _Tenths(len(inputs), on_progress)
    found = []
    # Of no units too, so that an engine that is down is told in any case.
    for first in range(0, max(1, len(inputs)), together):
        some = inputs[first : first + together]
        found.append(opinions(step(some, tenths.within(first, len(some))), most))
        tenths(first + len(some))
        give_way()
    return torch.cat(found)


class _Tenths:
    """Progress in tenths of the units; other parts would show how many there are."""

    def __init__(self, units: int, on_progress: Progress | None) -> None:
        self._units = units
        self._on_progress = on_progress
        self._shown = 0

    def __call__(self, units: float) -> None:
        # All ten are shown of no units too.
        while self._shown < 10 and 10 * units >= (self._shown + 1) * self._units:
            self._shown += 1
            if self._on_progress is not None:
                self._on_progress(self._shown / 10, 1.0)

    def within(self, first: int, units: int) -> Progress:
        """For some units: called with the part of them."""
        return lambda part, _: self(first + part * units)
