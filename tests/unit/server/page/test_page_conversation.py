"""The page's conversation: turns, their notes and prices, follow-ups, and their end."""

from __future__ import annotations

import re
import time

import pytest

from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.server import served_request
from tests.support.paced_model import ReadingModel
from tests.support.page import ALONE, ANSWER, QUESTION, SUNDAYS, ask, expect, figures, go, settled
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_reader import ScriptedReader

pytestmark = pytest.mark.heavy  # a browser

FLUENT = "You can eat at the canteen from half past 11."


def sent(page):
    """What the page asks from now on, as messages in short."""
    asked = []

    def note(request):
        if request.url.endswith("/v1/chat/completions"):
            asked.append([(m["role"], m["content"]) for m in request.post_data_json["messages"]])

    page.on("request", note)
    return asked


@pytest.mark.guard
def test_an_answer_streams_in_the_meter_moves_and_the_budget_ends(start, keys, visit):
    running = start(keys)
    budget = 2.005 * running.service.price("notes")
    running.service.ledger.set_budget(caller="ann", rho=budget, period="month")
    page = visit(running.page)
    page.fill("#key", keys.add("ann"))
    page.click("text=Open")
    words = page.locator("#budget-words")
    expect(words).to_contain_text("pays for 2 more answers of epsilon 8 until it renews on ")
    page.evaluate(
        """() => {
          window.seen = [], window.said = [];
          const see = (id, kept) => {
            const place = document.getElementById(id);
            new MutationObserver(() => kept.push(place.querySelector(".answer")?.textContent
              ?? place.textContent)).observe(place, {childList: true, subtree: true});
          };
          see("turns", seen), see("news", said);
        }"""
    )
    turn = settled(ask(page))
    expect(turn.locator(".reply > .answer")).to_have_text(ANSWER)
    pieces = {text for text in page.evaluate("seen") if text and text != ANSWER}
    assert len(pieces) > 2
    # A screen reader is told that it is read, and the whole; no piece.
    first, whole = page.evaluate("said")
    assert first == "Reading the documents"
    assert whole.startswith(f"{ANSWER}\n")
    assert whole.endswith("of each unit.")
    expect(turn.locator(".notes")).to_contain_text("units say so, each by itself")
    expect(turn.locator(".cost")).to_have_text(
        "It spent at most ε 8 at δ 0.00001 of each unit. "
        "The budget of your key pays for 1 more answer of ε 8."
    )
    expect(words).to_contain_text("1 more answer of")
    page.wait_for_function("meter.value === 1")
    again = settled(ask(page))
    expect(again.locator(".cost")).to_contain_text("From memory: this was answered before")
    expect(turn.locator(".left")).to_have_count(0)  # what is left stands at the last one
    page.wait_for_function("meter.value === 1")
    expect(page.locator("#memory .said")).to_have_text(ANSWER)
    again.get_by_role("button", name="Ask anew").click()
    anew = settled(page.locator(".turn").nth(2))
    expect(anew.locator(".cost")).to_contain_text("It spent at most")
    expect(anew.locator(".anew")).to_be_hidden()
    expect(anew.locator(".reply > .answer")).to_have_text(ANSWER)
    expect(words).to_contain_text("1 more answer of")
    running.service.ledger.set_budget(caller="ann", rho=0.5 * budget, period="month")
    refused = ask(page, "What is served in the canteen?")
    expect(refused.locator(".notes")).to_contain_text("Nothing was spent.")
    expect(words).to_contain_text("An answer of epsilon 8 is refused until it renews on ")
    page.wait_for_function("meter.value === 0")
    running.service.ledger.set_budget(caller="ann", rho=4 * budget, period="month")
    refused.get_by_role("button", name="Try again").click()
    settled(page.locator(".turn").nth(4))


def test_a_follow_up_is_sent_with_the_turns_before_it(start, visit):
    page = visit(start().page)
    asked = sent(page)
    settled(ask(page))
    first = [("user", QUESTION), ("assistant", ANSWER)]
    turn = settled(ask(page, "And on Sundays?"))
    expect(turn.locator(".question")).to_have_text("And on Sundays?")
    expect(turn.locator(".whole")).to_contain_text("Asked as:")
    expect(turn.locator("q")).to_have_text(SUNDAYS)
    turn.get_by_role("button", name="Ask as I wrote it").click()
    literal = settled(page.locator(".turn").nth(2))
    expect(literal.locator(".question")).to_have_text("And on Sundays?")
    expect(literal.locator(".whole")).to_be_hidden()
    assert asked[:3] == [
        [("user", QUESTION)],
        [*first, ("user", "And on Sundays?")],
        [("user", "And on Sundays?")],
    ]
    # A later one stands on what was asked, not on what was typed.
    settled(ask(page, "And where?"))
    second = [("user", SUNDAYS), ("assistant", ANSWER)]
    third = [("user", "And on Sundays?"), ("assistant", ANSWER)]
    assert asked[3] == [*first, *second, *third, ("user", "And where?")]


