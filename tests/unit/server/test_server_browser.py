"""The page in a real browser: Debian's Chromium, driven by Playwright.

``DPICL_RAG_FIGURES`` names a folder for the screenshots, ``DPICL_RAG_AXE`` the file ``axe.min.js``
of axe-core, which is also found in ``node_modules``.
"""

from __future__ import annotations

import mailbox
import os
import re
import sys
import time
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path

import pytest

from dpicl_rag import Document
from dpicl_rag.knowledge.answer_file import AnswerFile
from dpicl_rag.language_models import defaults
from dpicl_rag.server import served_answer
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.uploads import Uploads
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.chromium import browsing, require_browser
from tests.support.paced_model import ReadingModel
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_reader import ScriptedReader

expect = require_browser().expect
expect.set_options(timeout=20_000)  # what the page shows is waited for, never assumed to be there

PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
QUESTION = "When does the canteen open?"
ANSWER = "The canteen opens at half past 11."
FLUENT = "You can eat at the canteen from half past 11."
ALONE = "The canteen opens at a time that I do not know."
MARKUP = "<img src=x onerror='window.pwned=1'><script>window.pwned=1</script>"
PICTURE = (  # one white point
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
NOTES = [Document(f"The canteen opens at half past 11. {n}", f"unit-{n}") for n in range(60)]
MODEL = ScriptedModel({"canteen": ANSWER, "": ALONE})


@pytest.fixture(scope="module")
def chromium():
    with browsing() as browser:
        yield browser


@pytest.fixture
def visit(chromium):
    """Open a page; what it said on its console is an error but for refused requests."""
    contexts, said = [], []

    def open(url, size=DESKTOP, scheme="light"):
        context = chromium.new_context(viewport=size, color_scheme=scheme, locale="en-GB")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
        page.goto(url)
        return page

    yield open
    for context in contexts:
        context.close()
    assert not [line for line in said if "Failed to load resource" not in line]


@pytest.fixture
def start(serve, tmp_path):
    """A server with notes on the canteen, which takes uploads."""

    def start(keys=None, model=MODEL, documents=NOTES, **more):
        uploads = Uploads(tmp_path / "store", BucketEmbedder(), most_bytes=2**20)
        settings = {"max_tokens": 32, **more}
        return serve(keys, model=model, documents=documents, owner={"uploads": uploads}, **settings)

    return start


def ask(page, question=QUESTION):
    page.fill("#question", question)
    page.click("#send")


def settled(page):
    """Both answers have come."""
    page.wait_for_selector("#public-note:not(:empty), #private-notes .bad")
    assert not page.locator("#private-notes .bad").all_inner_texts()
    page.wait_for_selector("#stop:disabled")


def mail(path):
    box = mailbox.mbox(path)
    for number in range(70):
        message = EmailMessage()
        message["From"], message["To"] = f"person{number}@example.org", "help@example.org"
        message["Message-ID"] = f"<{number}@example.org>"
        message["Subject"] = f"Canteen {number}"
        message.set_content(f"{QUESTION} It opens at half past 11. {number}")
        box.add(message)
    box.close()
    return path


def test_a_wrong_key_is_refused_and_a_right_one_opens_the_page(start, keys, visit):
    page = visit(start(keys).page)
    page.wait_for_selector("#door")
    expect(page.locator("#room")).to_be_hidden()
    for wrong in ("dpk-wrong", "schlüssel 🔑"):
        page.fill("#key", wrong)
        page.click("text=Open")
        page.wait_for_selector("#door-error:has-text('No such key')")
    page.fill("#key", keys.add("ann"))
    page.press("#key", "Enter")
    page.wait_for_selector("#room")
    expect(page.locator("#who")).to_have_text("ann")
    expect(page.locator("#owner")).to_be_hidden()
    page.reload()
    page.wait_for_selector("#memory li")
    page.wait_for_load_state("networkidle")  # the page has shown all it has to show
    keys.remove("ann")
    ask(page)
    page.wait_for_selector("#door-error:has-text('not valid any more')")


def test_what_a_chat_model_reads_and_says_is_told(start, visit, tmp_path):
    reader = ScriptedReader(lambda prompt: ANSWER if "Document:" in prompt else FLUENT)
    reading = {"reader": reader, "max_calls": 40, "polish": True}
    page = visit(start(reading=reading, agreement="only").page)
    page.wait_for_selector("#calls:has-text('Calls of an answer: about 40; of a count: about 40.')")
    ask(page)
    page.wait_for_selector(f"#private-text:has-text('{FLUENT}')")
    page.wait_for_selector(
        "#private-notes:has-text('Put into words by a chat model. Released was:')"
    )
    folder = Path(os.environ.get("DPICL_RAG_FIGURES", tmp_path))
    page.screenshot(path=folder / "page-reader.png", full_page=True)


def test_the_key_of_a_run_opens_the_page_of_a_tab_that_is_there(start, visit):
    running = start()
    page = visit(running.url)
    page.wait_for_selector("#door")
    page.goto(running.page)
    page.wait_for_selector("#owner")
    assert "#" not in page.url


def test_an_owner_opens_what_was_uploaded(start, keys, visit):
    running = start(keys)
    page = visit(running.url)
    page.fill("#key", keys.add("olga", role="owner"))
    page.click("text=Open")
    page.wait_for_selector("#upload")
    expect(page.locator("#closed-desk")).to_be_hidden()
    page.wait_for_selector("#upload-epsilon-hint:has-text('a new corpus gets ε 8')")
    table = "id,text\n" + "".join(f"{n},The canteen opens at noon.\n" for n in range(70))
    page.set_input_files(
        "#file", {"name": "hours.csv", "mimeType": "text/csv", "buffer": table.encode()}
    )
    page.fill("#corpus", "house-mail")
    page.fill("#upload-epsilon", "20")
    page.click("#upload button[type=submit]")
    page.wait_for_selector(
        "#scopes:has-text('corpus house-mail: epsilon 0 of epsilon 20 is spent')"
    )
    other = keys.find(keys.add("ann"))
    assert not other.may_ask("house-mail")
    page.click("#open button[type=submit]")
    page.wait_for_selector("#closed-desk", state="hidden")
    assert keys.closed() == {}


def test_an_answer_streams_in_the_meter_moves_and_the_budget_ends(start, keys, visit):
    running = start(keys)
    budget = 2.005 * running.catalogue.price("notes")
    running.catalogue.ledger.set_budget(caller="ann", rho=budget, period="month")
    page = visit(running.page)
    page.fill("#key", keys.add("ann"))
    page.click("text=Open")
    page.wait_for_selector(
        "#budget-words:has-text('pays for 2 more answers of epsilon 8 until it renews on ')"
    )
    page.evaluate(
        """() => {
          window.seen = [];
          new MutationObserver(() => seen.push(document.querySelector("#private-text").textContent))
            .observe(document.querySelector("#private-text"), {childList: true});
        }"""
    )
    ask(page)
    settled(page)
    expect(page.locator("#private-text")).to_have_text(ANSWER)
    expect(page.locator("#public-text")).to_have_text(ALONE)
    seen = page.evaluate("seen")
    assert len({text for text in seen if text and text != ANSWER}) > 2
    expect(page.locator("#private-notes")).to_contain_text("units say so, each by itself")
    expect(page.locator("#private-notes")).to_contain_text("ε 8")
    expect(page.locator("#budget-words")).to_contain_text("1 more answer of")
    page.wait_for_function("meter.value === 1")
    ask(page)
    page.wait_for_selector("#private-notes:has-text('From memory')")
    settled(page)
    page.wait_for_function("meter.value === 1")
    expect(page.locator("#memory .said")).to_have_text(ANSWER)
    page.uncheck("#beside")
    page.click("text=Ask anew")
    page.wait_for_selector("#private-notes:has-text('It spent at most')")
    page.wait_for_selector("#stop:disabled")
    expect(page.locator("#anew")).to_be_hidden()
    expect(page.locator("#private-text")).to_have_text(ANSWER)
    expect(page.locator("#budget-words")).to_contain_text("1 more answer of")
    running.catalogue.ledger.set_budget(caller="ann", rho=0.5 * budget, period="month")
    ask(page, "What is served in the canteen?")
    page.wait_for_selector("#private-notes:has-text('Nothing was spent.')")
    page.wait_for_selector(
        "#budget-words:has-text('An answer of epsilon 8 is refused until it renews on ')"
    )
    page.wait_for_function("meter.value === 0")


def test_a_budget_that_was_lowered_says_what_comes_next(start, visit):
    """It said 16.8 of 5 spent and no answers left, and three more came."""
    running = start(epsilon=4)
    ledger = running.catalogue.ledger
    ledger.set_budget(corpus="notes", epsilon=20)
    with ledger.reserve(corpus="notes", rho=1.204403531, units=["unit-0"]) as answered:
        answered.commit(answered.rho, [0.1])
    page = visit(running.page)
    page.uncheck("#beside")
    lower = page.locator("#budgets")
    page.select_option("#scope", "corpus notes")
    page.fill("#epsilon", "5")
    lower.get_by_role("button").click()
    told = (
        "epsilon 8 was spent, more than the budget of epsilon 5, which was lowered since. That "
        "bound holds for every unit. Answers still come, from units that have spent less; a strict "
        "budget refuses them."
    )
    expect(page.locator("#scopes")).to_have_text(f"corpus notes: {told}")
    expect(page.locator("#budget-words")).to_have_text(f"E{told[1:]}")
    ask(page, "What is served in the canteen?")
    page.wait_for_selector("#private-notes:has-text('It spent at most')")
    page.check("#strict")
    page.fill("#epsilon", "5")
    lower.get_by_role("button").click()
    expect(page.locator("#budget-words")).to_contain_text("is refused until the budget is raised.")
    ask(page, "Who serves in the canteen?")
    expect(page.locator("#private-notes")).to_contain_text(
        "epsilon 4 was asked for and 0 can be paid"
    )


def test_an_owner_adds_a_mailbox_and_asks_it(start, visit, tmp_path):
    page = visit(start().page)
    page.wait_for_selector("#owner")
    expect(page.locator("#who")).to_contain_text("No keys are in use")
    assert "#" not in page.url
    page.set_input_files("#file", mail(tmp_path / "canteen.mbox"))
    page.fill("#corpus", "house-mail")
    page.click("#upload button[type=submit]")
    page.wait_for_selector("#job-words:has-text('house-mail can be asked now.')")
    expect(page.locator("#job-notes")).to_contain_text(
        "70 of 70 records were read, 70 privacy units."
    )
    expect(page.locator("#model")).to_have_value("house-mail")
    expect(page.locator("#budget-words")).to_contain_text("pays for 1 more answer of epsilon 8.")
    page.select_option("#scope", "corpus house-mail")
    page.fill("#epsilon", "60")
    page.click("#budgets button[type=submit]")
    page.wait_for_selector(
        "#scopes:has-text('corpus house-mail: epsilon 0 of epsilon 60 is spent')"
    )
    page.wait_for_selector("#budget-words:has-text('of epsilon 60 is spent')")
    ask(page)
    settled(page)
    expect(page.locator("#private-text")).to_have_text(ANSWER)
    large = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"x" * 1_100_000}
    page.set_input_files("#file", large)
    page.click("#upload button[type=submit]")
    page.wait_for_selector("#upload-error:has-text('too large')")


