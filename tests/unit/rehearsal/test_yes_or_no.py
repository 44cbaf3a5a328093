"""How a model is asked for yes or no, and how often it is right, follow from public documents."""

import pytest
import torch

from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.rehearsal import Reading, YesOrNo, kept_rehearsals, yes_or_no_of
from dpicl_rag.rehearsal.rehearsal_items import panel, panel_names
from dpicl_rag.rehearsal.rehearsal_items import yes_or_no_documents as documents
from dpicl_rag.rehearsal.rehearsal_items import yes_or_no_questions as questions
from dpicl_rag.rehearsal.yes_or_no import FORMS, MeasuredRate, rehearse_yes_or_no, yes_or_no_version
from tests.support.readings import SEEING
from tests.support.tiny_model import build_tiny_model

TRUTH = {
    (question.text, documents()[name]): name in question.yes
    for question in questions()
    for name in (*question.yes, *question.no)
}


class Reader:
    """A model that reads public documents by a function from question, document and truth."""

    context_length = 4096

    def __init__(self, odds, fingerprint="reader"):
        self.tokenizer = build_tiny_model().tokenizer
        self.fingerprint = fingerprint
        self.odds, self.asked = odds, []

    def digest(self, passages, most):
        return passages[0]

    def read(self, prefix, inputs, *, room, on_progress=None):
        return _Rows(self, inputs)


class _Rows:
    def __init__(self, model, inputs):
        self.model, self.inputs, self.said = model, inputs, ""

    def extend(self, tokens):
        text = self.model.tokenizer.decode(tokens)
        [self.said] = [one.text for one in questions() if f"Question: {one.text} Answer" in text]
        self.model.asked.append(self.said)

    def score(self, continuations):
        truth = [TRUTH.get((self.said, text), False) for text in self.inputs]
        odds = [
            self.model.odds(self.said, text, true)
            for text, true in zip(self.inputs, truth, strict=True)
        ]
        rows = torch.tensor([[one, 0.0] for one in odds]).log_softmax(dim=-1)
        return DenseStep(rows[0], rows[1:])


def leaning(question, document, truth):
    """Right, but leaning to yes at questions of even length."""
    return 3.0 * (1 if truth else -1) + (0.0 if len(question) % 2 else 5.0)


def test_items_are_whole_and_say_no_more_often_than_yes():
    names = set(documents())
    assert set(panel_names()) <= names
    for question in questions():
        assert {*question.yes, *question.no} <= names
        assert question.yes
        assert len(question.no) > 5
        assert not {*question.yes} & {*question.no}
    assert len({question.text for question in questions()}) == len(questions()) >= 30


def test_no_worked_example_is_asked():
    shown = {example.document for example in FORMS["worked"].examples}
    assert not shown & set(documents().values())
    assert isinstance(FORMS["plain"], PromptTemplate)


def test_a_lean_at_some_questions_has_a_bar_of_its_own():
    found = rehearse_yes_or_no(Reader(leaning))
    assert -3.0 <= found.clear.least < 3.0
    assert 2.0 <= found.unclear.least < 8.0
    for reading in (found.clear, found.unclear):
        assert reading.yes.mean > 0.95
        assert reading.no.mean > 0.98
        assert reading.countable


def test_a_model_that_guesses_is_left_early_and_cannot_count():
    model = Reader(lambda question, document, truth: 0.5)
    found = rehearse_yes_or_no(model)
    assert not found.clear.countable
    assert len(model.asked) == 12 * len(FORMS)


def test_a_model_that_has_no_room_cannot_count():
    model = Reader(leaning)
    model.context_length = 50
    assert not rehearse_yes_or_no(model).clear.countable


@pytest.mark.parametrize(("near", "clear"), [(0, True), (2, True), (3, False), (12, False)])
def test_a_question_is_clear_where_nearly_all_public_documents_say_no(near, clear):
    texts = panel()[:near]
    model = Reader(lambda question, document, truth: 0.5 if document in texts else -2.0)
    found = SEEING.form, SEEING.clear, SEEING.unclear
    reading = YesOrNo(*found).reading(model, questions()[0].text)
    assert reading == (SEEING.clear if clear else SEEING.unclear)


def test_a_rate_is_that_of_a_hand_computation():
    # Two questions of ten: 10 and 6 are right.
    found = MeasuredRate.of([(10, 10), (6, 10)])
    mean = 16.5 / 21
    between = ((10 - 10 * mean) ** 2 + (6 - 10 * mean) ** 2 - 20 * mean * (1 - mean)) / 180
    assert found.mean == mean
    assert found.variance == pytest.approx(
        between + (20 * mean * (1 - mean) + 180 * between) / 20**2
    )


def test_questions_that_differ_no_more_than_chance_have_no_variance_between_them():
    found = MeasuredRate.of([(9, 10)] * 20)
    assert found.variance == pytest.approx(found.mean * (1 - found.mean) / 200)


def test_what_is_said_of_it_names_both_rates():
    assert Reading(0.0, MeasuredRate(0.9, 0), MeasuredRate(1.0, 0)).verdict == (
        "reads 90 in 100 that say yes right, and 99 in 100 that say no"
    )


def test_it_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_rehearsals, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr(kept_rehearsals, "_known", {})
    model = Reader(leaning)
    found = yes_or_no_of(model)
    monkeypatch.setattr(kept_rehearsals, "_known", {})
    model.asked.clear()
    assert yes_or_no_of(model) == found
    assert model.asked == []


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"form": "worked"}', b"[]"])
def test_what_is_damaged_is_asked_anew(damage, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_rehearsals, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr(kept_rehearsals, "_known", {})
    found = yes_or_no_of(Reader(leaning))
    [file] = (tmp_path / "rehearsals").iterdir()
    file.write_bytes(damage)
    monkeypatch.setattr(kept_rehearsals, "_known", {})
    assert yes_or_no_of(Reader(leaning)) == found


@pytest.mark.heavy
def test_the_default_model_is_known_and_cannot_count(default_model):
    model = Reader(leaning, default_model.fingerprint)
    found = yes_or_no_of(model)
    assert model.asked == []
    assert not found.clear.countable
    assert kept_rehearsals.YES_OR_NO.packaged[0] == yes_or_no_version()