def test_a_follow_up_stands_on_six_turns_of_its_corpus_and_this_conversation(start, visit):
    # Token by token: the model has no words for an answer like the last one, about other numbers.
    page = visit(start(agreement="off").page)
    asked = sent(page)
    for number in range(8):
        settled(ask(page, f"When does canteen {number} open?"))
    questions = [content for role, content in asked[-1] if role == "user"]
    assert questions == [f"When does canteen {number} open?" for number in range(1, 8)]
    page.evaluate("document.getElementById('model').append(new Option('other', 'other'))")
    page.select_option("#model", "other")
    refused = ask(page, "And there?")  # there is no such corpus: nothing came to an end
    expect(refused.locator(".about")).to_have_text("other")
    expect(refused.locator(".notes .bad")).to_be_visible()
    assert asked[-1] == [("user", "And there?")]
    page.select_option("#model", "notes")
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator(".turn")).to_have_count(0)
    expect(page.locator("#empty")).to_be_visible()
    expect(page.locator("#question")).to_be_focused()
    settled(ask(page, "And now?"))
    assert asked[-1] == [("user", "And now?")]


def test_the_same_is_asked_without_documents_where_it_is_unfolded(start, visit):
    page = visit(start().page)
    asked = sent(page)
    settled(ask(page))
    turn = settled(ask(page, "And on Sundays?"))
    assert len(asked) == 2
    turn.locator("summary").click()
    beside = turn.locator(".beside")
    expect(beside.locator(".hint")).to_have_text("No document was read, and nothing was spent.")
    expect(beside.locator(".answer")).to_have_text(ALONE)
    for _ in range(2):
        turn.locator("summary").click()
    expect(beside.locator(".answer")).to_have_text(ALONE)
    assert asked[2:] == [[("user", SUNDAYS)]]


