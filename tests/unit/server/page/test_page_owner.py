"""The page's view for owners: uploads, units, budgets, other keys and audits."""

from __future__ import annotations

import json
import sys

import pytest

from dpicl_rag import Bundle
from dpicl_rag.server.audits import Auditor
from dpicl_rag.server.uploads import Uploads
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.page import (
    ANSWER,
    MODEL,
    NOTES,
    QUESTION,
    ask,
    expect,
    go,
    mail,
    settled,
    text_file,
    upload,
)

pytestmark = pytest.mark.heavy  # a browser

PICTURE = (  # one white point
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="
)
TICKETS = "customer,subject,body\n" + "".join(
    f"c{number % 7},Hours {number},The canteen opens at noon.\n" for number in range(70)
)


@pytest.fixture
def owner_view(visit):
    """Open a server's page at the owner's view."""

    def open(running):
        page = visit(running.page)
        go(page, "owner")
        return page

    return open


def test_an_owner_opens_what_was_uploaded(start, keys, visit):
    page = visit(start(keys).url)
    page.fill("#key", keys.add("olga", role="owner"))
    page.click("text=Open")
    go(page, "owner")
    expect(page.locator("#closed-desk")).to_be_hidden()
    expect(page.locator("#upload-epsilon-hint")).to_contain_text("a new corpus gets ε 8")
    page.fill("#upload-epsilon", "20")
    table = "id,text\n" + "".join(f"{n},The canteen opens at noon.\n" for n in range(70))
    upload(page, "house-mail", text_file("hours.csv", table))
    expect(page.locator("#scopes")).to_contain_text(
        "corpus house-mail: epsilon 0 of epsilon 20 is spent"
    )
    other = keys.find(keys.add("ann"))
    assert not other.may_ask("house-mail")
    page.click("#open button[type=submit]")
    page.wait_for_selector("#closed-desk", state="hidden")
    assert keys.closed() == {}


def test_a_budget_that_was_lowered_says_what_comes_next(start, owner_view):
    """It said 16.8 of 5 spent and no answers left, and three more came."""
    running = start(epsilon=4)
    ledger = running.service.ledger
    ledger.set_budget(corpus="notes", epsilon=20)
    with ledger.reserve(corpus="notes", rho=1.204403531, units=["unit-0"]) as answered:
        answered.commit(answered.rho, [0.1])
    page = owner_view(running)
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
    expect(lower.get_by_role("button")).to_be_enabled()
    expect(lower.get_by_role("button")).to_be_focused()
    go(page, "conversation")
    expect(page.locator("#budget-words")).to_have_text(f"E{told[1:]}")
    turn = settled(ask(page, "What is served in the canteen?"))
    expect(turn.locator(".cost")).to_contain_text("does not pay for another one in full")
    go(page, "owner")
    page.check("#strict")
    page.fill("#epsilon", "5")
    lower.get_by_role("button").click()
    go(page, "conversation")
    expect(page.locator("#budget-words")).to_contain_text("is refused until the budget is raised.")
    refused = ask(page, "Who serves in the canteen?")
    expect(refused.locator(".notes")).to_contain_text("epsilon 4 was asked for and 0 can be paid")


def test_an_owner_sees_the_price_of_a_bundle_publishes_and_takes_it(start, owner_view, tmp_path):
    page = owner_view(start())
    table = "customer,status,body\n" + "".join(
        f"{n},{'open' if n % 2 else 'closed'},At noon.\n" for n in range(30)
    )
    page.fill("#upload-epsilon", "20")
    page.select_option("#unit", "document")
    upload(page, "tickets", text_file("tickets.csv", table))
    expect(page.locator("#job-words")).to_have_text("tickets can be asked now.")
    page.select_option("#published", "tickets")
    page.uncheck("#publish-survey")
    page.click("text=Show the price")
    expect(page.locator("#publish-error")).to_contain_text("Nothing is asked for")
    page.fill("#publish-columns", "status=open,closed")
    page.fill("#publish-label-columns", "status=open,closed")
    expect(page.locator("#publish-now")).to_be_hidden()
    page.click("text=Show the price")
    expect(page.locator("#publish-plan")).to_contain_text("How many have each status?: column, ρ")
    expect(page.locator("#publish-plan")).to_contain_text("a text have?: label-head, ρ")
    page.click("#publish-now")
    expect(page.locator("#job-words")).to_have_text("tickets is published: 2 items.")
    with page.expect_download() as taken:
        page.click("#publish-take")
    assert taken.value.suggested_filename == "tickets.zip"
    made = Bundle.open(tmp_path / "published" / "tickets")
    assert [one.kind for one in made.items] == ["column", "label-head"]


