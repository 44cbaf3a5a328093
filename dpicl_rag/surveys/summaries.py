"""Summaries: the largest themes of a survey, and words on which units of each theme agree.

Each unit is of the theme that it is nearest to, and of no other. It is asked one public question by
itself, as the expert of an answer is, and votes for words of its theme. The votes of all themes are
one histogram, whose keys are pairs of a theme and a word: so a unit that comes moves as few counts
as in one answer, however many themes there are (docs/privacy.md, "Summaries").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from dpicl_rag.answering.free_answers import form_of
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.sentence_votes import vote_reader, votes_of_notes, votes_of_rows
from dpicl_rag.answering.written_sentences import written_sentence
from dpicl_rag.documents import group_by_unit
from dpicl_rag.language_models.base import Progress, SpeakingRows
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.readers.notes import notes
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.prose import prose_for
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreed
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.requests import VOTES, Request
from dpicl_rag.results import Estimate
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import Documents, all_units
from dpicl_rag.retrieval.vectors import VectorSource, on_grid
from dpicl_rag.surveys.count_plans import SummaryCounts, ThemeCounts, summary_plan
from dpicl_rag.surveys.remembered_counts import memory_of_counts, remembered_or_released
from dpicl_rag.surveys.survey_results import PrivateSummary, SummarisedTheme, SurveyedTheme
from dpicl_rag.surveys.surveying import (
    NEAR,
    Surveyed,
    survey_result,
    surveyed,
    votes_by_vectors,
)
from dpicl_rag.surveys.vocabulary import packaged_words

THEMES = 3
"""Themes whose units are asked, at most."""


def summarise_units(request: Request, documents: Documents, run: PrivateRun) -> PrivateSummary:
    """Summarise documents; see `PrivateContextLLM.summarise` for errors.

    Args:
        request: What is asked, if anything.
        documents: Private.
        run: Reads units of the largest themes, and pays.
    """
    config, coins = run.config, run.randomness
    memory = memory_of_counts(documents, run)
    plan, _ = plan_of_summary(request, documents, run)
    survey, sentences = plan.mechanism.survey, plan.mechanism.sentences
    words = packaged_words() if request.vocabulary is None else request.vocabulary
    embedder = getattr(documents, "embedder", None) or SentenceTransformerEmbedder()

    def release() -> PrivateSummary:
        public, blocks = votes_by_vectors(request.question, words, documents, embedder, run)
        account = run.open_account(
            documents, rho=plan.rho, delta=plan.threshold_delta, gaussian=plan.gaussian
        )
        with account:
            found = surveyed(blocks, public, survey, VOTES, account, coins)
            paid, largest = survey.mechanism.rho, _largest(found)
            told: list[_Told] = []
            if sentences is not None and largest and account.pays_thresholds(sentences.delta):
                asked = _Asking.of(request, run)
                votes, rates = asked.votes(found, largest, documents, embedder)
                account.pay(sentences.rho, delta=sentences.delta)
                paid += sentences.rho
                drawn, noise = sentences.draw(votes, coins), sentences.noise
                assert isinstance(noise, DiscreteGaussian)
                told = [
                    asked.told(at, drawn, partial(Estimate.of, noise=noise, rate=rate))
                    for at, rate in enumerate(rates)
                ]
        return _summary(request.question, found, survey, largest, told, paid)

    shaping = (words, embedder.fingerprint, *_read_by(run))
    return remembered_or_released(
        memory,
        PrivateSummary,
        request,
        shaping,
        run,
        release,
        enough=lambda one: one.epsilon >= config.epsilon and one.delta >= config.delta,
    )


def plan_of_summary(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[SummaryCounts], int | None]:
    """The plan of a summary, and about how many units a reader reads for it."""
    words = packaged_words() if request.vocabulary is None else request.vocabulary
    keys = answer_keys(_question(request)).most if _asks(run) else None
    plan = summary_plan(run.config, len(words), VOTES, keys, booked=run.booked)
    return plan, None if run.reader is None else THEMES * _aim(run)


def _asks(run: PrivateRun) -> bool:
    """True where units are asked. A model that is never silent agrees on what it makes up."""
    return run.config.agreement != "off" and (run.reader is not None or run.silent)


def _question(request: Request) -> str:
    """What each unit of a theme is asked, in the language of the request. Public."""
    return prose_for(request.question).sentence("why")


def _aim(run: PrivateRun) -> int:
    """About how many units of a theme are asked, at most."""
    config = run.config
    calls = config.max_calls if run.reader is not None else None
    return config.units if calls is None else max(1, min(config.units, calls // THEMES))


def _largest(found: Surveyed) -> list[int]:
    """The themes of most units, by noisy counts; none that noise may have made."""
    places = sorted(range(len(found.themes)), key=lambda at: -found.counts[at])
    return [at for at in places if found.counts[at] > 0][:THEMES]


@dataclass(frozen=True, slots=True)
class _Told:
    """What was released of one theme's units.

    Attributes:
        words: Those that many gave, the most frequent first, with their counts.
        sentence: A public model's, of these words; None where it wrote none that may stand.
    """

    words: dict[str, Estimate]
    sentence: str | None


@dataclass(frozen=True, slots=True, repr=False)
class _Asking:
    """The question to units of themes, and what reads them."""

    run: PrivateRun
    question: Question

    @staticmethod
    def of(request: Request, run: PrivateRun) -> _Asking:
        """The question of a request."""
        model = copying(run.model, run.config.copy_bias)
        return _Asking(run, run.question(_question(request), model))

    def votes(
        self,
        found: Surveyed,
        largest: Sequence[int],
        documents: Documents,
        embedder: Embedder,
    ) -> tuple[list[list[str]], list[float]]:
        """The votes of all units that are asked, and the rate of each theme's coins. Private.

        Args:
            found: The survey.
            largest: Its themes whose units are asked.
            documents: All units.
            embedder: Of their vectors.
        """
        run, votes, rates = self.run, list[list[str]](), list[float]()
        vectors = on_grid(np.stack([found.themes[at].vector for at in largest]))
        each = members_of(documents, embedder, vectors, run.config.privacy_unit)
        for at, (theme, members) in enumerate(zip(largest, each, strict=True)):
            rate = min(1.0, _aim(run) / max(1, found.counts[theme]))
            names, passages = members.some(rate, run.randomness)
            own = self._votes(names, passages, self._progress(at, len(largest)))
            votes += [[_pair(at, key) for key in keys] for keys in own]
            rates.append(rate)
            give_way()
        return votes, rates

    def told(self, at: int, drawn: Sequence[Agreed], of: Callable[[int], Estimate]) -> _Told:
        """What was released of a theme."""
        own = [one for one in drawn if one.key.startswith(_pair(at, ""))]
        words = {one.key.removeprefix(_pair(at, "")): of(one.count) for one in own}
        question, sentence = self.question, None
        if words and question.silent:
            most = answer_keys(question.text).most
            sentence = written_sentence(question, list(words)[:most])
        return _Told(words, sentence)

    def _votes(
        self, names: Sequence[str], passages: Sequence[Sequence[str]], on_progress: Progress | None
    ) -> list[tuple[str, ...]]:
        """The words that each unit gives, of those that give some."""
        run, question = self.run, self.question
        with enough_memory():
            if run.reader is not None:
                reading = notes(run.reader, question.text, run.template.note)
                said = reading([tuple(own) for own in passages], on_progress, names)
                votes = votes_of_notes(question, said, passages)
            else:
                inputs = [question.digest(own) for own in passages]
                kept = [own for own, given in zip(passages, inputs, strict=True) if given]
                room = run.config.max_tokens
                rows = read(
                    question.model,
                    question.prompt,
                    [one for one in inputs if one],
                    room=room,
                    on_progress=on_progress,
                )
                assert isinstance(rows, SpeakingRows)
                suffixes = [one.suffix for one in question.phrasings]
                votes = votes_of_rows(rows, vote_reader(question, kept), suffixes, room)
        return [vote.keys for vote in votes if vote is not None]

    def _progress(self, at: int, themes: int) -> Progress | None:
        told = self.run.on_progress
        if told is None:
            return None
        return lambda part, _: told((at + part) / themes, 1.0)


def _pair(theme: int, key: str) -> str:
    """A key of a theme's own."""
    return f"{theme} {key}"