def upload(page, name, text):
    buffer = text.encode()
    page.set_input_files("#file", {"name": name, "mimeType": "text/plain", "buffer": buffer})
    page.fill("#corpus", "tickets")
    page.click("#upload button[type=submit]")


TICKETS = "customer,subject,body\n" + "".join(
    f"c{number % 7},Hours {number},The canteen opens at noon.\n" for number in range(70)
)


@pytest.mark.parametrize("column", ["", "   "])
def test_a_column_that_is_protected_must_be_named(start, visit, column):
    """Left empty, each row was a unit, for good."""
    running = start()
    page = visit(running.page)
    page.wait_for_selector("#owner")
    page.select_option("#unit", "*")
    page.fill("#field", column)
    upload(page, "tickets.csv", TICKETS)
    expect(page.locator("#field:invalid")).to_be_focused()
    expect(page.locator("#job")).to_be_hidden()
    assert "tickets" not in running.catalogue.corpora


def test_a_column_of_persons_is_offered_before_a_corpus_has_its_unit(start, visit):
    running = start()
    page = visit(running.page)
    page.wait_for_selector("#owner")
    upload(page, "tickets.csv", TICKETS)
    expect(page.locator("#job-words")).to_have_text(
        "A unit would be one row, but 'customer' looks like a person, and a corpus keeps its unit; "
        "nothing was stored. Choose what is protected as one: all with the same customer, or each "
        "row"
    )
    assert "tickets" not in running.catalogue.corpora
    expect(page.locator("#field")).to_have_value("customer")
    page.click("#upload button[type=submit]")
    page.wait_for_selector("#job-words:has-text('tickets can be asked now.')")
    expect(page.locator("#job-notes li").first).to_have_text(
        "A unit is: the same customer. Text: body. Not read: subject."
    )
    expect(page.locator("#job-notes")).to_contain_text("7 privacy units.")


