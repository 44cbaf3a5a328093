"""Sources that are followed for a while, without one hostile unit and with it.

Whatever that unit sends, when it comes and when it goes, a corpus says of all others the same.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.adding import Ingested
from dpicl_rag.corpora.holdings import Held
from dpicl_rag.documents import Document
from dpicl_rag.errors import DPICLError
from dpicl_rag.following.followed_files import FileSource, bring_files
from dpicl_rag.following.followed_mail import bring_mail
from dpicl_rag.following.mail_account import _HEADERS, Header, Listing, MailAccount
from dpicl_rag.loaders import load
from dpicl_rag.loaders.sources import KINDS
from tests.unit.conftest import TextEmbedder

HOSTILE = "hostile"
UNITS = [None, "sender", "document", "x-desk"]
FOLDERS = ("INBOX", "Archive")
ROUNDS = 3
HEAD = "id,customer,note"
ANOTHER_TABLE = "a table of the same name"


@dataclass
class Mailbox:
    """A server's folders, and a session with it; see `MailSession`."""

    account: MailAccount
    mails: dict[str, dict[int, bytes]] = field(default_factory=lambda: {f: {} for f in FOLDERS})
    validity: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FOLDERS, 1))
    last: int = 0

    def deliver(self, raw: bytes, folder: str = "INBOX") -> None:
        self.last += 1
        self.mails[folder][self.last] = raw

    def take(self, raw: bytes) -> str | None:
        """Take a message out of the folder that it is in."""
        for folder, those in self.mails.items():
            for uid in [uid for uid, one in those.items() if one == raw]:
                del those[uid]
                return folder
        return None

    def renumber(self, folder: str) -> None:
        self.validity[folder] += 1

    def listing(self, folder: str) -> Listing:
        return Listing(self.validity[folder], sorted(self.mails[folder]))

    def headers(self, folder: str, validity: int, uids: Sequence[int]) -> dict[int, Header]:
        return {
            uid: Header(_looked_at(self.mails[folder][uid]), len(self.mails[folder][uid]))
            for uid in uids
        }

    def messages(self, folder: str, validity: int, uids: Sequence[int]) -> dict[int, bytes]:
        return {uid: self.mails[folder][uid] for uid in uids}


def _looked_at(raw: bytes) -> bytes:
    names = "|".join(_HEADERS.split()).encode()
    head = raw.partition(b"\r\n\r\n")[0] + b"\r\n"
    return b"".join(
        one[0] for one in re.finditer(rb"(?im)^(?:%b):(?:[^\n]*\n)(?:[ \t][^\n]*\n)*" % names, head)
    )


def mail(
    name: str, *answers: str, who: str = "", words: str = "", attached: str = "", **more: str
) -> bytes:
    made = EmailMessage()
    made["Message-ID"] = f"<{name}@b.org>"
    made["From"] = f"{who or name}@b.org"
    made["To"], made["Subject"] = "owner@b.org", more.pop("subject", f"About {name}")
    made["Date"] = "Thu, 01 Jan 2026 10:00:00 +0000"
    if answers:
        made["References"] = more.pop("between", " ").join(f"<{one}@b.org>" for one in answers)
    made["X-Desk"] = more.pop("desk", who or name)
    made.set_content(words or f"Mail {name} says its own words.")
    if attached:
        made.add_attachment(attached, filename="plan.txt")
    return made.as_bytes(policy=SMTP)


# ---- hostile mail: what comes, by what the owner has; each goes as it came or stays ----


def _ties_many(theirs: list[bytes], coins: random.Random) -> list[bytes]:
    ids = [f"a{n}" for n in coins.sample(range(5), 5)]  # one of them may go before it is read
    copies = range(coins.choice([1, 3]))
    return [mail(f"tie{n}", *ids, who=HOSTILE, words=HOSTILE) for n in copies]


def _same_id_and_size(theirs: list[bytes], coins: random.Random) -> list[bytes]:
    made = []
    for raw in coins.sample(theirs, 3):
        name = re.findall(rb"Message-ID: <(\w+)@", raw)[0].decode()
        copy = mail(name, who=HOSTILE, words=HOSTILE)
        made.append(copy + b"x" * max(0, len(raw) - len(copy)))
    return made


