"""`models show`: what a language model is fit for, from public documents alone."""

from __future__ import annotations

import json

import pytest

from dpicl_rag.rehearsal import kept_rehearsals
from tests.support.readings import GUESSED_LABELS, LABELLING
from tests.support.rehearsed_model import RehearsedModel, knowing

VERDICT = (
    "answers 42 of 42, stays silent on 21 of 21 documents about something else, and on 21 of 21 "
    "that come near: may answer"
)


@pytest.fixture
def knows(monkeypatch, tmp_path):
    """The default model is one that knows silence, and nothing is kept yet."""
    model = RehearsedModel(knowing)
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: model)
    monkeypatch.setattr("dpicl_rag.rehearsal.labelling_of", lambda *_, **__: LABELLING)
    monkeypatch.setattr(kept_rehearsals, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr(kept_rehearsals, "_known", {})
    return model


def test_the_verdict_and_a_row_for_each_language(cli, knows):
    done = cli("models", "show", "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    verdict, labels, *table = done.stdout.splitlines()
    assert verdict == VERDICT
    assert labels.endswith("none that does not: may tally")
    rows = [line.split() for line in table if line.strip()][2:]
    assert [row[0] for row in rows] == ["en", "de", "fr", "es", "it", "all"]
    assert " ".join(rows[-1]) == "all 42 of 42 21 of 21 21 of 21"


def test_a_toy_is_called_one(cli, monkeypatch):
    monkeypatch.setattr("dpicl_rag.rehearsal.labelling_of", lambda *_, **__: GUESSED_LABELS)
    done = cli("models", "show", "--quiet")
    assert done.exit_code == 0
    assert done.stdout.startswith("a toy: answers 0 of 8\n")
    assert ": tallies of labels are refused\n" in done.stdout


def test_all_numbers_are_in_the_json(cli, knows):
    done = cli("models", "show", "--json", "--quiet")
    told = json.loads(done.stdout)
    assert told.pop("labels")["form"] == LABELLING.form
    german = told.pop("by_language")["de"]
    assert told == {
        "model": None,
        "verdict": VERDICT,
        "knows_silence": True,
        "told": 42,
        "right": 42,
        "right_by_default": None,
        "far": 21,
        "silent": 21,
        "near": 21,
        "silent_near": 21,
    }
    assert german["told"] == german["right"] == 8


def test_who_watches_is_told_how_far_it_is(cli, knows, monkeypatch):
    def rehearsed(model, on_progress):
        on_progress(1, 1)
        return LABELLING

    monkeypatch.setattr("dpicl_rag.rehearsal.labelling_of", rehearsed)
    done = cli("models", "show")
    assert "Rehearsing answers: " in done.stderr
    assert "Rehearsing labels: 1 of 1" in done.stderr
    knows.asked.clear()
    assert "Rehearsing answers: " not in cli("models", "show").stderr
    assert knows.asked == []


def test_no_such_model_is_one_line(cli):
    done = cli("models", "show", "./nowhere")
    assert done.exit_code == 1
    assert done.stderr.strip().splitlines() == [
        "error: no model at ./nowhere: give a folder with a saved model, or an id"
    ]