def test_an_owner_who_wants_rows_gets_them(start, visit):
    page = visit(start().page)
    page.wait_for_selector("#owner")
    page.select_option("#unit", "document")
    upload(page, "tickets.csv", TICKETS)
    expect(page.locator("#job-notes li").first).to_contain_text("A unit is: one row.")


def test_a_bar_tells_how_far_reading_is_before_the_first_word(start, visit, monkeypatch):
    monkeypatch.setattr(served_answer, "TELLING", 0.01)
    model = ReadingModel()
    page = visit(start(model=model).page)
    page.uncheck("#beside")
    ask(page)
    bar = page.get_by_role("progressbar", name="Reading the documents")
    expect(bar).to_be_visible()
    for _ in range(4):
        model.steps.release()
    expect(bar).to_have_attribute("value", "0.4")
    model.steps.release(100)
    expect(page.locator("#private-text")).to_have_text(re.compile("^abcdefgh"))
    expect(page.locator("#reading")).to_be_hidden()


def test_an_answer_that_was_cut_off_says_so_among_the_earlier_ones(start, visit, tmp_path):
    page = visit(start().page)
    with closing(AnswerFile(tmp_path / "memory.sqlite")) as answers:
        kept = {"corpus": "notes", "caller": "", "part": "", "key": "", "form": "", "words": ""}
        cost = {"epsilon": 1.0, "delta": 1e-5}
        answers.put(question="When?", answer="It opens", whole=False, drawn=False, **kept, **cost)
    page.reload()
    expect(page.locator("#memory .said")).to_have_text("It opens …")
    expect(page.locator("#memory li")).to_contain_text("cut off: asking it again is paid for")


