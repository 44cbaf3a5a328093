"""Counts and tallies: opinions of units, counted and paid for, with noise on each count.

Units are read by the language model, by a reader, or by the vectors that a corpus stores: a unit
then says the labels that its passages are nearest to, and all units pay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import torch

from dpicl_rag.accounting import Stability
from dpicl_rag.answering.experts import Experts
from dpicl_rag.answering.free_answers import form_of
from dpicl_rag.answering.labels import label_reading, require_few_tokens
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError, MisreadingError
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.request_kinds import unit_question
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import Charged
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.prompts import Prompt, label_tokens
from dpicl_rag.rehearsal import Labelling, Reading, labelling_of, yes_or_no_of
from dpicl_rag.rehearsal.yes_or_no import LABELS
from dpicl_rag.requests import Request
from dpicl_rag.results import Estimate
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import (
    Documents,
    all_units,
    shaped_by,
    vectors_of,
)
from dpicl_rag.surveys.count_plans import (
    YesCount,
    count_plan,
    tally_plan,
    tally_search,
    units_of_a_step,
    vector_plan,
)
from dpicl_rag.surveys.misreading import corrected, corrected_labels
from dpicl_rag.surveys.opinions import (
    opinions,
    opinions_in_steps,
    says_first,
    says_likeliest,
    says_yes,
)
from dpicl_rag.surveys.paying_units import vectors_taking_part
from dpicl_rag.surveys.remembered_counts import memory_of_counts, remembered_or_released
from dpicl_rag.surveys.survey_results import Counted, PrivateCount, PrivateTally
from dpicl_rag.surveys.vocabulary import Vocabulary, nearest_words


def count_units(request: Request, documents: Documents, run: PrivateRun) -> PrivateCount:
    """Count units that say yes; see `PrivateContextLLM.count` for errors.

    Args:
        request: A question of yes or no, or for how many, which each unit is asked by
            `unit_question`.
        documents: Private.
        run: Reads them, and pays.
    """
    question = request.asked()
    run.prompt(question)  # a question without words is refused first
    each = unit_question(question)
    of_each = request.model_copy(update={"question": each})
    how = None if run.reader is not None else yes_or_no_of(run.model)

    def release() -> PrivateCount:
        if how is None:
            counted = _counted(of_each, YES_OR_NO, documents, run, bins=1)
            return PrivateCount(question, counted.estimates[0], *counted.cost)
        reading = countable(how.reading(run.model, each), anyway=request.anyway)
        if reading is None:
            labels, prompt, opinion = YES_OR_NO, run.prompt(each), says_first
        else:
            labels, prompt = LABELS, how.prompt(run.model, each)
            opinion = partial(says_yes, least=reading.least)
        asked = _asked(of_each, labels, documents, run, prompt, opinion, count_plan)
        counts = noisy_yes(asked.experts, asked.said, run.randomness, _names_in(question))
        noise, rate = asked.experts.mechanism, asked.experts.rate
        if reading is None:
            found = Estimate.of(counts[0], noise.noise, rate)
        else:
            found = corrected(*counts, noise.said.noise, noise.units.noise, reading, rate)
        many = max(0, round(counts[1] / rate))
        return PrivateCount(question, found, *asked.cost, reading, many)

    if how is not None:
        countable(how.clear, anyway=request.anyway)
    shaping = (request.sample, how, *_read_by(documents, run))
    memory = memory_of_counts(documents, run)
    return remembered_or_released(memory, PrivateCount, request, shaping, run, release)


R = TypeVar("R", Reading, Labelling)


def countable(reading: R, *, anyway: bool) -> R | None:
    """A reading that counts are corrected by; None where there is none and they are made anyway.

    Args:
        reading: How a model reads documents, at a question or at best, or gives them labels.
        anyway: Whether a model that cannot count is to.

    Raises:
        MisreadingError: It cannot, by its rehearsal. Nothing is paid.
    """
    if reading.countable:
        return reading
    if not anyway:
        raise MisreadingError(
            f"this model cannot count that: it {reading.verdict}, by its rehearsal on public "
            "documents; tally subjects by vectors (by='vectors', --by vectors), take a larger "
            "model or a reader, or count all the same, by numbers that may be far off "
            "(anyway=True, --anyway)"
        )
    return None


def tally_units(request: Request, documents: Documents, run: PrivateRun) -> PrivateTally:
    """Count units that say each label; see `PrivateContextLLM.tally` for errors.

    Args:
        request: A question and its labels.
        documents: Private.
        run: Reads them, and pays.
    """
    question, labels = request.asked(), request.labels
    memory = memory_of_counts(documents, run)
    how: Labelling | None = None
    if request.read_by == "vectors":
        if len(labels) < 2 or not all(map(str.strip, labels)):
            raise ConfigurationError("give at least two labels, none of them empty")
        _require_labels(request, labels)
        embedder = getattr(documents, "embedder", None) or SentenceTransformerEmbedder()
        counts = partial(_nearest_labels, request, documents, run, embedder)
        read_by: tuple[object, ...] = (embedder.fingerprint,)
    else:
        if run.reader is None:
            run.prompt(question)  # a question without words is refused first
            how = countable(labelling_of(run.model), anyway=request.anyway)
        if request.most > 1:
            how = None  # several labels of a unit are not rehearsed
        counts = partial(_counted, request, labels, documents, run, how=how)
        read_by = (how, *_read_by(documents, run))

    def release() -> PrivateTally:
        counted = counts()
        estimates = None if how is None else corrected_labels(counted, how.reading)
        return PrivateTally.of(question, labels, counted, how, estimates)

    shaping = (labels, request.most, request.sample, *read_by)
    return remembered_or_released(memory, PrivateTally, request, shaping, run, release)


def plan_of_count(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Any], int | None]:
    """The plan of a count, and about how many units are read for it."""
    if run.reader is not None:  # whom nobody rehearses: those that say yes are all that is counted
        return plan_of_tally(request, documents, run)
    search = tally_search(documents, run.config, request.sample, most=None)
    price = search.rho(run.config.adjacency)
    return count_plan(run.config, search.stability, price), search.aim


def plan_of_tally(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Histogram], int | None]:
    """The plan of a tally, and about how many units are read for it."""
    bins = 1 if request.kind == "count" else len(request.labels)
    if request.read_by == "vectors":
        return vector_plan(run.config, bins, request.most), None
    config = run.config
    search = tally_search(documents, config, request.sample, most=config.max_calls)
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
    with experts.paying():
        _require_payable(experts)
        with enough_memory():
            votes = said()
        # A unit that says nothing moves no count.
        able = experts.spend.pay_votes(experts.mechanism.rho, votes.any(dim=-1), 0.0)
        counts = votes[able].sum(dim=0).tolist()
        return experts.mechanism.draw(counts, randomness)


def noisy_yes(
    experts: Experts[YesCount],
    said: Callable[[], torch.Tensor],
    randomness: Randomness,
    named: Callable[[Sequence[str]], bool],
) -> tuple[int, int]:
    """Noisy counts of the units that say yes, and of all that may; as `noisy_counts`.

    A unit that says no moves, and pays for, the second alone; one that lacks the names of the
    question, neither.

    Args:
        experts: The units, and how they pay.
        said: Reads them: whether each says yes, bool [n, 1]. Private.
        randomness: Where the noise comes from.
        named: Whether a unit's passages have the names of the question.
    """
    noise = experts.mechanism
    with experts.paying():
        _require_payable(experts)
        with enough_memory():
            yes = said()[:, 0]
        may = torch.tensor([named(own) for own in experts.passages], dtype=torch.bool)
        units = experts.spend.pay_votes(noise.units.rho, may, 0.0)
        yes = experts.spend.pay_votes(noise.said.rho, yes & units, 0.0)
        [found] = noise.said.draw([int(yes.sum())], randomness)
        [asked] = noise.units.draw([int(units.sum())], randomness)
        return found, asked


def _names_in(question: str) -> Callable[[Sequence[str]], bool]:
    """The test whether passages of a unit have the names of a question. No unit is an error."""
    keys = answer_keys(question)

    def named(passages: Sequence[str]) -> bool:
        try:
            return keys.has_names("\n".join(passages))
        except Exception:
            return False

    return named


def _require_payable(experts: Experts[Any]) -> None:
    price = experts.mechanism.rho
    if not experts.spend.can_count(price):
        raise ConfigurationError(
            f"it costs a unit rho {price:.4g}, and the ledger's budget lets a unit spend less; "
            "raise the corpus's unit budget with `dpicl-rag budget set`, or lower epsilon"
        )


M = TypeVar("M", bound=Charged)


@dataclass(frozen=True, slots=True, repr=False)
class _Asked(Generic[M]):
    """Units that can pay, and what reads them: the labels that each says. Private."""

    experts: Experts[M]
    said: Callable[[], torch.Tensor]
    plan: Plan[M]
    complete: bool

    @property
    def cost(self) -> tuple[float, float, float, bool]:
        """Epsilon, delta and rho, and whether every unit could pay."""
        return self.plan.epsilon, self.plan.delta, self.experts.spend.rho, self.complete


def _asked(
    request: Request,
    labels: Sequence[str],
    documents: Documents,
    run: PrivateRun,
    prompt: Prompt,
    opinion: Callable[[Step], torch.Tensor],
    plan_of: Callable[[PrivacyConfig, Stability, float], Plan[M]],
) -> _Asked[M]:
    """The units, and who reads them over some labels: a model or a reader."""
    config, model, reader, most = run.config, run.model, run.reader, request.most
    question = request.asked()
    tokens = label_tokens(model.tokenizer, labels, prompt.lead)
    _require_labels(request, labels)
    search = tally_search(documents, config, request.sample, most=config.max_calls)
    require_few_tokens(tokens, search.aim, "or count by vectors (by='vectors')")
    plan = plan_of(config, search.stability, search.rho(config.adjacency))
    longest = max(map(len, tokens))
    allowance = prompt.allowance(model, config.unit_tokens, longest)
    complete = not plan.individual or run.every_unit_has(plan.rho, search.corpus_name)
    how = label_reading(reader, model, question, labels, prompt, tokens, allowance, most=most)
    experts = run.experts((question,), search, plan, how.digest, how.reading)
    together = units_of_a_step(allowance + len(prompt.suffix) + longest)
    by_model = run.on_progress if reader is None else None

    def said() -> torch.Tensor:
        return opinions_in_steps(how.step, experts.inputs, opinion, together, by_model)

    return _Asked(experts, said, plan, complete)


def _counted(
    request: Request,
    labels: Sequence[str],
    documents: Documents,
    run: PrivateRun,
    bins: int | None = None,
    how: Labelling | None = None,
) -> Counted:
    """Noisy counts of the first ``bins`` labels, of all if None, by a model or a reader."""
    most = request.most
    plan_of = partial(tally_plan, labels=bins or len(labels), most=most)
    opinion = says_first if bins == 1 else partial(opinions, most=most)
    prompt = run.prompt(request.asked())
    if how is not None:
        prompt, opinion = how.prompt(run.model, request.asked(), labels), says_likeliest
    asked = _asked(request, labels, documents, run, prompt, opinion, plan_of)
    noisy = noisy_counts(asked.experts, asked.said, run.randomness)
    return Counted(noisy, asked.plan.mechanism.noise, asked.experts.rate, *asked.cost)


def _nearest_labels(
    request: Request, documents: Documents, run: PrivateRun, embedder: Embedder
) -> Counted:
    """Noisy counts of the labels that stored vectors are nearest to."""
    plan = vector_plan(run.config, len(request.labels), request.most)
    texts = [f"{request.asked()} {label}".strip() for label in request.labels]
    public = Vocabulary.embedded(texts, embedder)
    vectors = vectors_of(documents, embedder, run.config.privacy_unit)
    asked = vectors.sampled(request.sample, run.randomness)
    with vectors_taking_part(plan, documents, run, asked) as (some, asked):
        *counts, _ = nearest_words(asked.blocks, public.vectors, request.most)
        some.account.pay(plan.price("counts"))
        noisy = plan.mechanism.draw(counts, run.randomness)
    noise, cost = plan.mechanism.noise, (plan.epsilon, plan.delta, plan.rho)
    return Counted(noisy, noise, request.sample, *cost, some.complete)


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
"""The labels of a count by a reader, or by a model that was not rehearsed."""
