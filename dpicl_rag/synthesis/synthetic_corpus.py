"""A synthetic corpus: records drawn once from private documents, and read without limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl_rag.accounting import DELTA
from dpicl_rag.answering.experts import Experts
from dpicl_rag.documents import Document, group_by_unit, readable_documents
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.privacy_filters import privacy_filter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.synthesis.corpus_plan import CorpusPlan
from dpicl_rag.synthesis.key_words import (
    LONGEST,
    Own,
    PublicWords,
    ReleasedWord,
    Topic,
    UnitWords,
    batch_of,
    joined,
    noisy_counts,
    topics_for,
)
from dpicl_rag.synthesis.public_records import Keep, require_free
from dpicl_rag.synthesis.released_records import (
    RECORDS_FILE,
    RecordStoppedBy,
    Synthesis,
    SyntheticRecord,
)
from dpicl_rag.synthesis.synthesis_run import Drawn, Run, run_account, write
from dpicl_rag.synthesis.template import RecordTemplate, draw_record

if TYPE_CHECKING:
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.ledger import Ledger
    from dpicl_rag.retrieval.embeddings import Embedder
    from dpicl_rag.stores.chroma import ChromaCollection

_NO_CORPUS = "default"  # where a ledger books lists

UnitPassages = Mapping[str, Sequence[str]]
"""The passages of each unit. Private."""


def synthesise_corpus(
    source: Corpus | ChromaCollection | Iterable[Document | str],
    target: str,
    *,
    epsilon: float,
    delta: float = DELTA,
    template: RecordTemplate | None = None,
    keep: Keep | None = None,
    model: Any = None,
    ledger: Ledger | None = None,
    path: str | Path | None = None,
    folder: str | Path | None = None,
    embedder: Embedder | None = None,
    on_progress: Progress | None = None,
    **settings: Any,
) -> Synthesis:
    """Write a synthetic corpus once, for any program to read without limit.

    Args:
        source: The private corpus, or documents.
        target: Name of the synthetic corpus.
        epsilon: Keys and records together are (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        template: Of a record; a general one if None.
        keep: Which records stay, from their text alone; see ``dpicl_rag.synthesis.public_records``.
        model: As for ``PrivateContextLLM``.
        ledger: Keeps the budgets of the private corpus and of its units.
        path: Folder for the synthetic corpus; the user's own if None.
        folder: Where the run is kept, so that a kill loses nothing; ``records.jsonl`` is put
            there too.
        embedder: Embeds the records; that of the source, or the packaged one, if None.
        on_progress: Called with records written and records of the plan.
        **settings: Fields of `CorpusPlan`: ``topics``, ``topics_per_unit``, ``words_per_unit``,
            ``batch``, ``records_per_topic``, ``keys`` and the others.

    Returns:
        The records that were kept.

    Raises:
        CorpusError: The target's name cannot be one, or is taken; or the source cannot be read.
        DPICLError: As `synthesise`.
    """
    shape = template or RecordTemplate()
    plan = CorpusPlan.create(epsilon=epsilon, delta=delta, template=shape, **settings)
    kept_in = None if folder is None else Path(folder)
    # A name that is taken is refused before anything is paid for; that of this run may be there.
    if kept_in is None or not kept_in.exists():
        require_free(target, path)
    written = synthesise(
        source, plan, model=model, ledger=ledger, folder=kept_in, on_progress=on_progress
    )
    kept = tuple(record for record in written.records if keep is None or keep(record.text))
    synthesis = replace(written, records=kept)
    if kept_in is not None:
        synthesis.write(kept_in / RECORDS_FILE)
    corpus = synthesis.into_corpus(
        target, path, embedder=embedder or getattr(source, "embedder", None)
    )
    corpus.close()
    return synthesis


def synthesise(
    source: Corpus | ChromaCollection | Iterable[Document | str],
    plan: CorpusPlan,
    *,
    model: Any = None,
    ledger: Ledger | None = None,
    folder: Path | None = None,
    randomness: Randomness | None = None,
    on_progress: Progress | None = None,
) -> Synthesis:
    """Draw the records of a plan, or those that a folder's run still lacks.

    Every unit pays for the counts it is in and for what its documents add to each token, and never
    more than the plan's rho: key_words.py, topics.py and docs/synthesis.md have the argument.

    Args:
        source: See `synthesise_corpus`, also for the others.
        plan: Its cost, and the way it is drawn.
        model: Writes the records.
        ledger: Keeps budgets.
        folder: Of the run.
        randomness: Where noise and coins of tokens come from.
        on_progress: Called with records written and records of the plan.

    Raises:
        BudgetExceededError: The corpus has not as much left as the run may cost.
        ConfigurationError: The settings do not fit, or the folder holds another plan.
        CorpusError: The corpus cannot be read.
        EngineUnavailableError: The engine does not answer. Started again, the run goes on.
        ModelError: The model cannot be loaded, or there is not enough memory.
    """
    loaded, coins = load_language_model(model), randomness or Randomness()
    public = PublicWords(loaded.tokenizer)
    # For their checks: nothing is paid for a run that could not be drawn.
    plan.word_list(public.listed)
    room = plan.template.room(loaded.tokenizer)
    longest = plan.template.prompt(loaded.tokenizer, "x" * LONGEST)
    longest.allowance(loaded, plan.unit_tokens, room)
    name, unit_field = getattr(source, "name", _NO_CORPUS), getattr(source, "unit_field", None)

    @contextmanager
    def opened(run: Run) -> Iterator[_CorpusWriter]:
        units = _passages(source)
        keys = _Keys(plan, public, run, coins)
        rho = keys.rho_left()
        with run_account(ledger, name, rho, list(units), unit_field=unit_field) as account:
            least = min(rho, plan.keys_rho)
            account.require(least, "the keys of this plan cost", "lower epsilon")
            topics = keys.topics(units, account)
            joins = {unit: keys.joined(own, topics) for unit, own in units.items()}
            yield _CorpusWriter(plan, loaded, run.key, topics, units, joins, account, coins)

    kept = plan.run_plan(name, loaded.fingerprint)
    return write(plan, kept, opened, folder=folder, on_progress=on_progress)


@dataclass(frozen=True, slots=True, repr=False)
class _Keys:
    """The keys of a run, each released once, and the topics that follow from them."""

    plan: CorpusPlan
    public: PublicWords
    run: Run
    randomness: Randomness

    def rho_left(self) -> float:
        """The most that the rest of the run costs any unit: what was released is paid for."""
        plan, run = self.plan, self.run
        if not run.has_released(plan.rounds()):
            return plan.rho
        records = _numbered(self.topics({}, Account(0.0, 0)))
        return min(len(records) - len(run.records), plan.topics_per_unit) * plan.record_rho

    def topics(self, units: UnitPassages, account: Account) -> list[Topic]:
        """The topics of the released keys, the rarest key first."""
        plan = self.plan
        able = account.able(plan.keys_rho)
        words = [
            self.public.rarest(passages, plan.words_per_unit) if admitted else UnitWords((), ())
            for passages, admitted in zip(units.values(), able, strict=True)
        ]
        released: dict[str, ReleasedWord] = {}
        count = partial(self._count, account)
        if (word_list := plan.word_list(self.public.listed)) is not None:
            found = word_list.release([own.listed for own in words], count)
            released |= {key.word: key for key in found}
        if (trie := plan.trie()) is not None:
            found = trie.release([own.unlisted for own in words], count)
            released |= {key.word: key for key in found}
        rarest = self.public.by_rarity(released)[: plan.topics]
        keys = [released[word] for word in rarest]
        return topics_for(keys, plan.batch, plan.records_per_topic)

    def joined(self, passages: Sequence[str], topics: Sequence[Topic]) -> list[int]:
        """Places of the topics that a unit joins. Private."""
        own = self.public.rarest(passages, self.plan.words_per_unit)
        trie = self.plan.trie()
        long = {trie.known_by(word) for word in own.unlisted} if trie is not None else set()
        return joined({*own.listed, *long}, topics, self.plan.topics_per_unit)

    def _count(
        self,
        account: Account,
        name: str,
        candidates: Iterable[str],
        own: Own,
        noise: DiscreteGaussian,
    ) -> list[tuple[str, int]]:
        """One round of counts: as it was released before, or drawn now."""

        def pay(counts: Sequence[int]) -> None:
            most = self.plan.words_per_unit  # counts that any unit may be in
            account.pay(most * noise.rho, [counted * noise.rho for counted in counts])

        counted = partial(noisy_counts, candidates, own, noise, pay, self.randomness)
        return [(word, number) for word, number in self.run.released(name, counted)]


@dataclass(frozen=True, slots=True, repr=False)
class _CorpusWriter:
    """Draws the records of topics: see `RecordWriter`."""

    plan: CorpusPlan
    model: LanguageModel
    run_key: bytes
    topics: Sequence[Topic]
    units: UnitPassages
    joins: Mapping[str, Sequence[int]]
    account: Account
    randomness: Randomness

    @property
    def total(self) -> int:
        """Records of the plan."""
        return len(_numbered(self.topics))

    def draw(self, number: int) -> Iterator[int]:
        """A record from the units of its batch."""
        plan, template, tokenizer = self.plan, self.plan.template, self.model.tokenizer
        at, batch = _numbered(self.topics)[number]
        topic = self.topics[at]
        word = topic.key.word
        prompt = template.prompt(tokenizer, word)
        allowance = prompt.allowance(self.model, plan.unit_tokens, template.room(tokenizer))
        read = {
            place: self.model.digest(_about(word, self.units[unit]), allowance)
            for place, (unit, own) in enumerate(self.joins.items())
            if at in own and batch_of(self.run_key, unit, word, topic.batches) == batch
        }
        reading = {place: inputs for place, inputs in read.items() if inputs}
        mechanism = plan.record().mechanism_for(topic.count)
        spend = privacy_filter(self.account, [*reading], mechanism.rho, most=plan.record_rho)
        experts = Experts([*reading.values()], mechanism, spend, topic.count, lambda: None)
        model = copying(self.model, plan.copy_bias)
        return draw_record(model, prompt, template, experts, self.randomness)

    def stopped_by(self, tokens: Sequence[int]) -> RecordStoppedBy:
        """The reason for which a record with these tokens ended."""
        tokenizer, template = self.model.tokenizer, self.plan.template
        last = template.parts(tokenizer, tokens)[-1]
        return "end" if template.fields[-1].ended(tokenizer, last) else "length"

    def record(self, number: int, drawn: Drawn) -> SyntheticRecord:
        """A record of the journal as text."""
        at, _ = _numbered(self.topics)[number]
        text = self.plan.template.text(self.model.tokenizer, drawn.tokens)
        return drawn.record(text, key=self.topics[at].key.word)


def _numbered(topics: Sequence[Topic]) -> list[tuple[int, int]]:
    """Topic and batch of every record, in the order in which they are drawn.

    The first record of every topic comes before the second of any: a run that is stopped early has
    covered the most.
    """
    most = max((topic.records for topic in topics), default=0)
    return [
        (place, batch)
        for batch in range(most)
        for place, topic in enumerate(topics)
        if batch < topic.records
    ]


def _passages(source: Corpus | ChromaCollection | Iterable[Document | str]) -> UnitPassages:
    """The passages of each unit, in an order that depends on nothing else."""
    if (records := getattr(source, "records", None)) is not None:
        found: dict[str, list[str]] = {}
        for record in records():
            found.setdefault(record.unit, []).append(record.text)
        return found
    documents = group_by_unit(readable_documents(source))  # type: ignore[arg-type]
    return {unit: [document.text for document in own] for unit, own in documents.items()}


def _about(word: str, passages: Sequence[str]) -> list[str]:
    """The passages of a unit, those with the word first: they are read first."""
    return sorted(passages, key=lambda text: word not in text.casefold())