def test_the_page_says_that_a_toy_answers(start, visit, monkeypatch):
    page = visit(start().page)
    page.wait_for_selector("#owner")
    expect(page.locator("#toy")).to_be_hidden()
    monkeypatch.setattr(defaults, "_toys", {MODEL.fingerprint})
    page.reload()
    expect(page.locator("#toy")).to_contain_text("A toy model answers here.")


def test_the_page_says_what_can_be_asked(start, visit):
    page = visit(start().page)
    page.click("text=What can be asked?")
    expect(page.get_by_text("Ask for one fact that many documents state")).to_be_visible()


def test_the_owners_cards_leave_no_hole_beside_them(start, visit):
    page = visit(start().page)
    page.wait_for_selector("#owner")
    # Shown and measured at once: the page itself hides cards when an answer of the server comes.
    boxes = page.evaluate("""() => {
        const cards = [...document.querySelectorAll("#owner .card")];
        for (const one of cards) one.hidden = false;
        return cards.map((one) => one.getBoundingClientRect());
    }""")
    rows = {}
    for box in boxes:
        rows.setdefault(box["top"], []).append(box)
    assert max(map(len, rows.values())) > 1
    for row in rows.values():
        assert max(box["right"] for box in row) == max(box["right"] for box in boxes)
        assert len({box["bottom"] for box in row}) == 1


