"""Extraction: public spans, records shown with their own, answers compared letter by letter."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.synthesis.pools import pools
from dpicl_research import film_spans, synthetic_examples
from dpicl_research.film_spans import SpanTemplate, examples_of
from dpicl_research.label_scores import Scorer
from dpicl_research.synthetic_report import read_report
from dpicl_research.synthetic_shots import Arm, arms, plan_of, shots_of
from dpicl_research.tasks import Item, Task, Template
from tests.support.scripted_answers import ScriptedModel
from tests.support.tiny_model import build_tiny_model

GIVEN = {
    **{"seeds": 1, "shots": 2, "queries": 2, "delta": 1e-2, "max_tokens": 2, "experts": 2},
    **{"candidates": 10, "text_tokens": 12},
}


@pytest.fixture(scope="module")
def model():
    return build_tiny_model()


def item(text, span):
    return Item(text, span.split()[0], span, tuple(text.split()))


@pytest.fixture
def films():
    items = [item(f"a {span} film number {n}", span) for n, span in enumerate(["scary", "war"] * 4)]
    return Task("mitg", Template("", "Sentence:", "Genre:"), (), tuple(items[:5]), tuple(items[5:]))


def test_every_record_is_in_each_pool_and_shows_its_own_span(films):
    labels = ["comedy", "horror"]
    found = pools(examples_of(films.pool, labels), labels, 2)
    assert {label: len(pool) for label, pool in found.items()} == {"comedy": 5, "horror": 5}
    assert found["comedy"] == found["horror"]
    template = SpanTemplate("Write.", "Genre:", "Sentence:")
    (text,) = next(iter(found["comedy"].values()))
    assert template.shown("comedy", text) == "Genre: scary\nSentence: a scary film number 0"
    assert template.shown("comedy", "no span") == "Genre: \nSentence: no span"


def test_texts_of_all_spans_add_up_for_a_unit(model, films):
    settings = synthetic_examples.settings_for(films, model, 0.5, **GIVEN)
    plan = plan_of(films, settings, Arm("few-shot", 2.0))
    assert (plan.pools, plan.draws) == (2, 2 * 2)


def test_shots_of_public_spans(model, films, tmp_path):
    settings = synthetic_examples.settings_for(films, model, 0.5, **GIVEN)
    for arm in (Arm("no-noise"), Arm("difference", 2.0), Arm("adaptive:published", 2.0)):
        shots = shots_of(model, films, settings, arm, 0, tmp_path, lambda *_: None)
        for shot in shots.items:
            assert shot.shown in film_spans.SPANS["mitg"]
            assert shot.answer == shot.shown.split()[0]
        assert (shots.true_epsilon is None) == (arm.epsilon is None)
    real = shots_of(model, films, settings, Arm("real"), 0, tmp_path, lambda *_: None)
    assert set(real.items) <= set(films.pool)


@pytest.mark.heavy
def test_a_run_has_accuracy_and_no_prior(model, films, tmp_path):
    settings = synthetic_examples.settings_for(films, model, 0.5, **GIVEN)
    rows = arms(["few-shot"], [2.0])
    synthetic_examples.run(model, films, settings, rows, tmp_path, None)
    report = read_report(tmp_path)
    assert [line.corrected for line in report.lines] == [None] * 5
    (table,) = report.tables()
    assert {row[4] for row in table.rows} == {""}


@pytest.mark.parametrize(
    ("said", "right"),
    [(" war\nx", 1.0), ("\n war\nx", 1.0), (" wars\n", 0.0), (" War\n", 0.0), (" a war\n", 0.0)],
)
def test_an_answer_counts_where_it_is_the_span_letter_by_letter(said, right):
    task = Task("mitg", Template("", "Sentence:", "Genre:"), (), (), (item("a war film", "war"),))
    scorer = Scorer(ScriptedModel(said), task, 12)
    found = synthetic_examples._extracted(scorer, (), task.test)
    assert found == {"accuracy": right, "corrected": None}


def test_an_answer_ends_after_its_most_tokens():
    task = Task("mitg", Template("", "Sentence:", "Genre:"), (), (), (item("a war film", "war"),))
    assert Scorer(ScriptedModel(" a long answer"), task, 12).written((), "a war film", 5) == "a lo"


def test_a_task_without_a_public_list_is_refused(model):
    task = Task("other", Template("", "a", "b"), (), (item("x y", "x"),), (item("x y", "x"),))
    with pytest.raises(ConfigurationError, match="need a task with a list of labels"):
        synthetic_examples.settings_for(task, model, 0.5, **GIVEN)
