"""Mail of Apple's program and Gmail's archive, and that one unit of them changes no other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl_rag.loaders import load
from dpicl_rag.loaders.reasons import OF_A_MAILBOX, SPAM
from dpicl_rag.loaders.records import Skipped


def emlx(number: int, words: str, more: str = "") -> bytes:
    head = f"From: p{number}@x.org\nTo: q@x.org\nMessage-ID: <{number}@x.org>\n{more}"
    mail = (
        f"{head}Subject: s{number}\nContent-Type: text/plain; charset=utf-8\n\n{words}\n".encode()
    )
    return b"%d      \n%b" % (len(mail), mail) + b'<?xml version="1.0"?>\n<plist/>'


def test_apple_mail_is_mail_and_nothing_else_of_it(tmp_path: Path) -> None:
    messages = tmp_path / "INBOX.mbox" / "Data" / "Messages"
    messages.mkdir(parents=True)
    (messages / "1.emlx").write_bytes(emlx(1, "The code is 4711 – Zürich."))
    answer = emlx(2, "Thanks.", "In-Reply-To: <1@x.org>\n")
    (messages / "2.partial.emlx").write_bytes(answer)
    (tmp_path / "INBOX.mbox" / "Info.plist").write_text("<plist>hidden</plist>")
    attached = tmp_path / "INBOX.mbox" / "Data" / "Attachments" / "1"
    attached.mkdir(parents=True)
    (attached / "note.txt").write_text("a part of message 1")
    for place in (tmp_path, tmp_path / "INBOX.mbox"):
        found = load(place)
        texts = [one.text.split("\n\n")[-1] for one in found.documents]
        assert texts == ["The code is 4711 – Zürich.", "Thanks."]
        assert len({one.unit for one in found.documents}) == 1
        assert {one.reason for one in found.report.skipped} == {OF_A_MAILBOX}
        assert len(found.report.skipped) == 2


def takeout(*mails: tuple[str, int]) -> bytes:
    """Messages with labels, each of a conversation by its number; they share nothing else."""
    return b"".join(
        f"From {at}@xxx Mon May 06 10:00:00 +0000 2024\nX-GM-THRID: {thread}\n"
        f"X-Gmail-Labels: {labels}\nFrom: p{at}@x.org\nTo: me@x.org\nSubject: s{at}\n"
        f"Message-ID: <{at}@x.org>\n\nwords {at}\n\n".encode()
        for at, (labels, thread) in enumerate(mails)
    )


@pytest.mark.parametrize(
    "labels",
    ["Spam", "Trash,Unread", "Drafts", "=?UTF-8?Q?Entw=C3=BCrfe?=", "=?UTF-8?B?44K044Of566x?="],
)
def test_spam_trash_and_drafts_stay_out_unless_asked_for(tmp_path: Path, labels: str) -> None:
    (tmp_path / "all.mbox").write_bytes(takeout(("Inbox,Opened", 1), (labels, 2)))
    found = load(tmp_path)
    assert len(found.documents) == 1
    assert [one.reason for one in found.report.skipped] == [SPAM]
    assert len(load(tmp_path, spam=True).documents) == 2


def test_gmail_joins_a_conversation(tmp_path: Path) -> None:
    (tmp_path / "all.mbox").write_bytes(takeout(("Inbox", 7), ("Inbox", 8), ("Sent", 7)))
    one, other, last = (document.unit for document in load(tmp_path).documents)
    assert one == last != other


def mail(number: int, head: str, body: bytes) -> bytes:
    return f"From: p{number}@x.org\nMessage-ID: <{number}@x.org>\n{head}\n\n".encode() + body


OUTLOOK = b"<html><body>own<div style='border-top:solid'><b>Od:</b>x<b>Do:</b>y<b>Temat:</b>z</div>"
KINDS: dict[str, Callable[[int], bytes]] = {
    "emlx": lambda n: emlx(n, f"words {n}"),
    "html": lambda n: mail(n, "Content-Type: text/html", OUTLOOK + b"old %d</body></html>" % n),
    "charset": lambda n: mail(n, "Content-Type: text/plain; charset=gb2312", b"\xe9\x46 %d" % n),
    "odd": lambda n: mail(n, "Content-Type: text/plain; charset=utf-8", b"\xff %d" % n),
    "calendar": lambda n: mail(
        n, "Content-Type: text/calendar", b"BEGIN:VEVENT\nSUMMARY:s%d\nEND:VEVENT" % n
    ),
    "sealed": lambda n: mail(n, "Subject: s\nContent-Type: application/pkcs7-mime", b"x%d" % n),
    "spam": lambda n: mail(n, "X-Gmail-Labels: Spam", b"words"),
    "thread": lambda n: mail(n, f"X-GM-THRID: {n}", b"words"),
}


@pytest.mark.parametrize("unit", ["thread", "sender"])
def test_folders_that_differ_in_one_unit_differ_in_nothing_else(tmp_path: Path, unit: str) -> None:
    def told() -> set[tuple[str, object]]:
        found = load(tmp_path, unit=unit)
        documents = {(one.metadata["sender"], (one.text, one.unit)) for one in found.documents}
        return documents | {(one.position, one.reason) for one in found.report.skipped}

    for place, (kind, make) in enumerate(KINDS.items()):
        (tmp_path / f"{kind}.{'emlx' if kind == 'emlx' else 'eml'}").write_bytes(make(place))
    everything = told()
    assert len(everything) == len(KINDS) + 1  # the sealed one is a record and a part
    for place, kind in enumerate(KINDS):
        (file,) = tmp_path.glob(f"{kind}.*")
        content = file.read_bytes()
        file.unlink()
        gone = everything - told()
        assert told() < everything
        assert {name.split(",")[0] for name, _ in gone} <= {f"p{place}@x.org", file.name}
        file.write_bytes(content)


def test_what_is_left_of_an_archive_does_not_depend_on_what_stays_out(tmp_path: Path) -> None:
    (tmp_path / "all.mbox").write_bytes(takeout(("Inbox", 1), ("Spam", 1), ("Sent", 1)))
    found = load(tmp_path)
    assert [type(one) for one in found.report.skipped] == [Skipped]
    (tmp_path / "all.mbox").write_bytes(takeout(("Inbox", 1), ("Spam", 9), ("Sent", 1)))
    assert load(tmp_path).documents == found.documents