def test_one_record_is_one_record(start, visit):
    page = visit(start().page)
    page.wait_for_selector("#owner")
    empty = {"name": "empty.txt", "mimeType": "text/plain", "buffer": b"\n"}
    page.set_input_files("#file", empty)
    page.fill("#corpus", "house-mail")
    page.click("#upload button[type=submit]")
    expect(page.locator("#job-notes")).to_contain_text("0 of 1 record was read, 0 privacy units.")
    expect(page.locator("#job-notes")).to_contain_text("1 record was skipped:")


def test_script_is_inert_wherever_it_comes_from(start, visit, tmp_path):
    model = ScriptedModel({"canteen": f"{MARKUP} {MARKUP}", "": f"alone {MARKUP}"})
    # Token by token: a canonical form would not keep the markup as it is.
    page = visit(start(model=model, agreement="off").page)
    ask(page, f"{QUESTION} {MARKUP}")
    settled(page)
    expect(page.locator("#private-text")).to_have_text(f"{MARKUP} {MARKUP}")
    expect(page.locator("#public-text")).to_have_text(f"alone {MARKUP}")
    expect(page.locator("#asked")).to_contain_text(MARKUP)
    expect(page.locator("#memory")).to_contain_text(MARKUP)
    name = "<img src=x onerror=window.pwned=1>.bin"
    files = {"name": name, "mimeType": "text/plain", "buffer": b"\x00\x01"}
    page.set_input_files("#file", files)
    page.fill("#corpus", "house-mail")
    page.click("#upload button[type=submit]")
    page.wait_for_selector("#job-title:has-text('Failed')")
    expect(page.locator("#job-words")).to_contain_text(name)
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script").count() == 0


class Slow(ScriptedModel):
    """Takes its time for each word."""

    def __init__(self):
        super().__init__({"canteen": "so " * 30 + "it is", "": ALONE})
        speech = self._speech
        self._speech = lambda text, history: (time.sleep(0.002), speech(text, history))[1]


def test_the_stop_button_ends_an_answer_and_gives_the_rest_back(start, visit):
    running = start(model=Slow(), accounting="fixed")
    page = visit(running.page)
    page.uncheck("#beside")
    ask(page)
    page.wait_for_selector("#private-text:has-text('so so')")
    page.click("#stop")
    page.wait_for_selector("#private-notes:has-text('You stopped it, so this is no answer.')")
    expect(page.locator("#private-text.piece")).to_have_text(re.compile("^so so.* …$"))
    deadline = time.monotonic() + 20
    while running.catalogue.ledger.status()[0].reserved and time.monotonic() < deadline:
        time.sleep(0.05)
    (status,) = running.catalogue.ledger.status()
    assert status.reserved == 0
    assert 0 < status.spent < running.catalogue.price("notes")


def test_the_page_is_used_by_keyboard_alone(start, visit):
    page = visit(start().page)
    page.wait_for_selector("#model:has-text('notes')", state="attached")
    page.keyboard.press("Tab")
    assert page.inner_text(":focus") == "Skip to the question"
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'question'")
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    settled(page)
    expect(page.locator("#private-text")).to_have_text(ANSWER)
    page.focus("#send")  # who asks by the button stands on it afterwards
    page.keyboard.press("Enter")
    page.wait_for_selector("#private-notes:has-text('From memory')")
    settled(page)
    assert page.evaluate("document.activeElement.id") == "send"


def counted(page):
    """The rows of the chart: label, and the numbers in words."""
    expect(page.locator("#count-notes")).to_contain_text("It spent at most")
    page.wait_for_selector("#counts:visible")
    rows = page.locator("#counts-rows tr").all()
    return {row.locator("th").inner_text(): row.locator("td").last.inner_text() for row in rows}