@dataclass(frozen=True, slots=True, repr=False)
class ThemeMembers:
    """The units of one theme. Private.

    Attributes:
        names: Of the units.
        fetch: Reads the passages of some of them, by their places.
    """

    names: Sequence[str] = field(repr=False)
    fetch: Callable[[Sequence[int]], list[tuple[str, ...]]] = field(repr=False)

    def some(self, rate: float, randomness: Randomness) -> tuple[list[str], list[tuple[str, ...]]]:
        """Names and passages of those that secret coins keep, one of its own for each."""
        places = [at for at in range(len(self.names)) if rate == 1 or randomness.uniform() < rate]
        return [self.names[at] for at in places], self.fetch(places)


def members_of(
    documents: Documents,
    embedder: Embedder,
    themes: npt.NDArray[np.float32],
    privacy_unit: str = "document",
) -> list[ThemeMembers]:
    """The units of each theme: those whose best passage is nearest to it, and near at all.

    A unit is of one theme at most. Which one is a function of its own passages and of the themes.

    Args:
        documents: A corpus, a store that hands over its vectors, or a list.
        embedder: Of their vectors.
        themes: Vectors on the grid ``[themes, d]``. Public.
        privacy_unit: Of a list.
    """
    if isinstance(documents, VectorSource):
        return _stored_members(documents, themes)
    units = group_by_unit(all_units(documents, privacy_unit).retrieve(""))
    names = list(units)
    texts = [tuple(passage.text for passage in units[name]) for name in names]
    scores = np.full((len(names), len(themes)), -np.inf)
    rows = [text for own in texts for text in own]
    if rows:
        # Exact in any order of summation, see `dpicl_rag.retrieval.vectors`.
        exact = on_grid(embedder.embed(rows)).astype(np.float64) @ themes.astype(np.float64).T
        firsts = np.cumsum([0, *map(len, texts[:-1])])
        scores = np.maximum.reduceat(exact, firsts, axis=0)

    def members(own: list[int]) -> ThemeMembers:
        return ThemeMembers([names[at] for at in own], lambda some: [texts[own[at]] for at in some])

    nearest = [_nearest(row) for row in scores.tolist()]
    return [
        members([at for at, theme in enumerate(nearest) if theme == number])
        for number in range(len(themes))
    ]


