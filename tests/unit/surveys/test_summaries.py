"""Summaries: themes with shares, and words that units of the largest agree on."""

import asyncio
import random
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from dpicl_rag import (
    AnswerMemory,
    ConfigurationError,
    Corpus,
    Document,
    PrivateContextLLM,
    Rehearsal,
    TopKRetriever,
)
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.answering import private_run
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.languages.answer_keys import AnswerKeys
from dpicl_rag.languages.languages import languages
from dpicl_rag.ledger import Ledger
from dpicl_rag.requests import Request
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.surveys import subjects as subjects_room
from dpicl_rag.surveys import summaries
from dpicl_rag.surveys.subjects import subject_template, subject_words, subjects
from dpicl_rag.surveys.vocabulary import nearest_themes, themes_of
from tests.support.rehearsed_model import RehearsedModel, knowing

PLANTED = {
    "piano": (60, "Our {0} piano is out of tune, the keys stick and the music sounds wrong."),
    "bakery": (45, "The {0} bread from your bakery was stale and the cake was dry."),
    "garden": (35, "In the {0} garden the flowers wither, nobody waters the plants."),
}
WORDS = (
    *("piano", "keys", "music"),
    *("bakery", "bread", "cake"),
    *("garden", "flowers", "plants"),
    *("river", "boat", "sail"),
)
TROUBLE = {"piano": "keys stick", "bakery": "cake is dry", "garden": "flowers wither"}
REST = "Please send {0} regards to everyone."
DAYS = ("first", "old", "blue", "other", "small", "next", "long", "warm")
QUESTION = "What do people complain about?"


def documents(seed=0):
    """Units of themes that were planted, and some of none."""
    coins = random.Random(seed)
    texts = [text for many, text in PLANTED.values() for _ in range(many)] + 10 * [REST]
    coins.shuffle(texts)
    return [Document(text.format(coins.choice(DAYS)), f"u{at}") for at, text in enumerate(texts)]