def _same_headers_and_size(theirs: list[bytes], coins: random.Random) -> list[bytes]:
    """Headers that are looked at and size; of threads it would be of the same one."""
    raw = coins.choice(theirs)
    head = re.sub(rb"X-Desk: \w+", b"X-Desk: " + HOSTILE.encode(), raw.partition(b"\r\n\r\n")[0])
    copy = head + b"\r\n\r\n" + HOSTILE.encode() + b"\r\n"
    return [copy + b"x" * max(0, len(raw) - len(copy))]


def _same_words(theirs: list[bytes], coins: random.Random) -> list[bytes]:
    return [mail("b0", words="The same plan.", attached=f"{HOSTILE} {n}") for n in range(2)]


def _flood(theirs: list[bytes], coins: random.Random) -> list[bytes]:
    return [mail(f"flood{n}", who=HOSTILE, words=f"{HOSTILE} {n}") for n in range(30)]


def _broken(theirs: list[bytes], coins: random.Random) -> list[bytes]:
    return [b"\xff\xfe", b"From: \r\n\r\n", b"Message-ID: <a0@b.org>\r\n", mail(HOSTILE)[:40]]


MAILS: dict[str, Callable[[list[bytes], random.Random], list[bytes]]] = {
    "ties many": _ties_many,
    "same id and size": _same_id_and_size,
    "same headers and size": _same_headers_and_size,
    "same words": _same_words,
    "flood": _flood,
    "broken": _broken,
}


def mail_differences(folder: Path, seed: int, kind: str) -> list[str]:
    """What a hostile unit's mails changed of the others, in some history made up from a number."""
    coins = random.Random(seed)
    unit = coins.choice(UNITS)
    if kind in ("ties many", "same words") and coins.random() < 0.8:
        unit = None
    if kind == "same headers and size":
        unit = coins.choice(["document", "x-desk"])
    ends = {"between": coins.choice([" ", ",", ", "])}
    theirs = [mail(f"a{n}") for n in range(5)]
    theirs += [mail(f"r{n}", f"a{n}", **ends) for n in coins.sample(range(5), 3)]
    theirs += [mail("b0", words="The same plan.", attached="The plan is blue.")]
    late = [mail(f"l{n}", f"a{n}", **ends) for n in range(2)]
    hostile = MAILS[kind](theirs, coins)
    comes, goes = coins.randrange(ROUNDS), coins.choice([1, 2, ROUNDS])
    first = coins.random() < 0.5
    steps = [(coins.choice(theirs), coins.choice(theirs), coins.choice(FOLDERS)) for _ in "123"]
    moves = [coins.choice(["delete", "move", "renumber", ""]) for _ in "123"]

    def history(name: str, more: list[bytes]) -> list[object]:
        account = MailAccount("ann", "b.org", 993, FOLDERS, unit)
        box = Mailbox(account)
        corpus = Corpus.create(name, folder, embedder=TextEmbedder())
        told: list[object] = []
        for step in range(ROUNDS):
            new = theirs if step == 0 else late[step - 1 : step]
            coming = more if step == comes else []
            for raw in [*coming, *new] if first else [*new, *coming]:
                box.deliver(raw)
            for raw in more if step == goes else ():
                box.take(raw)
            one, other, where = steps[step]
            if moves[step] == "delete":
                box.take(one)
            elif moves[step] == "move" and box.take(other):
                box.deliver(other, where)
            elif moves[step] == "renumber":
                box.renumber(where)
            told.append(_outcome(lambda: bring_mail(corpus, box, _adding(corpus))))  # type: ignore[arg-type]
            told.append(_others(corpus))
        corpus.close()
        return told

    return _compared(history("without", []), history("together", hostile), kind)


# ---- hostile rows and files ----


def _row_of_their_keys(place: Path, table: list[str], coins: random.Random) -> None:
    for key in coins.sample(range(6), 2):
        table.insert(coins.randrange(len(table) + 1), f"{key},{HOSTILE},{HOSTILE} {key}")