@pytest.fixture
def buckets(monkeypatch):
    monkeypatch.setattr("dpicl_rag.surveys.surveying.SentenceTransformerEmbedder", BucketEmbedder)


@pytest.mark.usefixtures("buckets")
def test_documents_are_counted_as_bars_with_intervals_by_keyboard_too(
    start, tiny_model, visit, tmp_path
):
    page = visit(start(model=tiny_model).page)
    page.wait_for_selector("#kind-hint:has-text('Themes of fewer than about')")
    page.focus("#count-send")
    page.keyboard.press("Enter")
    assert "others" in counted(page)
    page.select_option("#kind", "count")
    expect(page.locator("#kind-hint")).to_contain_text("95 times in 100")
    page.fill("#count-question", "Is it about <b>food</b>?")
    page.keyboard.press("Enter")
    expect(page.locator("#counts-title")).to_have_text("Is it about <b>food</b>?")
    assert re.fullmatch(r"about \d+ \(\d+ to \d+\)", counted(page)["yes"])
    page.select_option("#kind", "tally")
    page.fill("#labels", "canteen, office,")
    page.click("#count-send")
    expect(page.locator("#counts-rows tr")).to_have_count(2)
    found = counted(page)
    assert set(found) == {"canteen", "office"}
    # Long as its number: the longest bar and its whisker end together.
    widths = page.locator("#counts-rows .bar div").evaluate_all(
        "all => all.map(o => o.offsetWidth)"
    )
    units = [int(words.split()[1]) for words in found.values()]
    assert (widths[0] >= widths[1]) == (units[0] >= units[1])
    folder = Path(os.environ.get("DPICL_RAG_FIGURES", tmp_path))
    page.click("#count-send")
    expect(page.locator("#count-notes")).to_contain_text("It was counted before")
    page.screenshot(path=folder / "page-counts.png", full_page=True)
    page.click("#count-anew")
    assert set(counted(page)) == {"canteen", "office"}
    expect(page.locator("#count-anew")).to_be_hidden()


@pytest.mark.usefixtures("buckets")
def test_what_cannot_be_counted_is_said_beside_the_button(start, visit):
    page = visit(start().page)
    page.select_option("#kind", "tally")
    page.fill("#count-question", "what?")
    page.fill("#labels", "one")
    page.click("#count-send")
    expect(page.locator("#count-notes .bad")).to_contain_text("at least two labels")
    expect(page.locator("#counts")).to_be_hidden()


def test_words_stand_in_the_direction_of_their_language(start, visit):
    arabic = "يفتح المقصف في الحادية عشرة"
    page = visit(start(model=ScriptedModel({"": arabic})).page)
    ask(page, f"متى يفتح المقصف؟ {'W' * 300}")
    page.wait_for_selector("#public-note:not(:empty)")
    for place in ("question", "asked", "private-text", "public-text"):
        found = page.evaluate(f"getComputedStyle(document.getElementById('{place}')).direction")
        assert found == "rtl", place
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_owner_sees_a_report_grow_stops_the_audit_and_goes_on(serve, visit, tmp_path):
    go = tmp_path / "go"
    program = f"""
import base64, json, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
def keep(text, whole):
    (folder / "audit.txt").write_text(text)
    (folder / "audit.png").write_bytes(base64.b64decode("{PICTURE}"))
    (folder / "summary.json").write_text(json.dumps({{"whole": whole, "holds": True}}))
(folder / "unfinished.json").write_text("")
keep("unfinished, 1 of 6 parts were run", False)
print(json.dumps({{"progress": "Canary", "percent": 34}}), file=sys.stderr, flush=True)
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.01)
keep("Privacy audit: within the claim", True)
"""
    asked = []

    def command(corpus, question, runs, out, settings):
        asked.append((corpus, question, runs))
        return [sys.executable, "-c", program, str(out)]

    auditor = Auditor(tmp_path / "audits", command)
    page = visit(serve(model=MODEL, documents=NOTES, owner={"auditor": auditor}).page)
    page.fill("#audit-question", QUESTION)
    page.select_option("#runs", "20")
    page.click("#audit button[type=submit]")
    expect(page.locator("#job-words")).to_have_text("Canary: 34 %")
    expect(page.locator("#report-text")).to_have_text("unfinished, 1 of 6 parts were run")
    page.click("#job-stop")
    expect(page.locator("#job-words")).to_contain_text("the same audit goes on from there")
    expect(page.locator("#report-text")).to_have_text("unfinished, 1 of 6 parts were run")
    go.touch()
    page.click("#audit button[type=submit]")
    expect(page.locator("#report-text")).to_have_text("Privacy audit: within the claim")
    expect(page.locator("#plot")).to_be_visible()
    assert asked == [("notes", QUESTION, 20)] * 2


