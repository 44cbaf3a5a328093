"""What tests of the server's page share: what is asked there, and what stands there then.

``DPICL_RAG_FIGURES`` names a folder for the screenshots, ``DPICL_RAG_AXE`` the file ``axe.min.js``
of axe-core, which is also found in ``node_modules``.
"""

from __future__ import annotations

import mailbox
import os
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from dpicl_rag import Document
from tests.support.chromium import require_browser
from tests.support.scripted_model import ScriptedModel

expect = require_browser().expect
expect.set_options(timeout=20_000)  # what the page shows is waited for, never assumed to be there

PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
SIZES = {"phone": PHONE, "desktop": DESKTOP}
QUESTION = "When does the canteen open?"
ANSWER = "The canteen opens at half past 11."
SUNDAYS = "When does the canteen open on Sundays?"  # as "And on Sundays?" is put
ALONE = "The canteen opens at a time that I do not know."
NOTES = [Document(f"The canteen opens at half past 11. {n}", f"unit-{n}") for n in range(60)]
MODEL = ScriptedModel({"User: ": SUNDAYS, "canteen": ANSWER, "": ALONE})


def write(page: Any, question: str, told: str) -> None:
    """Write a question, and wait for what is told of it before it is asked."""
    page.fill("#question", question)
    expect(page.locator("#plan")).to_contain_text(told)


def ask(page: Any, question: str = QUESTION) -> Any:
    """Ask, and return the turn that this begins."""
    turns = page.locator(".turn").count()
    page.fill("#question", question)
    page.click("#send")
    turn = page.locator(".turn").nth(turns)
    expect(turn).to_be_attached()
    return turn


def settled(turn: Any) -> Any:
    """A turn that has come to its end, and what it spent."""
    expect(turn.locator(".cost:not(:empty), .notes .bad").first).to_be_visible()
    expect(turn.locator(".notes .bad")).to_have_count(0)
    expect(turn.page.locator("#send")).to_be_visible()
    return turn


def rows(turn: Any) -> dict[str, str]:
    """The chart of a count: labels, and the numbers in words."""
    found = settled(turn).locator(".bars tr").all()
    return {row.locator("th").inner_text(): row.locator("td").last.inner_text() for row in found}


def go(page: Any, view: str) -> None:
    """Open a view by its link."""
    page.click(f"nav a[href='#{view}']")
    expect(page.locator(f"#{view}-title")).to_be_focused()


def upload(page: Any, corpus: str, *files: Any) -> None:
    """Add files to a corpus, in the owner's view."""
    page.set_input_files("#file", list(files))
    page.fill("#corpus", corpus)
    page.click("#upload button[type=submit]")


def text_file(name: str, text: str) -> dict[str, Any]:
    """A file to upload."""
    return {"name": name, "mimeType": "text/plain", "buffer": text.encode()}


def mail(path: Path) -> Path:
    """A mailbox of 70 threads on the canteen."""
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


def fits(page: Any) -> bool:
    """Whether nothing stands out to the right."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def figures(folder: Path) -> Path:
    """Where screenshots go."""
    return Path(os.environ.get("DPICL_RAG_FIGURES", folder))


def _axe_source() -> str | None:
    named = os.environ.get("DPICL_RAG_AXE")
    root = Path(__file__).parents[2]
    found = Path(named) if named else root / "node_modules" / "axe-core" / "axe.min.js"
    return found.read_text() if found.is_file() else None


AXE = _axe_source()


def violations(page: Any) -> list[tuple[str, str, str]]:
    """What axe finds: rule, weight and place; nothing where there is no axe."""
    if AXE is None:
        return []
    # Through the debugger's channel, which the page's policy does not bind.
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document)")["violations"]
    return [(one["id"], one["impact"], one["nodes"][0]["html"][:90]) for one in found]
