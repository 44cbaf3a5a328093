"""What a new user does in the first hour, and the lines that matter of what they see."""

from __future__ import annotations

import re

import pytest

from dpicl_rag.mechanisms.randomness import Randomness
from tests.end_to_end import first_hour

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("default")]
RIGHT = "The harbour office is in Tallow Street."


@pytest.fixture
def seen(tmp_path, capsys, monkeypatch):
    """Run a chapter; what was printed. Commands draw by secret coins, programs by a seed."""
    seeded = Randomness.of
    monkeypatch.setattr(Randomness, "of", lambda seed: seeded(1 if seed is None else seed))

    def run(chapter):
        chapter(tmp_path)
        return capsys.readouterr().out

    return run


def test_readme_answers_and_says_what_it_cannot(seen):
    shown = seen(first_hour.readme)
    assert "The pump is cleaned with warm vinegar. 8.0 1e-05 True end" in shown
    asked = shown.split("$ dpicl-rag ask")
    assert "toy model" in asked[1]
    assert "spent: epsilon 8, delta 1e-05" in asked[1]
    assert "A unit is: one email thread." in asked[0]
    assert "not supported by the documents: what the model says by itself." in asked[2]
    assert re.search(r"at epsilon 2 about \d+ units must state the same", asked[2])


def test_langchain_apps_answer_or_say_that_the_documents_do_not(seen):
    shown = seen(first_hour.langchain)
    assert f"'answer': '{RIGHT}'" in shown
    assert f"The notes say: {RIGHT}" in shown
    said = re.findall(r"assistant: (.*)", shown)
    assert said[0] == RIGHT
    assert len(said) == 2


def test_a_llama_index_engine_made_private_answers(seen):
    shown = seen(first_hour.llama_index)
    assert RIGHT in shown
    assert "'supported': True" in shown
    assert f"Documents handed over: PrivateAnswer(text='{RIGHT}'" in shown


def test_the_page_asks_for_the_unit_and_says_what_a_lowered_budget_does(seen):
    shown = seen(first_hour.page)
    assert "but 'customer' looks like a person" in shown
    assert "A unit is: the same customer. Text: body. Not read: queue." in shown
    assert "A unit is: one email thread." in shown
    assert "It spent at most ε 8 at δ 0.00001 of each unit." in shown
    (sentence,) = re.findall(r"^corpus tickets: (.*)$", shown, re.M)
    assert re.match(r"epsilon [\d.]+ was spent, more than the budget of epsilon 2, which", sentence)
    assert sentence[1:] in shown.split("[#budget-words]")[-1]  # the same for those who ask


def test_a_budget_is_spent_lowered_and_made_strict(seen):
    shown = seen(first_hour.budget)
    lowered = shown.split("--epsilon 2\n")[1]
    assert "more than the budget of epsilon 2, which was lowered since" in lowered
    assert "epsilon 8 was asked for and 2 can be paid" in lowered
    strict = shown.split("--strict")[1]
    assert "epsilon 8 was asked for and 0 can be paid" in strict


def test_ten_wrong_calls_are_told_in_one_sentence_in_under_a_second(seen):
    shown = seen(first_hour.mistakes)
    told = re.findall(r"^>>> .*\n(\w+): (.*) {3}\[(.*) s\]$", shown, re.M)
    assert len(told) == 10
    for kind, sentence, seconds in told:
        assert kind in ("ConfigurationError", "LoaderError"), sentence
        assert len(sentence) > 20
        assert float(seconds) < 5  # 48 s of retries would show; what a second is, a machine decides
