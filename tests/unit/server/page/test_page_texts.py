"""Texts on the page: markup is inert, directions follow languages, and what else is said."""

from __future__ import annotations

from contextlib import closing

import pytest

from dpicl_rag.knowledge.answer_file import AnswerFile
from dpicl_rag.language_models import defaults
from tests.support.page import MODEL, ask, expect, fits, go, settled, upload
from tests.support.scripted_model import ScriptedModel

pytestmark = pytest.mark.heavy  # a browser

MARKUP = "<img src=x onerror='window.pwned=1'><script>window.pwned=1</script>"


def test_script_is_inert_wherever_it_comes_from(start, visit):
    model = ScriptedModel({"canteen": f"half past {MARKUP}", "": f"alone {MARKUP}"})
    # Token by token: a canonical form would not keep the markup as it is.
    page = visit(start(model=model, agreement="off").page)
    first = settled(ask(page, f"What is in the canteen {MARKUP} on Mondays?"))
    expect(first.locator(".question")).to_contain_text(MARKUP)
    turn = settled(ask(page, "And on Fridays?"))
    turn.locator("summary").click()
    expect(turn.locator(".beside .answer")).to_have_text(f"alone {MARKUP}")
    expect(turn.locator("q")).to_have_text(f"What is in the canteen {MARKUP} on Fridays?")
    expect(turn.locator(".reply > .answer")).to_have_text(f"half past {MARKUP}")
    go(page, "earlier")
    expect(page.locator("#memory")).to_contain_text(MARKUP)
    name = "<img src=x onerror=window.pwned=1>.bin"
    go(page, "owner")
    upload(page, "mail", {"name": name, "mimeType": "text/plain", "buffer": b"\x00\x01"})
    expect(page.locator("#job-title")).to_have_text("Failed")
    expect(page.locator("#job-words")).to_contain_text(name)
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script").count() == 0


def test_words_stand_in_the_direction_of_their_language(start, visit):
    arabic = "يفتح المقصف في الحادية عشرة"
    page = visit(start(model=ScriptedModel({"": arabic})).page)

    def is_right_to_left(place):
        return place.evaluate("one => getComputedStyle(one).direction") == "rtl"

    turn = ask(page, f"متى when does it open {'W' * 300} on Mondays?")
    expect(turn.locator(".cost")).not_to_be_empty()
    turn.locator("summary").click()
    expect(turn.locator(".beside .hint")).not_to_be_empty()
    for place in (".question", ".reply > .answer", ".beside .answer"):
        assert is_right_to_left(turn.locator(place)), place
    follow_up = ask(page, "And on Fridays?")
    expect(follow_up.locator("q")).to_contain_text("WW")
    assert is_right_to_left(follow_up.locator("q"))
    assert not is_right_to_left(follow_up.locator(".question"))
    page.fill("#question", "متى")
    assert is_right_to_left(page.locator("#question"))
    assert fits(page)


def test_an_answer_that_was_cut_off_says_so_among_the_earlier_ones(start, visit, tmp_path):
    page = visit(start().page)
    with closing(AnswerFile(tmp_path / "memory.sqlite")) as answers:
        kept = {"corpus": "notes", "caller": "", "part": "", "key": "", "form": "", "words": ""}
        cost = {"epsilon": 1.0, "delta": 1e-5}
        answers.put(question="When?", answer="It opens", whole=False, drawn=False, **kept, **cost)
    page.reload()
    go(page, "earlier")
    expect(page.locator("#memory .said")).to_have_text("It opens …")
    expect(page.locator("#memory li")).to_contain_text("cut off: asking it again is paid for")


def test_the_page_says_that_a_toy_answers(start, visit, monkeypatch):
    page = visit(start().page)
    page.wait_for_selector("#owner-link")
    expect(page.locator("#toy")).to_be_hidden()
    monkeypatch.setattr(defaults, "_toys", {MODEL.fingerprint})
    page.reload()
    expect(page.locator("#toy")).to_contain_text("A toy model answers here.")