def test_an_owner_adds_a_mailbox_and_asks_it(start, owner_view, tmp_path):
    page = owner_view(start())
    upload(page, "house-mail", mail(tmp_path / "canteen.mbox"))
    expect(page.locator("#job-words")).to_have_text("house-mail can be asked now.")
    expect(page.locator("#job-notes")).to_contain_text(
        "70 of 70 records were read, 70 privacy units."
    )
    page.select_option("#scope", "corpus house-mail")
    page.fill("#epsilon", "60")
    page.click("#budgets button[type=submit]")
    expect(page.locator("#scopes")).to_contain_text(
        "corpus house-mail: epsilon 0 of epsilon 60 is spent"
    )
    page.click("#job-ask a")
    expect(page.locator("#model")).to_have_value("house-mail")
    expect(page.locator("#budget-words")).to_contain_text("of epsilon 60 is spent")
    turn = settled(ask(page))
    expect(turn.locator(".reply > .answer")).to_have_text(ANSWER)
    expect(turn.locator(".about")).to_have_text("house-mail")
    go(page, "owner")
    upload(page, "house-mail", text_file("large.txt", "x" * 1_100_000))
    expect(page.locator("#upload-error")).to_contain_text("too large")


def test_files_are_added_one_after_the_other_until_one_fails(start, owner_view):
    page = owner_view(start())
    sent = []
    page.on("request", lambda one: sent.append(one.url) if one.url.endswith("/documents") else None)
    button = page.locator("#upload button[type=submit]")
    page.select_option("#unit", "document")
    notes = [text_file(f"{name}.txt", f"The canteen opens at {name}.") for name in ("six", "ten")]
    broken = {"name": "broken.bin", "mimeType": "text/plain", "buffer": b"\x00\x01"}
    upload(page, "hours", *notes)
    expect(page.locator("#job-notes")).to_contain_text("1 passage is new, 0 were there.")
    expect(button).to_be_enabled()
    assert len(sent) == 2
    upload(page, "hours", broken, text_file("never.txt", "It never opens."))
    expect(page.locator("#job-title")).to_have_text("Failed")
    expect(button).to_be_enabled()
    assert len(sent) == 3
    upload(page, "hours", notes[1])
    expect(page.locator("#job-notes")).to_contain_text("0 passages are new, 1 was there.")


def test_the_owners_view_can_be_opened_once_it_hears_what_is_chosen_there(start, visit):
    """What was protected as one could be chosen before anything listened to it."""
    page, held = visit("about:blank"), []
    page.route("**/upload.js", lambda route: held.append(route))
    with page.expect_request("**/upload.js"):
        page.goto(start().page)
    expect(page.locator("#nav")).to_be_visible()
    expect(page.locator("#owner-link")).to_be_hidden()
    held[0].continue_()
    expect(page.locator("#owner-link")).to_be_visible()


@pytest.mark.parametrize("column", ["", "   "])
def test_a_column_that_is_protected_must_be_named(start, owner_view, column):
    """Left empty, each row was a unit, for good."""
    running = start()
    page = owner_view(running)
    page.select_option("#unit", "*")
    page.fill("#field", column)
    upload(page, "tickets", text_file("tickets.csv", TICKETS))
    expect(page.locator("#field:invalid")).to_be_focused()
    expect(page.locator("#job")).to_be_hidden()
    assert "tickets" not in running.service.corpora


def test_a_column_of_persons_is_offered_before_a_corpus_has_its_unit(start, owner_view):
    running = start()
    page = owner_view(running)
    upload(page, "tickets", text_file("tickets.csv", TICKETS))
    expect(page.locator("#job-words")).to_have_text(
        "A unit would be one row, but 'customer' looks like a person, and a corpus keeps its unit; "
        "nothing was stored. Choose what is protected as one: all with the same customer, or each "
        "row"
    )
    assert "tickets" not in running.service.corpora
    expect(page.locator("#field")).to_have_value("customer")
    page.click("#upload button[type=submit]")
    expect(page.locator("#job-words")).to_have_text("tickets can be asked now.")
    expect(page.locator("#job-notes li").first).to_have_text(
        "A unit is: the same customer. Text: body. Not read: subject."
    )
    expect(page.locator("#job-notes")).to_contain_text("7 privacy units.")