def test_without_documents_an_owner_is_told_what_to_do(serve, visit, tmp_path):
    running = serve(model=MODEL, owner={"uploads": Uploads(tmp_path / "store", BucketEmbedder())})
    running.catalogue.corpora.clear()
    page = visit(running.page)
    page.wait_for_selector("#budget-words:has-text('No documents are open to you yet.')")
    expect(page.locator("#send")).to_be_disabled()
    expect(page.locator("#upload")).to_be_visible()


SIZES = {"phone": PHONE, "desktop": DESKTOP}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_page_fits_a_phone_and_a_desktop(start, visit, tmp_path, size, scheme):
    running = start()
    running.catalogue.ledger.set_budget(corpus="notes", epsilon=60.0, period="year")
    page = visit(running.page, SIZES[size], scheme)
    ask(page)
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    folder = Path(os.environ.get("DPICL_RAG_FIGURES", tmp_path))
    page.screenshot(path=folder / f"page-{size}-{scheme}.png")
    page.locator("#owner").scroll_into_view_if_needed()
    page.locator("#owner").screenshot(path=folder / f"page-owner-{size}-{scheme}.png")


def axe_source():
    named = os.environ.get("DPICL_RAG_AXE")
    root = Path(__file__).parents[3]
    found = [Path(named)] if named else [root / "node_modules" / "axe-core" / "axe.min.js"]
    return next((path.read_text() for path in found if path.is_file()), None)


AXE = axe_source()


@pytest.mark.usefixtures("buckets")
@pytest.mark.skipif(AXE is None, reason="no axe-core here: npm install axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(start, keys, visit, tmp_path, scheme):
    page = visit(start(keys).page, PHONE, scheme)
    page.wait_for_selector("#door")
    page.fill("#key", "dpk-wrong")
    page.click("text=Open")
    page.wait_for_selector("#door-error:not(:empty)")
    assert violations(page) == []
    page.fill("#key", keys.add("olga", role="owner"))
    page.click("text=Open")
    page.wait_for_selector("#owner")
    ask(page)
    settled(page)
    ask(page)  # and now from memory
    settled(page)
    expect(page.locator("#anew")).to_be_visible()
    page.click("#count-send")
    assert "others" in counted(page)
    for fold in page.locator("summary").all():
        fold.click()
    page.select_option("#unit", "*")
    page.set_input_files("#file", mail(tmp_path / "canteen.mbox"))
    page.fill("#corpus", "house-mail")
    page.select_option("#unit", "thread")
    page.click("#upload button[type=submit]")
    page.wait_for_selector("#job-words:has-text('can be asked now')")
    page.evaluate(
        "for (const id of ['job', 'report', 'job-bar', 'reading', 'toy'])"
        " document.getElementById(id).hidden = false"
    )
    page.evaluate(
        "document.getElementById('report-text').textContent = 'Privacy audit';"
        "document.getElementById('reading-words').textContent = 'Reading the documents'"
    )
    assert violations(page) == []


def violations(page):
    """What axe finds: rule, weight and place."""
    # Through the debugger's channel, which the page's policy does not bind.
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document)")["violations"]
    return [(one["id"], one["impact"], one["nodes"][0]["html"][:90]) for one in found]