def _stored_members(source: VectorSource, themes: npt.NDArray[np.float32]) -> list[ThemeMembers]:
    scans = [source.scan(theme) for theme in themes]
    scores: dict[str, list[float]] = {}
    for number, near in enumerate(scans):
        for unit, score in zip(near.units, near.scores.tolist(), strict=True):
            scores.setdefault(unit, [-np.inf] * len(themes))[number] = score
    nearest = {unit: _nearest(row) for unit, row in scores.items()}

    def members(number: int) -> ThemeMembers:
        near = scans[number]
        own = [at for at, unit in enumerate(near.units) if nearest[unit] == number]

        def fetch(some: Sequence[int]) -> list[tuple[str, ...]]:
            texts: dict[str, list[str]] = {near.units[own[at]]: [] for at in some}
            for passage in near.passages([own[at] for at in some]):
                texts[passage.document.unit].append(passage.document.text)
            return [tuple(found) for found in texts.values()]

        return ThemeMembers([near.units[at] for at in own], fetch)

    return [members(number) for number in range(len(themes))]


def _nearest(scores: Sequence[float]) -> int | None:
    """The theme that a unit is nearest to, the first of equals; None where it is near to none."""
    best = max(range(len(scores)), key=lambda number: scores[number])
    return best if scores[best] >= NEAR else None


def _summary(
    question: str | None,
    found: Surveyed,
    plan: Plan[ThemeCounts],
    largest: Sequence[int],
    told: Sequence[_Told],
    paid: float,
) -> PrivateSummary:
    """The result: themes of the survey, the largest with what their units agree on."""
    survey = survey_result(question, found, plan)
    said = {found.themes[at].name: one for at, one in zip(largest, told, strict=False)}

    def theme(one: SurveyedTheme) -> SummarisedTheme:
        own = said.get(one.name, _Told({}, None))
        return SummarisedTheme(one.name, one.words, one.units, own.words, own.sentence)

    return PrivateSummary(
        question=question,
        themes=tuple(map(theme, survey.themes)),
        others=survey.others,
        total=survey.total,
        smallest=survey.smallest,
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=paid,
    )


def _read_by(run: PrivateRun) -> tuple[object, ...]:
    """Settings that shape what units say. Public."""
    config = run.config
    if not _asks(run):
        return ()
    if run.reader is not None:
        return "reader", run.reader.fingerprint, run.template.note, config.max_calls, config.units
    form = form_of(run.template, ())
    return run.model.fingerprint, form, config.unit_tokens, config.max_tokens, config.units
