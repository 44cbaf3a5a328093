"""The page as it looks: its states on a phone and a desktop, light and dark, and by axe's rules."""

from __future__ import annotations

import pytest

from dpicl_rag.server import served_request
from dpicl_rag.surveys import tallies
from tests.support import made_files
from tests.support.paced_model import ReadingModel
from tests.support.page import (
    ANSWER,
    AXE,
    SIZES,
    SUNDAYS,
    ask,
    expect,
    figures,
    fits,
    go,
    mail,
    rows,
    settled,
    upload,
    violations,
    write,
)
from tests.support.readings import GUESSED_LABELS

pytestmark = pytest.mark.heavy  # a browser


@pytest.fixture(autouse=True)
def told_without_axe():
    """All the rest is looked at without axe, too."""
    yield
    if AXE is None:
        pytest.skip("axe-core is not there: what it would find was not looked for")


class Looks:
    """Looks at a page, again and again: it fits, axe finds nothing, and a screenshot is kept."""

    def __init__(self, page, folder, label):
        self.page, self.folder, self.label = page, folder, label

    def at(self, state, whole=False):
        expect(self.page.locator("[aria-busy=true]")).to_have_count(0)
        assert fits(self.page), state
        assert violations(self.page) == [], state
        name = f"page-{state}-{self.label}.png" if state else f"page-{self.label}.png"
        self.page.screenshot(path=self.folder / name, full_page=whole)


@made_files.needs_files
@pytest.mark.usefixtures("buckets")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_conversation_a_survey_uploads_and_a_budget(
    start, keys, visit, tmp_path, monkeypatch, size, scheme
):
    monkeypatch.setattr(tallies, "labelling_of", lambda _: GUESSED_LABELS)
    running = start(keys)
    running.service.ledger.set_budget(corpus="notes", epsilon=60.0, period="year")
    page = visit(running.page, SIZES[size], scheme)
    look = Looks(page, figures(tmp_path), f"{size}-{scheme}")
    page.fill("#key", "dpk-wrong")
    page.click("text=Open")
    expect(page.locator("#door-error")).not_to_be_empty()
    look.at("door")
    page.fill("#key", keys.add("olga", role="owner"))
    page.press("#key", "Enter")
    expect(page.locator("#budget-short")).to_have_text("21 more answers")
    look.at("empty")

    settled(ask(page))
    follow_up = settled(ask(page, "And on Sundays?"))
    expect(follow_up.locator("q")).to_have_text(SUNDAYS)
    expect(follow_up.locator(".reply > .answer")).to_have_text(ANSWER)
    last = settled(ask(page, "When can people eat in the canteen?"))
    write(page, "How many people complain about the canteen?", "many say so")
    look.at("")
    last.locator("summary").click()
    expect(last.locator(".beside .hint")).not_to_be_empty()
    assert "others" in rows(ask(page, "What are they about?"))
    look.at("survey")
    write(page, "Do people ask about the canteen, the office or the garden?", "many say each")
    look.at("tally")
    refused = ask(page, "Do people ask about the canteen, the office or the garden?")
    expect(refused.get_by_role("button", name="Count anyway")).to_be_visible()
    remembered = settled(ask(page))
    expect(remembered.get_by_role("button", name="Ask anew")).to_be_visible()
    page.locator("#budget summary").click()
    look.at("remembered")
    go(page, "earlier")
    look.at("earlier")
    go(page, "help")
    look.at("help")

    go(page, "owner")
    look.at("owner", whole=True)
    page.locator("summary", has_text="More about a table").click()
    page.fill("#upload-epsilon", "60")
    upload(page, "house", mail(tmp_path / "canteen.mbox"))
    expect(page.locator("#job-words")).to_have_text("house can be asked now.")
    expect(page.locator("#job-notes")).to_contain_text("70 privacy units.")
    hours = {"name": "hours.pdf", "mimeType": "application/pdf"}
    hours["buffer"] = made_files.pdf("The canteen opens at half past 11.")
    page.select_option("#unit", "document")
    upload(page, "papers", hours)
    expect(page.locator("#job-words")).to_have_text("papers can be asked now.")
    expect(page.locator("#job-notes")).to_contain_text("1 of 1 record was read, 1 privacy unit.")
    page.select_option("#scope", "corpus papers")
    page.fill("#epsilon", "30")
    page.select_option("#period", "month")
    page.click("#budgets button[type=submit]")
    expect(page.locator("#scopes")).to_contain_text("corpus papers: epsilon 0 of epsilon 30")
    look.at("owner-filled", whole=True)

    go(page, "conversation")
    page.select_option("#model", "house")
    turn = settled(ask(page))
    expect(turn.locator(".reply > .answer")).to_have_text(ANSWER)
    expect(turn.locator(".about")).to_have_text("house")
    expect(turn.locator(".cost")).to_contain_text("The budget of these documents pays for")
    look.at("house")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_under_way(start, visit, monkeypatch, tmp_path, scheme):
    monkeypatch.setattr(served_request, "TELLING", 0.01)
    model = ReadingModel()
    page = visit(start(model=model).page, SIZES["phone"], scheme)
    ask(page)
    for _ in range(4):
        model.steps.release()
    bar = page.get_by_role("progressbar", name="Reading the documents")
    expect(bar).to_have_attribute("value", "0.4")
    assert violations(page) == []
    page.screenshot(path=figures(tmp_path) / f"page-reading-{scheme}.png")
    page.click("#stop")
    model.steps.release(100)
    expect(page.locator(".turn .notes")).to_contain_text("You stopped it")
    go(page, "owner")
    page.evaluate(
        "for (const id of ['job', 'report', 'job-bar', 'toy', 'audit-desk', 'closed-desk',"
        " 'job-stop']) document.getElementById(id).hidden = false;"
        "document.getElementById('job-words').textContent = 'Canary: 34 %';"
        "document.getElementById('report-text').textContent = 'Privacy audit'"
    )
    assert violations(page) == []
    page.screenshot(path=figures(tmp_path) / f"page-audit-{scheme}.png", full_page=True)


@pytest.mark.parametrize("size", SIZES)
def test_the_composer_hides_nothing_that_the_keyboard_stands_on(start, visit, size):
    page = visit(start().page, SIZES[size])
    for _ in range(4):
        settled(ask(page))
    page.evaluate("scrollTo(0, 300)")
    for place in ("#budget summary", "#question", "#model"):
        page.focus(place)
        assert page.evaluate("scrollY") == 300, place  # who reads is not led away by writing
    # Brought to either edge of the window, where the budget's line or the composer is.
    seen = page.evaluate(
        """() => [...document.querySelectorAll("#turns :is(button, summary)")]
          .filter((one) => one.checkVisibility()).slice(2, -2).flatMap((one) => {
            const box = () => one.getBoundingClientRect();
            return [12, innerHeight - 40].map((edge) => {
              one.blur();
              scrollBy(0, box().top - edge);
              one.focus();
              const { left, top, width, height } = box();
              return one.contains(document.elementFromPoint(left + width / 2, top + height / 2));
            });
          })"""
    )
    assert len(seen) > 8
    assert all(seen)
