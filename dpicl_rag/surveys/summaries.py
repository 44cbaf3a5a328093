"""Summaries: what units are about in words of their own, and what units of the largest themes say.

Each unit says its subject, in a word or a few; words that many say are themes. Each unit is of the
theme that its subject is nearest to, and of no other. It is asked one public question by itself,
as the expert of an answer is, and votes for words of its theme. The votes of all themes are one
histogram, whose keys are pairs of a theme and a word: so a unit that comes moves as few counts as
in one answer, however many themes there are (docs/privacy.md, "Summaries").

A model that would make subjects up is not asked: themes are those of a survey by vectors then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpicl_rag.answering.free_answers import form_of
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.sentence_votes import vote_reader, votes_of_notes, votes_of_rows
from dpicl_rag.answering.written_sentences import written_sentence
from dpicl_rag.language_models.base import Progress, SpeakingRows
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.language_models.readers.notes import notes
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.prose import prose_for
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreed
from dpicl_rag.requests import VOTES, Request
from dpicl_rag.results import Estimate
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import Documents, vectors_of
from dpicl_rag.retrieval.search import Search
from dpicl_rag.retrieval.vectors import embedded
from dpicl_rag.surveys.count_plans import (
    SummaryCounts,
    summary_plan,
    survey_plan,
    units_of_a_step,
)
from dpicl_rag.surveys.opinions import units_in_steps
from dpicl_rag.surveys.paying_units import found_taking_part, vectors_taking_part
from dpicl_rag.surveys.remembered_counts import memory_of_counts, remembered_or_released
from dpicl_rag.surveys.subjects import subject_words, subjects
from dpicl_rag.surveys.survey_results import (
    PrivateSummary,
    PrivateSurvey,
    SummarisedTheme,
    SurveyedTheme,
)
from dpicl_rag.surveys.surveying import (
    Surveyed,
    asked_words,
    nearest,
    plan_of_survey,
    survey_result,
    survey_units,
    surveyed,
    units_search,
)
from dpicl_rag.surveys.vocabulary import nearest_themes, packaged_words, themes_of

THEMES = 3
"""Themes whose units are asked, at most."""


def summarise_units(request: Request, documents: Documents, run: PrivateRun) -> PrivateSummary:
    """Summarise documents; see `PrivateContextLLM.summarise` for errors.

    Args:
        request: What is asked, if anything.
        documents: Private.
        run: Reads units, and pays.
    """
    config, asks = run.config, _asks(request, run)
    memory = memory_of_counts(documents, run)
    embedder = _embedder(documents)
    released = _by_subjects if asks else _by_vectors
    return remembered_or_released(
        memory,
        PrivateSummary,
        request,
        (embedder.fingerprint, *(_read_by(run) if asks else (_words(request),))),
        run,
        partial(released, request, documents, run, embedder),
        enough=lambda one: one.epsilon >= config.epsilon and one.delta >= config.delta,
    )


def survey_documents(request: Request, documents: Documents, run: PrivateRun) -> PrivateSurvey:
    """Survey documents; see `PrivateContextLLM.survey` for errors.

    Asked in words what they are about, and nothing else, units say it in words of their own, where
    a model can be silent: vectors tell addresses and dates, too. Else it is by vectors.

    Args:
        request: What is asked, if anything.
        documents: Private.
        run: Reads units, and pays.
    """
    if not _asks_subjects(request, run):
        return survey_units(request, documents, run)
    config, embedder = run.config, _embedder(documents)

    def release() -> PrivateSurvey:
        return _themes(request, documents, run, embedder)[0]

    return remembered_or_released(
        memory_of_counts(documents, run),
        PrivateSurvey,
        request,
        (embedder.fingerprint, *_read_by(run)),
        run,
        release,
        enough=lambda one: one.epsilon >= config.epsilon and one.delta >= config.delta,
    )


def plan_of_survey_documents(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Any], int | None]:
    """The plan of a survey, and about how many units a model or a reader reads for it."""
    if not _asks_subjects(request, run):
        return plan_of_survey(request, documents, run)
    search = _search(documents, run)
    return _plan(request, search, run), search.aim


def plan_of_summary(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Any], int | None]:
    """The plan of a summary, and about how many units are read for it."""
    if not _asks(request, run):
        return survey_plan(run.config, len(_words(request)), VOTES), None
    search = _search(documents, run)
    return _plan(request, search, run), search.aim


def _words(request: Request) -> Sequence[str]:
    """The words of a survey by vectors. Public."""
    return packaged_words() if request.vocabulary is None else request.vocabulary


def _plan(request: Request, search: Search, run: PrivateRun) -> Plan[SummaryCounts]:
    keys = answer_keys(_question(request)).most if request.kind == "summary" else 0
    return summary_plan(run.config, keys, search.rho(run.config.adjacency), booked=run.booked)


def _by_vectors(
    request: Request, documents: Documents, run: PrivateRun, embedder: Embedder
) -> PrivateSummary:
    words, coins, question = _words(request), run.randomness, request.question
    plan = survey_plan(run.config, len(words), VOTES)
    public, query = asked_words(question, words, VOTES, embedder)
    vectors = vectors_of(documents, embedder, run.config.privacy_unit)
    with vectors_taking_part(plan, documents, run, vectors) as (some, vectors):
        blocks = nearest(vectors, query)
        found = surveyed(blocks, public, plan, VOTES, some.account, coins)
    survey = survey_result(question, found, plan.mechanism, plan, complete=some.complete)
    return _summary(survey, {}, plan.rho)


def _by_subjects(
    request: Request, documents: Documents, run: PrivateRun, embedder: Embedder
) -> PrivateSummary:
    return _summary(*_themes(request, documents, run, embedder))


def _themes(
    request: Request, documents: Documents, run: PrivateRun, embedder: Embedder
) -> tuple[PrivateSurvey, Mapping[str, _Told], float]:
    """Themes by what units say they are about, what those of the largest say, and the price."""
    search = _search(documents, run)
    plan, coins, question = _plan(request, search, run), run.randomness, request.question
    counts = plan.mechanism
    paid, told = plan.rho, dict[str, _Told]()
    opened = found_taking_part(plan, documents, run, search, question or "")
    with opened as (some, found, rate):
        account = some.account
        units = {name: [one.text for one in own] for name, own in found.items()}
        said = subjects(units, question, run, _part(run, 0, 2 if counts.sentences else 1))
        account.pay(counts.words.rho, delta=counts.words.delta)
        drawn = counts.words.draw([subject_words(one, question) for one in said], coins)
        words = {one.key: one.count for one in drawn}
        themes = themes_of([*words], [*words.values()], embedded([*words], embedder))
        theme_of = nearest_themes(said, themes, embedder)
        account.pay(plan.price("themes"))
        members = [theme_of.count(at) for at in (*range(len(themes)), None)]
        survey = Surveyed(themes, words, counts.shares.draw(members, coins))
        if counts.sentences is not None and (largest := _largest(survey)):
            asked = _Asking.of(request, run)
            votes = asked.votes(largest, theme_of, units)
            account.pay(counts.sentences.rho, delta=counts.sentences.delta)
            agreed = counts.sentences.draw(votes, coins)
            noise = counts.sentences.noise
            assert isinstance(noise, DiscreteGaussian)
            estimate = partial(Estimate.of, noise=noise, rate=rate)
            told = {themes[at].name: asked.told(at, agreed, estimate) for at in largest}
        else:
            paid -= plan.price("sentences")
    named = survey_result(question, survey, counts.themes, plan, rate, complete=some.complete)
    return named, told, paid


def _search(documents: Documents, run: PrivateRun) -> Search:
    """The search for the units that are read: about as many as for an answer on each theme."""
    config = run.config
    most = THEMES * config.units if config.max_calls is None else config.max_calls
    return units_search(documents, config, most=most)


def _part(run: PrivateRun, at: int, of: int) -> Progress | None:
    """Tells the progress of one of several parts as that of the whole."""
    told = run.on_progress
    return None if told is None else lambda part, _: told((at + part) / of, 1.0)


def _embedder(documents: Documents) -> Embedder:
    return getattr(documents, "embedder", None) or SentenceTransformerEmbedder()


def _asks_subjects(request: Request, run: PrivateRun) -> bool:
    """True of a survey whose units say what they are about: in words, and of no paid reader."""
    return request.says_nothing_of_how and run.reader is None and _asks(request, run)


def _asks(request: Request, run: PrivateRun) -> bool:
    """True where units are asked. A model that is never silent agrees on what it makes up."""
    if request.vocabulary is not None:
        return False
    return run.config.agreement != "off" and (run.reader is not None or run.silent)


def _question(request: Request) -> str:
    """What each unit of a theme is asked, in the language of the request. Public."""
    return prose_for(request.question).sentence("why")


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
        largest: Sequence[int],
        theme_of: Sequence[int | None],
        units: Mapping[str, Sequence[str]],
    ) -> list[list[str]]:
        """The votes of all units that are asked. Private.

        Args:
            largest: Themes whose units are asked.
            theme_of: The theme of each unit, if it has one.
            units: Passages of each.
        """
        votes: list[list[str]] = []
        for at, theme in enumerate(largest):
            own = zip(units, theme_of, strict=True)
            names = [name for name, its in own if its == theme]
            told = _part(self.run, len(largest) + at, 2 * len(largest))
            said = self._votes(names, [units[name] for name in names], told)
            votes += [[_pair(theme, key) for key in keys] for keys in said]
        return votes

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
        if run.reader is not None:
            reading = notes(run.reader, question.text, run.template.note)
            said = reading([tuple(own) for own in passages], on_progress, names)
            votes = votes_of_notes(question, said, passages)
        else:
            suffixes, room = [one.suffix for one in question.phrasings], run.config.max_tokens
            together = units_of_a_step(question.allowance + max(map(len, suffixes)) + room)
            votes = []
            for own, _ in units_in_steps(passages, together, on_progress):
                inputs = [question.digest(one) for one in own]
                kept = [one for one, given in zip(own, inputs, strict=True) if given]
                some = [given for given in inputs if given]
                with enough_memory():
                    rows = read(question.model, question.prompt, some, room=room)
                    assert isinstance(rows, SpeakingRows)
                    votes += votes_of_rows(rows, vote_reader(question, kept), suffixes, room)
        return [vote.keys for vote in votes if vote is not None]


def _pair(theme: int, key: str) -> str:
    """A key of a theme's own."""
    return f"{theme} {key}"


def _summary(survey: PrivateSurvey, told: Mapping[str, _Told], paid: float) -> PrivateSummary:
    """The result: themes with shares, the largest with what their units agree on."""

    def theme(one: SurveyedTheme) -> SummarisedTheme:
        own = told.get(one.name, _Told({}, None))
        return SummarisedTheme(one.name, one.words, one.units, own.words, own.sentence)

    return PrivateSummary(
        question=survey.question,
        themes=tuple(map(theme, survey.themes)),
        others=survey.others,
        total=survey.total,
        smallest=survey.smallest,
        epsilon=survey.epsilon,
        delta=survey.delta,
        rho=paid,
        complete=survey.complete,
    )


def _read_by(run: PrivateRun) -> tuple[object, ...]:
    """Settings that shape what units say. Public."""
    config = run.config
    if run.reader is not None:
        return "reader", run.reader.fingerprint, run.template.note, config.max_calls, config.units
    form = form_of(run.template, ())
    return run.model.fingerprint, form, config.unit_tokens, config.max_tokens, config.units
