"""The page's counts and surveys: turns with bars and intervals."""

from __future__ import annotations

import re

import pytest

from tests.support.page import ask, expect, rows, settled

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("buckets")]


def test_documents_are_counted_as_bars_with_intervals_by_keyboard_too(start, tiny_model, visit):
    page = visit(start(model=tiny_model).page)
    page.wait_for_load_state("networkidle")  # kinds are there when the models are
    page.focus("#kind-ask")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#question-hint")).to_contain_text("Themes of fewer than about")
    page.focus("#send")
    page.keyboard.press("Enter")
    survey = page.locator(".turn")
    assert "others" in rows(survey)
    expect(page.locator("#send")).to_be_focused()
    expect(survey.locator(".question")).to_have_text("What are they about?")
    expect(page.locator("#question-hint")).to_contain_text("Surveys here took about")
    page.click("label[for=kind-count]")
    expect(page.locator("#question-hint")).to_contain_text("95 times in 100")
    expect(page.locator("#question-hint")).not_to_contain_text("took about")
    count = ask(page, "Is it about <b>food</b>?", "count")
    assert re.fullmatch(r"about \d+ \(\d+ to \d+\)", rows(count)["yes"])
    expect(count.locator(".question")).to_have_text("Is it about <b>food</b>?")
    expect(count.locator(".about")).to_have_text("How many")
    expect(count.locator(".cost")).to_contain_text("It spent at most ε 8")
    page.click("label[for=kind-tally]")
    page.fill("#labels", "canteen, office,")
    tally = ask(page, "what?", "tally")
    assert set(rows(tally)) == {"canteen", "office"}
    # Long as its number: the longest bar and its whisker end together.
    widths = tally.locator(".bar div").evaluate_all("all => all.map(o => o.offsetWidth)")
    units = [int(words.split()[1]) for words in rows(tally).values()]
    assert (widths[0] >= widths[1]) == (units[0] >= units[1])
    assert max(widths) > 100 or max(units) == 0
    expect(page.locator("#news")).to_contain_text("canteen: about")
    again = settled(ask(page, "what?", "tally"))
    expect(again.locator(".cost")).to_contain_text("From memory")
    again.get_by_role("button", name="Count anew").click()
    anew = page.locator(".turn").nth(4)
    assert set(rows(anew)) == {"canteen", "office"}
    expect(anew.locator(".cost")).to_contain_text("It spent at most")
    expect(anew.locator(".anew")).to_be_hidden()
    anew.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()").count(": about ") == 2


def test_what_cannot_be_counted_is_said_in_its_turn(start, visit):
    page = visit(start().page)
    page.click("label[for=kind-tally]")
    page.fill("#labels", "one")
    turn = ask(page, "what?", "tally")
    expect(turn.locator(".notes .bad")).to_contain_text("at least two labels")
    expect(turn.locator(".bars")).to_have_count(0)
    page.fill("#labels", "")
    page.fill("#question", "what?")
    page.click("#send")
    expect(page.locator("#labels:invalid")).to_be_focused()
    expect(page.locator(".turn")).to_have_count(1)