class Themed:
    """Words of a theme share an axis, and have one of their own."""

    fingerprint = "themed"

    def embed(self, texts, *, query=False):
        rows = np.zeros((len(texts), 16), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for at, word in enumerate(WORDS):
                if word in text:
                    row[[at, 12 + at // 3]] += 0.3, 1.0
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


class Reading(RehearsedModel):
    """A model that says what a document is about, and what is wrong with it, or nothing."""

    def __init__(self, script):
        super().__init__(script)
        self.said_of = Counter()

    def say(self, document, asked, shown, most):
        name = next((one for one in PLANTED if one in document), None)
        self.said_of["about" in asked] += 1
        text = f"the {name}" if "about" in asked else f"Because {TROUBLE.get(name)}"
        text = "NOTHING" if name is None else text
        tokens = [*self.tokenizer.encode(text), 0][:most]
        return Continuation(tuple(tokens), (0.0,) * len(tokens))


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    knows = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: knows)
    monkeypatch.setattr(
        summaries, "written_sentence", lambda question, words: f"It is the {words[0]}"
    )


@pytest.fixture
def corpus(tmp_path):
    found = Corpus.create("mail", tmp_path, embedder=Themed())
    found.add(documents(), no_ledger=True)
    yield found
    found.close()


def llm(**settings):
    return PrivateContextLLM(Reading(knowing), **{"epsilon": 4.0, "seed": 7, **settings})


pytestmark = pytest.mark.filterwarnings("ignore::dpicl_rag.NotPrivateWarning")


def require_planted(found):
    largest = found.themes[:3]
    assert [theme.title for theme in largest] == list(PLANTED)
    for theme, share, (name, (many, _)) in zip(
        largest, found.shares, PLANTED.items(), strict=False
    ):
        assert abs(share.part - many / 150) < 0.05
        assert theme.units.low <= many <= theme.units.high
        assert all(word in TROUBLE[name] for word in theme.agreed)
        assert theme.sentence == (f"It is the {next(iter(theme.agreed))}" if theme.agreed else None)
    assert largest[0].agreed


@pytest.mark.heavy
def test_planted_themes_are_named_with_their_shares_by_the_packaged_vectors():
    require_planted(llm().summarise(QUESTION, documents()))


def test_planted_themes_are_named_with_their_shares(corpus):
    found = llm().summarise(QUESTION, corpus)
    require_planted(found)
    themes = [theme for theme in found.themes if theme.units.low > 0]
    told = [
        found.total.units,
        found.smallest,
        *(
            number
            for one in (*(theme.units for theme in themes), found.others)
            for number in (one.units, one.low, one.high)
        ),
    ]
    assert sorted(map(int, re.findall(r"\d+", found.text))) == sorted(told)
    assert found.as_dict()["themes"][0]["title"] == "piano"
    assert found.kind == "summary"
    assert "piano" in found._repr_html_()
    later = asyncio.run(llm().asummarise(None, corpus))
    assert later.themes[0].title == "piano"


ABOUT = "What are the main themes?"


def test_asked_what_they_are_about_units_say_it_and_nobody_is_asked_more(corpus, tmp_path):
    with (
        Ledger(tmp_path / "ledger.sqlite") as ledger,
        AnswerMemory(tmp_path / "memory", "mail", embedder=Themed()) as memory,
    ):
        asking, told = llm(ledger=ledger, knowledge=memory), []
        found = asking.ask(ABOUT, corpus, on_progress=lambda done, whole: told.append(done / whole))
        assert found.kind == "survey"
        assert told == [at / 10 for at in range(1, 11)]
        assert [theme.name for theme in found.themes][:3] == list(PLANTED)
        assert asking.model.said_of.keys() == {True}  # about what; of none why
        plan = asking.plan(corpus, Request.of(None, question=ABOUT))
        assert [part.name for part in plan.parts] == ["search", "words", "themes"]
        assert sum(part.rho for part in plan.parts) == pytest.approx(plan.rho, rel=1e-6)
        assert sum(part.delta for part in plan.parts) <= llm().config.threshold_delta(booked=True)
        assert found.rho == plan.rho
        assert found.smallest == plan.mechanism.smallest()
        assert ledger.status()[0].spent == pytest.approx(plan.rho, abs=1e-8)
        again = asking.ask("What do people write about?", corpus)
        assert (again.from_memory, again.rho, again.themes) == (True, 0.0, found.themes)


@pytest.mark.parametrize("fields", [{}, {"votes": 2}, {"sample": 0.9}, {"by": "vectors"}])
def test_a_survey_with_fields_of_its_own_is_by_vectors(corpus, fields):
    asking = llm()
    asking.ask(ABOUT, corpus, vocabulary=WORDS, kind="survey", **fields)
    asking.survey(None, corpus, vocabulary=WORDS)
    assert not asking.model.said_of


@pytest.mark.parametrize("field", [{"votes": 2}, {"sample": 0.9}, {"by": "vectors"}])
def test_one_field_says_how_a_survey_is_made(field):
    assert Request.of(None, question=ABOUT).settled().says_nothing_of_how
    assert not Request.of(None, question=ABOUT, **field).settled().says_nothing_of_how


def test_a_mail_is_about_what_it_says(monkeypatch):
    mail = "From: Ida <ida@elm.example>\nSubject: A\n\nThe piano is old.\n\nIda\nElm Court 4"
    model, read = Reading(knowing), []
    honest = model.digest
    monkeypatch.setattr(model, "digest", lambda own, most: read.append(own) or honest(own, most))
    run = SimpleNamespace(reader=None, model=model, config=llm().config)
    assert subjects({"one": [mail]}, None, run, None) == ["the piano"]
    assert read[0] == ["From: Ida\nSubject: A\n\nThe piano is old."]


def test_a_text_is_of_the_theme_that_it_is_nearest_to_and_no_other():
    embedder = Themed()
    themes = themes_of(["piano", "cake"], [2, 1], on_grid(embedder.embed(["piano", "cake"])))
    texts = ["piano keys", "bread", "a cake with piano keys", "", "regards"]
    assert nearest_themes(texts, themes, embedder) == [0, 1, 0, None, None]
    assert nearest_themes(texts, [], embedder) == [None] * len(texts)


@pytest.mark.parametrize("language", languages(), ids=lambda one: one.name)
def test_each_language_has_examples_of_subjects_in_words_that_are_counted(language):
    template = subject_template(language)
    question = template.examples[0].question
    for one in template.examples:
        assert len(subject_words(one.answer, question)) == 1


def test_a_subject_that_repeats_an_example_is_none():
    class Copying(Reading):
        def say(self, document, asked, shown, most):
            return Continuation((*self.tokenizer.encode("a snail"), 0), (0.0, 0.0, 0.0))

    run = SimpleNamespace(reader=None, model=Copying(knowing), config=llm().config)
    units = {"one": ["The stair is wet."], "two": ["Our snail is ill."]}
    assert subjects(units, None, run, None) == ["", "a snail"]


def test_what_is_told_is_what_was_planned_and_charged_and_is_free_again(corpus, tmp_path):
    request = Request.of("summary", question=QUESTION)
    with (
        Ledger(tmp_path / "ledger.sqlite") as ledger,
        AnswerMemory(tmp_path / "memory", "mail", embedder=Themed()) as memory,
    ):
        asked = llm(epsilon=8.0, ledger=ledger, knowledge=memory)
        plan = asked.plan(corpus, request)
        assert [part.name for part in plan.parts] == [
            "search",
            "words",
            "themes",
            "sentences",
        ]
        assert sum(part.rho for part in plan.parts) == pytest.approx(plan.rho)
        first = asked.run(request, corpus)
        (spent,) = [one.spent for one in ledger.status() if one.kind == "corpus"]
        assert spent == pytest.approx(first.rho) == pytest.approx(plan.rho)
        again = asked.run(request, corpus)
        assert (again.rho, again.from_memory, again.text) == (0.0, True, first.text)
        assert [one.spent for one in ledger.status() if one.kind == "corpus"] == [spent]
        assert not asked.run(request.model_copy(update={"fresh": True}), corpus).from_memory


def test_words_of_one_unit_that_cannot_be_read_are_no_error(monkeypatch):
    """An error would tell that the unit is there."""
    honest = subjects_room.content_words

    def failing(text):
        if "piano" in text:
            raise ValueError(text)
        return honest(text)

    run = SimpleNamespace(reader=None, model=Reading(knowing), config=llm().config)
    units = {"one": ["Our piano is old."], "two": ["The garden is dry."]}
    monkeypatch.setattr(subjects_room, "content_words", failing)
    assert subjects(units, None, run, None) == ["", "the garden"]
    monkeypatch.setattr(AnswerKeys, "parts", lambda keys, answer: failing(answer))
    assert subject_words("the piano", None) == ()


def test_a_unit_without_text_is_no_error(tiny_model):
    """A model refuses a row that reads nothing."""
    run = SimpleNamespace(reader=None, model=tiny_model, config=llm().config)
    units = {"one": ["Our piano is old."], "two": ["The garden is dry."]}
    [one, two] = subjects(units, None, run, None)
    assert subjects({"none": [""], **units, "no passage": []}, None, run, None) == [
        "",
        one,
        two,
        "",
    ]
    assert subjects({"none": [""]}, None, run, None) == [""]


def test_what_a_search_finds_is_not_summarised(corpus):
    """What one unit moves there is for the search to say."""
    with pytest.raises(ConfigurationError, match="all units are surveyed"):
        llm().summarise(None, TopKRetriever(corpus, 4))


def test_where_no_theme_is_seen_no_sentence_is_paid_for(tmp_path):
    few = [Document("a piano", "one"), Document("a cake", "two")]
    with Corpus.create("mail", tmp_path, embedder=Themed()) as corpus:
        corpus.add(few, no_ledger=True)
        found = llm().summarise(None, corpus)
        plan = llm().plan(corpus, Request.of("summary"))
    assert found.themes == ()
    assert found.rho == pytest.approx(plan.rho - plan.price("sentences"))


@pytest.mark.parametrize("silent", [False, True])
def test_by_words_of_a_list_and_by_a_model_that_is_never_silent_no_unit_is_asked(
    corpus, monkeypatch, silent
):
    monkeypatch.setattr(private_run.PrivateRun, "silent", silent)
    model = Reading(knowing)
    found = PrivateContextLLM(model, epsilon=4.0, seed=7).summarise(
        QUESTION, corpus, vocabulary=WORDS
    )
    assert not model.together
    assert {theme.sentence for theme in found.themes} == {None}
    assert found.themes[0].title == found.themes[0].name
    assert found.rho == pytest.approx(epsilon_to_rho(4.0, 1e-5))


def test_of_many_units_some_are_read_and_counts_are_of_all(corpus):
    model = Reading(knowing)
    found = PrivateContextLLM(model, epsilon=30.0, units=30, seed=7).summarise(QUESTION, corpus)
    assert 60 < model.said_of[True] < 120
    assert 0 < model.said_of[False] <= model.said_of[True]
    assert max(model.together) < 60  # in steps
    assert found.themes[0].units.low <= 60 <= found.themes[0].units.high
    assert found.themes[0].units.high - found.themes[0].units.low > 10
    agreed = next(iter(found.themes[0].agreed.values()))
    assert agreed.low <= 60 <= agreed.high
