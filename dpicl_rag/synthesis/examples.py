"""Private examples, written once: labelled texts for any number of prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl_rag.accounting import DELTA, Adjacency
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.base import GrowingRows, Input, LanguageModel, Progress
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import Prompt
from dpicl_rag.synthesis.examples_plan import ExamplesMethod, ExamplesPlan, examples_plan
from dpicl_rag.synthesis.noisy_sums import AdaptiveConstants
from dpicl_rag.synthesis.pools import (
    Batches,
    FreshSampleRows,
    LabelCharge,
    LabelledDocument,
    Pool,
    TextFilter,
    pools,
    public_labels,
    public_rate,
    units_of,
)
from dpicl_rag.synthesis.released_records import RecordStoppedBy, Synthesis, SyntheticRecord
from dpicl_rag.synthesis.synthesis_run import Drawn, Run, SynthesisPlan, run_account, write
from dpicl_rag.synthesis.template import ExampleTemplate, draw_text, ended, written

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


def synthesise_examples(
    examples: Iterable[LabelledDocument],
    labels: Sequence[str],
    *,
    method: ExamplesMethod = "exponential",
    epsilon: float | None = None,
    delta: float = DELTA,
    texts_per_label: int = 1,
    max_tokens: int = 40,
    experts: int = 20,
    per_expert: int = 1,
    rate: float | None = None,
    candidates: int = 100,
    adaptive: AdaptiveConstants | None = None,
    radius: float | None = None,
    template: ExampleTemplate | None = None,
    unit_tokens: int = 128,
    model: Any = None,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    labels_per_unit: int = 1,
    ledger: Ledger | None = None,
    corpus: str = "default",
    folder: Path | None = None,
    randomness: Randomness | None = None,
    on_progress: Progress | None = None,
) -> Synthesis:
    """Write labelled examples from private ones, under one budget.

    All texts together are (epsilon, delta)-DP for every privacy unit. A label whose pool is small
    or empty is written all the same, for anything else would tell: with nothing to read,
    ``exponential``, ``adaptive`` and ``difference`` go on by what the public model says, and the
    two ``few-shot`` methods, which add up experts alone, draw evenly from its likeliest tokens.

    Args:
        examples: Private texts with labels.
        labels: The public list of labels.
        method: ``exponential``: units are experts of the exponential mechanism, in fixed batches,
            and each pays for what it reveals. ``few-shot`` (Tang et al. 2024, and its
            ``few-shot-permute-and-flip``), ``adaptive`` (AdaDPSyn) and ``difference`` add noise to
            sums over experts, a fresh secret sample of them for every token.
        epsilon: See above. Where all constants of the adaptive method are given, the texts cost
            what follows from these, at most ``epsilon``; it may be left out then.
        delta: See above.
        texts_per_label: How many texts each label gets.
        max_tokens: Most tokens of a text.
        experts: How many experts are expected at a token. Public: not how many there are.
        per_expert: Examples of one expert; above 1, units join random groups. Not for
            ``exponential``.
        rate: Public probability with which a unit joins a token's sample; for ``exponential``,
            with which it takes part at all. Fixed beforehand, never computed from the examples.
            None takes all of them, and reads them once for a text.
        candidates: The public row's likeliest tokens, which alone can be drawn. Not for
            ``exponential``.
        adaptive: Constants of the adaptive method. What is not given of its noise is calibrated.
        radius: A public radius: of the adaptive method in place of its noisy search, of
            ``difference`` in place of 0.5.
        template: Of prompts.
        unit_tokens: Most tokens of an example that are read.
        model: As for ``PrivateContextLLM``.
        adjacency: What makes two sets of examples neighbours. A replaced unit may have other
            labels; its samples have a fixed size of ``experts * per_expert``.
        labels_per_unit: How many labels a unit may have examples of. The texts of as many labels
            are charged to it; with more it keeps its first ones in the order of ``labels``.
        ledger: Keeps the budget of ``corpus``, in zCDP: not for samples (``rate`` below 1), which
            have no charge in it.
        corpus: Whose budget.
        folder: Where the run is kept, so that a kill loses nothing.
        randomness: Where coins and noise come from.
        on_progress: Called with records written and records of the plan.

    Raises:
        BudgetExceededError: The ledger has not as much left as the run may cost.
        ConfigurationError: A setting is outside its range or does not fit another, constants cost
            more than ``epsilon``, or the folder holds another plan.
        EngineUnavailableError: The engine does not answer. Started again, the run goes on.
        ModelError: The model cannot be loaded, or there is not enough memory.
    """
    names, public = public_labels(labels), public_rate(rate)
    drawing: dict[str, Any] = {
        "texts_per_label": texts_per_label,
        "max_tokens": max_tokens,
        "experts": experts,
        "per_expert": per_expert,
        "rate": public,
        "candidates": candidates,
        "labels_per_unit": labels_per_unit,
    }
    plan = examples_plan(
        method,
        len(names),
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        adaptive=adaptive,
        radius=radius,
        in_rho=ledger is not None,
        **drawing,
    )
    loaded = load_language_model(model)
    shown = template or ExampleTemplate()
    settings: dict[str, Any] = {
        "kind": "examples",
        "method": method,
        "labels": list(names),
        "epsilon": float(plan.epsilon if epsilon is None else epsilon),
        "delta": float(delta),
        "adjacency": str(adjacency),
        **drawing,
        "unit_tokens": unit_tokens,
        "template": asdict(shown),
        "corpus": corpus if ledger is not None else None,
        "model": loaded.fingerprint,
        **({} if adaptive is None else {"adaptive": asdict(adaptive)}),
        **({} if radius is None else {"radius": float(radius)}),
    }
    prompts = {label: shown.prompt(loaded.tokenizer, label) for label in names}
    room = min(p.allowance(loaded, unit_tokens * per_expert, max_tokens) for p in prompts.values())
    coins = randomness or Randomness()

    @contextmanager
    def opened(run: Run) -> Iterator[_ExamplesWriter]:
        own = pools(examples, names, labels_per_unit)
        charge = LabelCharge(
            names,
            texts_per_label,
            max_tokens,
            run.records,
            pools=plan.pools,
            token_rho=plan.token_rho,
            in_ledger=ledger is not None,
        )
        # Under individual accounting a unit is in one text of a label, and pays for no other.
        batched = plan.rho if plan.sampler is None else None
        rho, units = (charge.left, None) if batched is None else (batched, units_of(own))
        with run_account(ledger, corpus, rho, units, lost=charge.lost) as account:
            charge.account = account
            spend: LabelCharge | Batches = charge
            if batched is not None:
                spend = Batches(
                    own,
                    texts=texts_per_label,
                    rate=public,
                    rho=batched,
                    labels_per_unit=plan.pools,
                    worst=plan.mechanism.rho,
                    key=run.key,
                    account=account,
                )
            total = texts_per_label * len(names)
            yield _ExamplesWriter(
                total, plan, loaded, prompts, shown, own, max_tokens, room, coins, spend
            )

    kept = SynthesisPlan(settings, {"epsilon": plan.true_epsilon, "delta": plan.delta})
    return write(plan, kept, opened, folder=folder, on_progress=on_progress)


@dataclass(frozen=True, slots=True, repr=False)
class _ExamplesWriter:
    """Draws texts, the first of every label, then the second: see `RecordWriter`."""

    total: int
    plan: ExamplesPlan
    model: LanguageModel
    prompts: Mapping[str, Prompt]
    template: ExampleTemplate
    pools: Mapping[str, Pool]
    max_tokens: int
    allowance: int
    randomness: Randomness
    spend: LabelCharge | Batches

    def draw(self, number: int) -> Iterator[int]:
        """A text from fresh samples of its label's pool, or from its batch."""
        if isinstance(self.spend, Batches):
            text = number // len(self.prompts)
            return self._batch(self._label(number), text, self.spend)
        return self._sampled(self._label(number), self.spend)

    def stopped_by(self, tokens: Sequence[int]) -> RecordStoppedBy:
        """The reason for which a text with these tokens ended."""
        if ended(self.model.tokenizer, tokens):
            return "end"
        return "length" if len(tokens) == self.max_tokens else "budget"

    def record(self, number: int, drawn: Drawn) -> SyntheticRecord:
        """A text of the journal."""
        text = written(self.model.tokenizer, drawn.tokens)
        return drawn.record(text, label=self._label(number))

    def _label(self, number: int) -> str:
        return list(self.prompts)[number % len(self.prompts)]

    def _sampled(self, label: str, charge: LabelCharge) -> Iterator[int]:
        """A text over fresh samples, or over all units once."""
        sampler, pool = self.plan.sampler, self.pools[label]
        assert sampler is not None

        def sample() -> list[Input]:
            return self._inputs(label, sampler(pool, self.randomness))

        reading = partial(self._read, label)
        rows = FreshSampleRows(sample, reading) if self.plan.fresh else reading(sample())
        return self._text(label, rows, TextFilter(charge, label, self.max_tokens))

    def _batch(self, label: str, text: int, batches: Batches) -> Iterator[int]:
        """A text over its own batch."""
        members = batches.members(label, text)
        digested = zip(members, self._digests(label, members.values()), strict=True)
        experts = [(unit, own) for unit, own in digested if own]
        spend = batches.filter([unit for unit, _ in experts])
        return self._text(label, self._read(label, [own for _, own in experts]), spend)

    def _text(self, label: str, rows: GrowingRows, spend: PrivacyFilter) -> Iterator[int]:
        with enough_memory():
            yield from draw_text(
                rows,
                self.prompts[label].suffix,
                self.plan.mechanism,
                spend,
                self.randomness,
                tokenizer=self.model.tokenizer,
                tokens=self.max_tokens,
            )

    def _read(self, label: str, inputs: list[Input]) -> GrowingRows:
        return read(self.model, self.prompts[label], inputs, room=self.max_tokens)

    def _inputs(self, label: str, members: Iterable[Sequence[str]]) -> list[Input]:
        """Inputs of experts. One that has nothing to read has nothing to say."""
        return [own for own in self._digests(label, members) if own]

    def _digests(self, label: str, members: Iterable[Sequence[str]]) -> list[Input]:
        shown = ([self.template.shown(label, text) for text in texts] for texts in members)
        return [self.model.digest(passages, self.allowance) for passages in shown]