def test_an_answer_is_copied(start, visit):
    page = visit(start().page)
    settled(ask(page)).get_by_role("button", name="Copy").click()
    expect(page.locator("#news")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == ANSWER


def test_what_a_chat_model_reads_and_says_is_told(start, visit, tmp_path):
    reader = ScriptedReader(lambda prompt: ANSWER if "Document:" in prompt else FLUENT)
    reading = {"reader": reader, "max_calls": 40, "polish": True}
    page = visit(start(reading=reading, agreement="only").page)
    expect(page.locator("#calls")).to_contain_text(
        "Calls of an answer: about 40; of a count: about 40."
    )
    turn = settled(ask(page))
    expect(turn.locator(".reply > .answer")).to_have_text(FLUENT)
    expect(turn.locator(".notes")).to_contain_text("Put into words by a chat model. Released was:")
    page.screenshot(path=figures(tmp_path) / "page-reader.png")


def test_a_bar_tells_how_far_reading_is_before_the_first_word(start, visit, monkeypatch):
    monkeypatch.setattr(served_request, "TELLING", 0.01)
    model = ReadingModel()
    page = visit(start(model=model).page)
    turn = ask(page)
    bar = page.get_by_role("progressbar", name="Reading the documents")
    expect(bar).to_be_visible()
    expect(page.locator("#question-hint")).not_to_contain_text("took about")
    for _ in range(4):
        model.steps.release()
    expect(bar).to_have_attribute("value", "0.4")
    expect(turn.locator(".reading p")).to_have_text(
        re.compile(r"^Reading the documents: 40 %, about \d+\ss left$")
    )
    model.steps.release(100)
    expect(turn.locator(".reply > .answer")).to_have_text(re.compile("^abcdefgh"))
    expect(turn.locator(".reading")).to_be_hidden()
    took = re.compile(r"Answers here took about \d+\ss\.$")
    expect(page.locator("#question-hint")).to_have_text(took)
    page.reload()  # of another tab, or another life of this one, nothing is known
    expect(page.locator("#plan")).to_contain_text("Enter asks")
    expect(page.locator("#question-hint")).not_to_have_text(took)


class Slow(ScriptedModel):
    """Takes its time for each word."""

    def __init__(self):
        super().__init__({"canteen": "so " * 30 + "it is", "": ALONE})
        speech = self._speech
        self._speech = lambda text, history: (time.sleep(0.002), speech(text, history))[1]


def test_the_stop_button_ends_an_answer_and_gives_the_rest_back(start, visit):
    running = start(model=Slow(), accounting="fixed")
    page = visit(running.page)
    asked = sent(page)
    turn = ask(page)
    expect(turn.locator(".reply > .answer")).to_contain_text("so so")
    page.fill("#question", "And then?")
    page.keyboard.press("Enter")  # one at a time
    expect(page.locator(".turn")).to_have_count(1)
    page.click("#stop")
    expect(turn.locator(".notes")).to_contain_text("You stopped it, so this is no answer.")
    expect(turn.locator(".answer.piece")).to_have_text(re.compile("^so so.* …$"))
    deadline = time.monotonic() + 20
    while running.service.ledger.status()[0].reserved and time.monotonic() < deadline:
        time.sleep(0.05)
    (status,) = running.service.ledger.status()
    assert status.reserved == 0
    assert 0 < status.spent < running.service.price("notes")
    expect(page.locator("#question")).to_have_value("And then?")
    page.click("#send")
    expect(page.locator(".turn")).to_have_count(2)
    assert asked[-1] == [("user", "And then?")]  # a piece is no turn to stand on
    page.get_by_role("button", name="New conversation").click()
    expect(page.locator("#send")).to_be_visible()
    expect(page.locator(".turn")).to_have_count(0)


def test_the_page_is_used_by_keyboard_alone(start, visit):
    page = visit(start().page)
    page.wait_for_selector("#model:has-text('notes')", state="attached")
    page.keyboard.press("Tab")
    assert page.inner_text(":focus") == "Skip to the content"
    page.keyboard.press("Enter")
    expect(page.locator("#question")).to_be_focused()
    assert "#" not in page.url
    page.keyboard.type("When does the canteen")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("open?")
    page.keyboard.press("Enter")
    turn = settled(page.locator(".turn"))
    expect(turn.locator(".question")).to_have_text("When does the canteen\nopen?")
    expect(page.locator("#question")).to_be_focused()
    expect(page.locator("#question")).to_have_value("")
    page.fill("#question", QUESTION)
    page.focus("#send")  # who asks by the button stands on it afterwards
    page.keyboard.press("Enter")
    settled(page.locator(".turn").nth(1))
    expect(page.locator("#send")).to_be_focused()


@pytest.mark.parametrize(("unsupported", "guesses"), [("mark", 1), ("refuse", 0)])
def test_a_guess_is_called_one_and_the_sentence_in_its_place_is_none(
    start, visit, unsupported, guesses
):
    page = visit(start(documents=[], unsupported=unsupported).page)
    turn = ask(page, QUESTION)
    expect(turn.locator(".cost")).not_to_be_empty()
    assert (turn.locator(".reply > .answer").inner_text() == UNSUPPORTED) is not bool(guesses)
    expect(turn.get_by_text("Take it for a guess.")).to_have_count(guesses)


def test_views_are_steps_of_the_history_and_the_conversation_stays(start, visit):
    page = visit(start().page)
    settled(ask(page))
    go(page, "help")
    expect(page.get_by_text("Some 14 must state it at ε 8")).to_be_visible()
    expect(page.locator("nav [aria-current=page]")).to_have_text("Help")
    assert page.title() == "How it works · Private answers"
    go(page, "earlier")
    page.go_back()
    expect(page.locator("#help-title")).to_be_focused()
    page.go_back()
    expect(page.locator(".turn")).to_be_visible()
    expect(page.locator("#help-view")).to_be_hidden()
    assert page.title() == "Private answers"
    go(page, "earlier")
    page.click(f"[aria-label='Ask again: {QUESTION}']")
    expect(page.locator("#question")).to_be_focused()
    expect(page.locator("#question")).to_have_value(QUESTION)
    page.keyboard.press("Enter")
    expect(settled(page.locator(".turn").nth(1)).locator(".cost")).to_contain_text("From memory")


def test_examples_are_of_what_can_be_asked_and_told_before_they_are(start, visit):
    running = start()
    page = visit(running.page)
    expect(page.locator("#budget-words")).not_to_be_empty()
    told = ["A fact that", "many say so", "many say each", "Counts themes", "Sums up"]
    examples = page.locator("#empty li button").all()
    for example, words in zip(examples, told, strict=True):
        example.click()
        expect(page.locator("#plan")).to_contain_text(words)
        expect(page.locator("#plan")).to_contain_text("· ε 8")
        expect(page.locator("#question")).to_be_focused()
    examples[1].click()  # what is to be filled in is marked
    page.keyboard.type("X")
    expect(page.locator("#question")).to_have_value("How many people complain about X?")
    (status,) = running.service.ledger.status()
    assert (status.spent, status.reserved) == (0, 0)
