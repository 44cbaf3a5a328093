"""The page's door: keys, and what one key sees of another."""

from __future__ import annotations

import pytest

from tests.support.page import QUESTION, ask, expect, go, settled, text_file, upload

pytestmark = pytest.mark.heavy  # a browser


def test_a_wrong_key_is_refused_and_a_right_one_opens_the_page(start, keys, visit):
    page = visit(start(keys).page)
    page.wait_for_selector("#door")
    expect(page.locator("#room")).to_be_hidden()
    expect(page.locator("#nav")).to_be_hidden()
    for wrong in ("dpk-wrong", "schlüssel 🔑"):
        page.fill("#key", wrong)
        page.click("text=Open")
        expect(page.locator("#key")).to_have_value("")  # it was answered
        expect(page.locator("#door-error")).to_contain_text("No such key")
    page.fill("#key", keys.add("ann"))
    page.press("#key", "Enter")
    page.wait_for_selector("#room")
    expect(page.locator("#who")).to_have_text("ann")
    expect(page.locator("#question")).to_be_focused()
    page.reload()
    page.wait_for_selector("#memory li", state="attached")
    page.wait_for_load_state("networkidle")  # the page has shown all it has to show
    keys.remove("ann")
    page.fill("#question", QUESTION)
    page.click("#send")
    page.wait_for_selector("#door-error:has-text('not valid any more')")


def test_an_owners_form_leads_to_the_door_when_the_key_is_gone(start, keys, visit):
    page = visit(start(keys).page)
    page.fill("#key", keys.add("olga", role="owner"))
    page.press("#key", "Enter")
    page.wait_for_selector("#owner-link")
    go(page, "owner")
    page.wait_for_load_state("networkidle")
    keys.remove("olga")
    upload(page, "hours", text_file("hours.txt", "The canteen opens at noon."))
    expect(page.locator("#door-error")).to_contain_text("Check it, or ask whoever runs this server")
    expect(page.locator("#room")).to_be_hidden()


def test_a_caller_has_no_view_of_an_owner(start, keys, visit):
    page = visit(start(keys).page + "/#owner")
    page.fill("#key", keys.add("ann"))
    page.press("#key", "Enter")
    page.wait_for_selector("#conversation-view")
    expect(page.locator("#owner-link")).to_be_hidden()
    expect(page.locator("#owner-view")).to_be_hidden()


def test_the_key_of_a_run_opens_the_page_of_a_tab_that_is_there(start, visit):
    running = start()
    page = visit(running.url)
    page.wait_for_selector("#door")
    page.goto(running.page)
    page.wait_for_selector("#owner-link")
    expect(page.locator("#who")).to_have_text("Owner: no keys are in use")
    assert "#" not in page.url


def test_another_key_does_not_see_what_was_asked(start, keys, visit):
    running = start(keys)
    page = visit(running.page)
    page.fill("#key", keys.add("olga", role="owner"))
    page.press("#key", "Enter")
    page.wait_for_selector("#owner-link")
    settled(ask(page))
    page.once("dialog", lambda dialog: dialog.accept())
    page.goto(f"{running.url}/#{keys.add('ann')}")
    expect(page.locator("#who")).to_have_text("ann")
    expect(page.locator(".turn")).to_have_count(0)
    expect(page.locator("#owner-link")).to_be_hidden()
    expect(page.locator("#memory")).to_have_text("None yet.")
    assert "#" not in page.url


@pytest.mark.parametrize("inside", [False, True])
def test_a_link_brings_no_key_that_nobody_agreed_to(start, keys, visit, inside):
    running = start(keys)
    page = visit(running.page)
    page.wait_for_selector("#door")
    if inside:
        page.fill("#key", keys.add("ann"))
        page.press("#key", "Enter")
        page.wait_for_selector("#room")
    said = []
    page.once("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    with page.expect_event("dialog"):
        page.goto(f"{running.url}/#{keys.add('mallory')}")
    expect(page.locator("#who")).to_have_text("ann" if inside else "")
    page.wait_for_selector("#room" if inside else "#door")
    assert ["that of mallory" in one for one in said] == [True]
    assert "#" not in page.url