def _row_that_breaks(place: Path, table: list[str], coins: random.Random) -> None:
    table.insert(
        coins.randrange(len(table) + 1), coins.choice(['"', "1,2,3,4,5", '"x"y,1', "\x00"])
    )


def _nothing(place: Path, table: list[str], coins: random.Random) -> None:
    return


def _file_that_is_too_much(place: Path, table: list[str], coins: random.Random) -> None:
    raw = bytes(3 * 2**20) if coins.random() < 0.5 else b"\xff{<" * 99
    packed = gzip.compress(raw) if coins.random() < 0.7 else raw
    cut = packed[: -coins.choice([1, 9])] if coins.random() < 0.5 else packed
    own = [ending for ending, kind in KINDS.items() if kind in ("csv", "json", "jsonl", "mbox")]
    (place / f"0{HOSTILE}\n{coins.choice('az')}{coins.choice(own)}.gz").write_bytes(cut)


FILES: dict[str, Callable[[Path, list[str], random.Random], None]] = {
    "rows of others' keys": _row_of_their_keys,
    "rows that break": _row_that_breaks,
    ANOTHER_TABLE: _nothing,
    "files that are too much": _file_that_is_too_much,
}


def file_differences(folder: Path, seed: int, kind: str) -> list[str]:
    """What a hostile unit's rows or files changed of the others, as `mail_differences`."""
    coins = random.Random(seed)
    comes = coins.randrange(ROUNDS)
    rows = {n: f"{n % 6},p{n % 4},words {n}" for n in range(8)}
    edits = [(coins.randrange(8), coins.choice(["edit", "delete", "add"])) for _ in "123"]

    def history(name: str, *, more: bool) -> list[object]:
        own = random.Random(seed)
        # Both lie at one place, whose name is part of what their rows are called.
        place = folder / "in"
        for path in place.glob("*"):
            path.unlink()
        place.mkdir(exist_ok=True)
        corpus = Corpus.create(name, folder, embedder=TextEmbedder())
        now = dict(rows)
        told: list[object] = []
        for step in range(ROUNDS):
            which, what = edits[step]
            if what == "edit" and which in now:
                now[which] += " edited"
            elif what == "delete":
                now.pop(which, None)
            else:
                now[step + 10] = f"{which % 6},p{which % 4},more words {step}"
            table = list(now.values())
            if more and step >= comes:
                FILES[kind](place, table, own)
            (place / "t.csv").write_text("\n".join([HEAD, *table]) + "\n")
            told.append(_outcome(lambda: bring_files(corpus, _source(place), _adding(corpus))))
            told.append(_others(corpus))
            if more and kind == ANOTHER_TABLE:
                table = [f"{key},{HOSTILE},{HOSTILE}" for key in range(6)]
                (place / "t.csv").write_text("\n".join([HEAD, *table]) + "\n")
                corpus.add(load(place, unit="customer", text_field="note").documents)
            told.append(_others(corpus))
        corpus.close()
        return told

    return _compared(history("without", more=False), history("together", more=True), kind)


def _source(place: Path) -> FileSource:
    return FileSource.at([place], "customer", "note")


def _adding(corpus: Corpus) -> Callable[[Sequence[Document], Held], Ingested]:
    return lambda documents, held: corpus.add(documents, held=held, no_ledger=True)


def _outcome(bring: Callable[[], object]) -> str:
    try:
        bring()
    except DPICLError as error:
        return type(error).__name__
    return ""


def _others(corpus: Corpus) -> dict[str, list[str]]:
    """What is in each unit, but for what the hostile one says."""
    units: dict[str, list[str]] = {}
    for record in corpus.records():
        if HOSTILE not in record.text:
            units.setdefault(record.unit, []).append(record.text)
    return {unit: sorted(texts) for unit, texts in units.items()}


def _compared(without: list[object], together: list[object], kind: str) -> list[str]:
    return [
        f"{kind}: at {at} {one} became {other}"
        for at, (one, other) in enumerate(zip(without, together, strict=True))
        if one != other
    ]