def test_an_owner_who_wants_rows_gets_them(start, owner_view):
    page = owner_view(start())
    page.select_option("#unit", "document")
    upload(page, "tickets", text_file("tickets.csv", TICKETS))
    expect(page.locator("#job-notes li").first).to_contain_text("A unit is: one row.")


def test_one_record_is_one_record(start, owner_view):
    page = owner_view(start())
    upload(page, "house-mail", text_file("empty.txt", "\n"))
    expect(page.locator("#job-notes")).to_contain_text("0 of 1 record was read, 0 privacy units.")
    expect(page.locator("#job-notes")).to_contain_text("1 record was skipped:")


def test_a_list_within_a_json_object_is_named(start, owner_view):
    page = owner_view(start())
    page.locator("summary", has_text="JSON").click()
    page.fill("#records", "answers")
    answers = [{"text": f"The canteen opens at noon. {n}"} for n in range(3)]
    upload(page, "poll", text_file("poll.json", json.dumps({"answers": answers, "tags": ["a"]})))
    expect(page.locator("#job-notes")).to_contain_text("3 of 3 records were read, 3 privacy units.")


def test_the_owners_cards_leave_no_hole_beside_them(start, owner_view):
    page = owner_view(start())
    # Shown and measured at once: the page itself hides cards when an answer of the server comes.
    boxes = page.evaluate("""() => {
        const cards = [...document.querySelectorAll("#owner-view .card")];
        for (const one of cards) one.hidden = false;
        return cards.map((one) => one.getBoundingClientRect());
    }""")
    rows = {}
    for box in boxes:
        rows.setdefault(box["top"], []).append(box)
    assert max(map(len, rows.values())) > 1
    for row in rows.values():
        assert min(box["left"] for box in row) == min(box["left"] for box in boxes)
        assert max(box["right"] for box in row) == max(box["right"] for box in boxes)
        assert len({box["bottom"] for box in row}) == 1


def test_an_owner_sees_a_report_grow_stops_the_audit_and_goes_on(serve, owner_view, tmp_path):
    go_on = tmp_path / "go"
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
while not pathlib.Path({str(go_on)!r}).exists():
    time.sleep(0.01)
keep("Privacy audit: within the claim", True)
"""
    asked = []

    def command(corpus, question, runs, out, settings):
        asked.append((corpus, question, runs))
        return [sys.executable, "-c", program, str(out)]

    auditor = Auditor(tmp_path / "audits", command)
    page = owner_view(serve(model=MODEL, documents=NOTES, owner={"auditor": auditor}))
    page.fill("#audit-question", QUESTION)
    page.select_option("#runs", "20")
    page.click("#audit button[type=submit]")
    expect(page.locator("#job-words")).to_have_text("Canary: 34 %")
    expect(page.locator("#report-text")).to_have_text("unfinished, 1 of 6 parts were run")
    page.click("#job-stop")
    expect(page.locator("#job-words")).to_contain_text("the same audit goes on from there")
    expect(page.locator("#report-text")).to_have_text("unfinished, 1 of 6 parts were run")
    go_on.touch()
    page.click("#audit button[type=submit]")
    expect(page.locator("#report-text")).to_have_text("Privacy audit: within the claim")
    expect(page.locator("#plot")).to_be_visible()
    assert asked == [("notes", QUESTION, 20)] * 2


def test_without_documents_an_owner_is_told_what_to_do(serve, visit, tmp_path):
    running = serve(model=MODEL, owner={"uploads": Uploads(tmp_path / "store", BucketEmbedder())})
    running.service.corpora.clear()
    page = visit(running.page)
    expect(page.locator("#budget-words")).to_have_text("No documents are open to you yet.")
    expect(page.locator("#send")).to_be_disabled()
    expect(page.locator("#no-documents")).to_be_visible()
    page.click("#no-documents a")
    expect(page.locator("#upload")).to_be_visible()
    expect(page.locator("#owner-title")).to_be_focused()
