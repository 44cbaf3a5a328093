"""The page's one box: what is done with a question, said before it is asked, and drawn as bars."""

from __future__ import annotations

import re

import pytest

from dpicl_rag.surveys import tallies
from tests.support.page import ask, expect, rows, settled, write
from tests.support.readings import GUESSING

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("buckets")]


def test_what_is_done_with_a_question_is_told_and_can_be_changed(start, tiny_model, visit):
    page = visit(start(model=tiny_model).page)
    plan, kind, labels = (page.locator(f"#{name}") for name in ("plan", "kind", "labels"))
    write(page, "How many people ask about <b>food</b>?", "Counts how many say so (±")
    expect(plan).to_contain_text("· ε 8")
    page.keyboard.press("Enter")
    count = page.locator(".turn")
    assert re.fullmatch(r"about \d+ \(\d+ to \d+\)", rows(count)["yes"])
    expect(count.locator(".question")).to_have_text("How many people ask about <b>food</b>?")
    expect(count.locator(".about")).to_have_text("How many")
    expect(count.locator(".answer").first).to_contain_text("say yes")
    expect(count.locator(".cost")).to_contain_text("It spent at most ε 8")
    expect(kind).to_be_hidden()
    # A follow-up is told as it will be put.
    write(page, "And about the canteen?", "Counts how many say so")
    write(page, "Did Mr Miller write about the canteen?", "")
    page.select_option("#kind", "tally")
    expect(plan).to_have_text("Give at least two labels, none of them empty")
    page.click("#send")
    expect(page.locator("#labels:invalid")).to_be_focused()
    expect(page.locator(".turn")).to_have_count(1)
    write(page, "Do people want a canteen, an office or a garden?", "Counts how many say each")
    expect(labels).to_have_value("a canteen, an office, a garden, something else")
    page.select_option("#kind", "")
    expect(plan).to_contain_text("Counts how many say each")
    page.fill("#labels", "canteen, office,")
    expect(kind).to_have_value("tally")
    page.click("#send")
    tally = page.locator(".turn").nth(1)
    assert set(rows(tally)) == {"canteen", "office"}
    expect(labels).to_be_hidden()
    # Long as its number: the longest bar and its whisker end together.
    widths = tally.locator(".bar div").evaluate_all("all => all.map(o => o.offsetWidth)")
    units = [int(words.split()[1]) for words in rows(tally).values()]
    assert (widths[0] >= widths[1]) == (units[0] >= units[1])
    assert max(widths) > 100 or max(units) == 0
    expect(page.locator("#news")).to_contain_text("canteen")
    survey = ask(page, "What are they about?")
    assert "others" in rows(survey)
    again = settled(ask(page, "What are they about?"))
    expect(again.locator(".cost")).to_contain_text("From memory")
    again.get_by_role("button", name="Ask anew").click()
    anew = page.locator(".turn").nth(4)
    assert "others" in rows(anew)
    expect(anew.locator(".cost")).to_contain_text("It spent at most")
    expect(anew.locator(".anew")).to_be_hidden()
    write(page, "What do people ask about?", "Counts themes")
    expect(page.locator("#question-hint")).to_contain_text("Counts here took about")


def test_of_one_person_it_is_said_at_once_that_nothing_is_told(start, visit):
    running = start()
    page = visit(running.page)
    write(page, "What did Mrs Miller write?", "Of one person nothing is told")
    expect(page.locator("#plan")).to_contain_text("· free")
    page.keyboard.press("Enter")
    turn = settled(page.locator(".turn"))
    expect(turn.locator(".answer").first).to_contain_text("nothing is told of a single one")
    expect(turn.locator(".cost")).to_have_text(re.compile("^It spent nothing"))
    expect(turn.locator(".beside")).to_be_hidden()
    write(page, "Thank you!", "Small talk: no document is asked · free")


def test_a_model_that_misreads_counts_where_it_is_asked_to(start, tiny_model, visit, monkeypatch):
    monkeypatch.setattr(tallies, "yes_or_no_of", lambda _: GUESSING)
    page = visit(start(model=tiny_model).page)
    refused = ask(page, "How many people complain about the canteen?")
    expect(refused.locator(".notes .bad")).to_contain_text("This model cannot count")
    refused.get_by_role("button", name="Count anyway").click()
    counted = page.locator(".turn").nth(1)
    assert "yes" in rows(counted)
