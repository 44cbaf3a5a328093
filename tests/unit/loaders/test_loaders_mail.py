"""One message: encodings, parts, headers, and what is shown of it."""

import base64
import quopri
import time
from pathlib import Path

import pytest

from dpicl_rag.loaders import load
from dpicl_rag.loaders.mail import keys_of_stored, message_id, sender
from dpicl_rag.loaders.parsing import parsed
from dpicl_rag.loaders.reasons import FOR_MACHINES, MESSAGE_WITHIN, SEALED, UNSUPPORTED, WINMAIL
from dpicl_rag.loaders.records import (
    Options,
    Record,
    RecordOrSkipped,
    Skipped,
    ThreadKeys,
    Unparsed,
)
from dpicl_rag.loaders.threads import thread_keys, thread_offers

GREETING = "Grüße aus Málaga, naïve café"


def read_mail(raw: bytes, position: str, options: Options) -> RecordOrSkipped:
    """A message, parsed in this process."""
    (entry,) = parsed([Unparsed(position, "mail", raw)], options)
    return entry


def record(raw: bytes, unit: str | None = None) -> Record:
    entry = read_mail(raw, "here", Options(unit))
    assert isinstance(entry, Record)
    return entry


def body(raw: bytes, unit: str | None = None) -> str:
    return record(raw, unit).text.partition("\n\n")[2]


def test_text_and_metadata() -> None:
    found = record(
        b"Message-ID: <1@example.org>\r\nFrom: Ann Lee <Ann.Lee@Example.ORG>\r\n"
        b"To: b@example.org,\r\n c@example.org\r\nSubject: Plans\r\n"
        b"Date: Wed, 13 Dec 2000 07:05:00 -0800\r\n\r\nSee you at noon.\r\n"
    )
    assert found.text == (
        "Subject: Plans\nFrom: Ann Lee <Ann.Lee@Example.ORG>\n"
        "Date: Wed, 13 Dec 2000 07:05:00 -0800\n\nSee you at noon."
    )
    assert found.metadata == {
        "subject": "Plans",
        "from": "Ann Lee <Ann.Lee@Example.ORG>",
        "to": "b@example.org, c@example.org",
        "date": "Wed, 13 Dec 2000 07:05:00 -0800",
        "message_id": "<1@example.org>",
        "sender": "ann.lee@example.org",
    }
    assert found.thread is not None
    assert found.thread.timestamp == 976719900


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [
        ("utf-8", "8bit"),
        ("utf-8", "base64"),
        ("utf-8", "quoted-printable"),
        ("iso-8859-1", "8bit"),
        ("iso-8859-1", "base64"),
        ("iso-8859-1", "quoted-printable"),
        ("utf-16", "base64"),
        ("windows-1252", "QUOTED-PRINTABLE"),
    ],
)
def test_encodings(charset: str, encoding: str) -> None:
    raw = GREETING.encode(charset)
    coded = {"base64": base64.encodebytes, "quoted-printable": quopri.encodestring}
    raw = coded.get(encoding.lower(), bytes)(raw)
    head = f"From: a@b.c\nContent-Type: text/plain; charset={charset}\n"
    head += f"Content-Transfer-Encoding: {encoding}\n\n"
    assert body(head.encode() + raw) == GREETING


@pytest.mark.parametrize("charset", ["no-such-charset", "us-ascii", "utf-8", "x-unknown"])
def test_a_wrong_charset_is_read_all_the_same(charset: str) -> None:
    head = f"From: a@b.c\nContent-Type: text/plain; charset={charset}\n\n".encode()
    assert body(head + GREETING.encode("latin-1")) == GREETING
    assert body(head + GREETING.encode()) == GREETING


@pytest.mark.parametrize(
    "value",
    [
        b"=?utf-8?q?Gr=C3=BC=C3=9Fe?= an alle",
        b"=?iso-8859-1?Q?Gr=FC=DFe?= an alle",
        b"=?utf-8?b?R3LDvMOfZQ==?= an\r\n alle",
        b"=?utf-8?q?Gr=C3=BC?=\r\n =?utf-8?q?=C3=9Fe?= an alle",
        "Grüße an alle".encode(),
        "Grüße an alle".encode("latin-1"),
    ],
)
def test_encoded_headers(value: bytes) -> None:
    found = record(b"Subject: " + value + b"\r\nFrom: a@b.c\r\n\r\nx")
    assert found.metadata["subject"] == "Grüße an alle"


def test_encoded_names_in_addresses() -> None:
    found = record(b"From: =?utf-8?q?Zo=C3=AB?= <Zoe@B.C>\n\nx")
    assert found.metadata["from"] == "Zoë <Zoe@B.C>"
    assert found.metadata["sender"] == "zoe@b.c"


def multipart(kind: str, *parts: str) -> bytes:
    joined = "".join(f"--cut\n{part}\n" for part in parts)
    return (
        f"From: a@b.c\nContent-Type: multipart/{kind}; boundary=cut\n\n{joined}--cut--\n".encode()
    )


PLAIN = "Content-Type: text/plain\n\nplain words"
HTML = "Content-Type: text/html\n\n<p>rich <b>words</b></p><p>second&nbsp;line</p>"


def test_html_only() -> None:
    assert body(b"From: a@b.c\n" + HTML.encode()).split() == ["rich", "words", "second", "line"]


def test_an_alternative_gives_the_plain_part_once() -> None:
    assert body(multipart("alternative", PLAIN, HTML)) == "plain words"
    assert body(multipart("alternative", HTML, PLAIN)) == "plain words"


def test_an_alternative_with_an_empty_plain_part_gives_the_other() -> None:
    assert "rich words" in body(multipart("alternative", "Content-Type: text/plain\n\n \n", HTML))


def test_inline_texts_are_read_first_and_attached_ones_behind_them() -> None:
    attached = "Content-Type: text/plain\nContent-Disposition: attachment\n\nattached words"
    named = 'Content-Type: text/plain; name="a.txt"\n\nnamed words'
    image = "Content-Type: image/png\n\nhidden-words"
    letter = "Content-Type: message/rfc822\n\nSubject: hidden-words\n\nhidden-words"
    last = "Content-Type: text/plain\n\nlast words"
    text = body(multipart("mixed", PLAIN, attached, named, image, letter, last))
    assert text == (
        "plain words\n\nlast words\n\nattached words\n\nAttachment a.txt:\n\nnamed words"
    )


def test_parts_inside_parts() -> None:
    inner = (
        f"Content-Type: multipart/alternative; boundary=in\n\n--in\n{PLAIN}\n--in\n{HTML}\n--in--"
    )
    assert body(multipart("mixed", inner)) == "plain words"


def test_a_multipart_without_its_boundary_is_read_as_text() -> None:
    raw = b"From: a@b.c\nContent-Type: multipart/mixed\n\nstill here"
    assert body(raw) == "still here"


def test_quotes_are_cut_from_answers_and_kept_in_forwards() -> None:
    text = b"See below.\n\n-----Original Message-----\nFrom: b@b.c\nSent: Monday\n\nThe old text."
    assert body(b"From: a@b.c\nSubject: Re: Plans\n\n" + text) == "See below."
    assert body(b"From: a@b.c\nSubject: Plans\nIn-Reply-To: <1@b>\n\n" + text) == "See below."
    for subject in (b"Plans", b"Fwd: Plans", b"FW: Re: Plans"):
        assert "The old text." in body(b"From: a@b.c\nSubject: " + subject + b"\n\n" + text)


@pytest.mark.parametrize("unit", ["sender", "document", "List-Id"])
def test_quotes_are_cut_everywhere_where_the_thread_is_not_the_unit(unit: str) -> None:
    raw = b"From: a@b.c\nSubject: Fwd: x\n\nSee below.\n\n-----Original Message-----\nOld text."
    assert body(raw, unit) == "See below."


def test_a_message_of_quotes_alone_keeps_them() -> None:
    assert body(b"From: a@b.c\nSubject: Re: x\n\n> only\n> quotes") == "> only\n> quotes"


def test_quotes_alone_never_stand_in_another_persons_unit() -> None:
    mail = b"From: a@b.c\nSubject: Re: x\n\n> only\n> quotes"
    assert body(mail, "sender") == ""
    html = b"<html><body>I agree.<div id=divRplyFwdMsg>Od: b</div>my diagnosis</body></html>"
    assert body(b"From: a@b.c\nContent-Type: text/html\n\n" + html, "sender") == "I agree."


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("text/markdown", "# words", "# words"),
        ("text/csv", "a,b", "a,b"),
        ("text/x-vcard", "FN:Ann", "FN:Ann"),
        ("text/enriched", "<bold>Now</bold> is\nthe <<time\n\nof", "Now is the <time\nof"),
        ("application/json", "[1]", "[1]"),
        (
            "text/calendar",
            "BEGIN:VCALENDAR\nMETHOD:REQUEST\nBEGIN:VTIMEZONE\nDTSTART:19700101T000000\n"
            "END:VTIMEZONE\nBEGIN:VEVENT\nSUMMARY:Visit\\, long\n er\n"
            "ORGANIZER;CN=Bo:mailto:b@x.org\n"
            "DTSTART;TZID=Europe/Berlin:20240506T100000\nDTEND:20240506T110000Z\nEND:VEVENT",
            "Summary: Visit, longer\nOrganizer: Bo <b@x.org>\n"
            "Start: 2024-05-06 10:00 Europe/Berlin\nEnd: 2024-05-06 11:00 UTC",
        ),
        (
            "text/calendar",
            "BEGIN:VCALENDAR\nMETHOD:REPLY\nBEGIN:VEVENT\nSUMMARY:their words\n"
            "ATTENDEE;PARTSTAT=ACCEPTED:mailto:a@b.c\nEND:VEVENT",
            "Attendee: a@b.c accepted",
        ),
    ],
)
def test_texts_of_other_kinds_are_read(kind: str, content: str, expected: str) -> None:
    part = f"Content-Type: {kind}; charset=utf-8\n\n{content}\n"
    assert body(f"From: a@b.c\n{part}".encode()) == expected
    assert body(multipart("mixed", PLAIN, part)) == f"plain words\n\n{expected}"
    if kind == "text/calendar":
        assert body(multipart("alternative", PLAIN, HTML, part)) == f"plain words\n\n{expected}"


@pytest.mark.parametrize("entry", ["VEVENT", "VTODO"])
def test_a_calendar_says_the_same_as_a_file_an_attachment_and_a_part(
    tmp_path: Path, entry: str
) -> None:
    written = f"BEGIN:{entry}\r\nSUMMARY:Caf\u00e9\\, lo\r\n ng\r\nUID:7\r\nEND:{entry}\r\n"
    raw = f"BEGIN:VCALENDAR\r\n{written}{written.replace('7', '8')}END:VCALENDAR\r\n".encode()
    expected = "Summary: Caf\u00e9, long\n\nSummary: Caf\u00e9, long"
    (tmp_path / "a.ics").write_bytes(raw)
    (found,) = load(tmp_path / "a.ics").documents
    assert (found.text, found.metadata) == (expected, {"file": "a.ics"})
    head = b"From: a@b.c\nContent-Transfer-Encoding: 8bit\nContent-Type: "
    assert body(head + b"text/calendar; charset=utf-8\n\n" + raw) == expected
    for kind in (b"application/ics", b"application/octet-stream; name=x.ics"):
        read = body(head + kind + b"\n\n" + raw)
        assert read.removeprefix("Attachment x.ics:\n\n") == expected


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("application/pkcs7-mime; smime-type=signed-data", SEALED),
        ("application/ms-tnef; name=winmail.dat", WINMAIL),
        ("application/octet-stream; name=winmail.dat", WINMAIL),
        ("application/octet-stream", UNSUPPORTED),
        ("image/jpeg", UNSUPPORTED),
        ("message/delivery-status", FOR_MACHINES),
        ("message/rfc822", MESSAGE_WITHIN),
        ("text/rfc822-headers", MESSAGE_WITHIN),
        ("audio/ogg", UNSUPPORTED),
    ],
)
def test_parts_that_are_not_read_are_named(kind: str, reason: str) -> None:
    part = f"Content-Type: {kind}\n\nFrom: x@y.z\n\nhidden"
    for raw in (f"Subject: s\n{part}".encode(), multipart("mixed", "Subject: s\n" + part)):
        entry = read_mail(b"Subject: s\n" + raw, "here", Options())
        assert isinstance(entry, Record)
        assert "hidden" not in entry.text
        assert [one.reason for one in entry.unread] == [reason]


def test_eight_bits_of_a_header_are_in_the_charset_of_the_text() -> None:
    name = "Отчёт".encode("koi8-r")
    head = b"From: a@b.c\nSubject: " + name + b"\nContent-Type: text/plain; charset=koi8-r\n\nx"
    assert record(head).metadata["subject"] == "Отчёт"


def test_eight_bits_of_the_name_of_an_attachment_are_read() -> None:
    part = 'Content-Type: text/plain; name="Größe.txt"\n\nnamed'
    for raw in (multipart("mixed", part), multipart("mixed", part).decode().encode("latin-1")):
        assert body(raw) == "Attachment Größe.txt:\n\nnamed"


def test_a_message_without_a_body_keeps_its_subject() -> None:
    assert record(b"Subject: Lunch at one?\n\n").text == "Subject: Lunch at one?"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"From: a@b.c\n\n \n", "empty"),
        (b"just words\n\nand more", "no mail headers"),
        (bytes(range(256)), "no mail headers"),
        (b"X-Other: a\n\nwords", "no mail headers"),
    ],
)
def test_what_is_no_message_is_skipped(raw: bytes, reason: str) -> None:
    assert read_mail(raw, "here", Options()) == Skipped("here", reason)


def test_a_message_beyond_the_limit_is_skipped() -> None:
    raw = b"From: a@b.c\n\n" + b"x" * (64 * 2**20)
    assert read_mail(raw, "here", Options()) == Skipped("here", "larger than 16 MiB")


def test_what_the_parser_cannot_do_is_a_skipped_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(raw: bytes, _: object) -> None:
        raise RecursionError(raw)

    monkeypatch.setattr("dpicl_rag.loaders.mail_parts.message_from_bytes", fail)
    skipped = read_mail(b"From: a@b.c\n\nx", "here", Options())
    assert skipped == Skipped("here", "the message cannot be parsed")


@pytest.mark.parametrize(
    "header",
    [
        b"Content-Type: multipart/mixed; boundary*0*=x''%",
        b"Content-Type: ;;;=",
        b'Content-Type: text/plain; charset="\xff"',
        b"Content-Transfer-Encoding: =?utf-8?q?x?=",
        b"Date: Mon, 99 Foo 20000000000 25:61:61 +9999999",
        b"Date: Mon, 1 Jan 0001 00:00:00 +2359",
        b"From: " + b"(" * 3000 + b"=?utf-8?q?a?=",
        b"To: =?utf-8?q?a?=, <<<>>>, a:b:c;;",
        b"References: <<<< >>> <a",
        b"Message-ID: " + b"<" * 5000,
        b"Subject: =?utf-8?q?" + b"a" * 5000 + b"?=",
        b"no colon in this line",
    ],
)
def test_a_broken_header_loses_nothing_else(header: bytes) -> None:
    assert record(b"Sender: a@b.c\n" + header + b"\n\nstill here").text.endswith("still here")


def test_a_header_as_unit_joins_the_metadata() -> None:
    raw = b"From: a@b.c\nX-Folder: Inbox\n\nx"
    assert record(raw, "x-folder").metadata["x-folder"] == "Inbox"
    lacking = record(raw, "X-Other")
    assert lacking.metadata["X-Other"] == ""
    assert "x-folder" in lacking.fields


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("A.B@Example.org", "a.b@example.org"),
        ('"Lee, Ann" <ann@Example.org>', "ann@example.org"),
        ("ann@example.org (Ann Lee)", "ann@example.org"),
        ("Ann  Lee", "ann lee"),
        ("", ""),
    ],
)
def test_sender(value: str, expected: str) -> None:
    assert sender(value) == expected


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_date_without_a_zone_does_not_depend_on_the_machine(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    found = record(b"From: a@b.c\nDate: Wed, 13 Dec 2000 15:05:00 -0000\n\nx").thread
    monkeypatch.undo()
    time.tzset()
    assert found is not None
    assert found.timestamp == 976719900


def thread(raw: bytes) -> ThreadKeys:
    found = record(raw).thread
    assert found is not None
    return found


def test_every_header_of_ids_counts() -> None:
    found = thread(
        b"Message-ID: <1@b>\nMessage-ID: <2@b>\nReferences: <3@b>\n\t<4@b>\nIn-Reply-To: <5@b>\n"
        b"References: <6@b>\nIn-Reply-To: <7@b> <5@b>\nFrom: a@b.c\n\nx"
    )
    assert found.message_id == "1@b"
    assert found.references == ("3@b", "4@b", "6@b", "5@b", "7@b", "2@b")


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"Message-ID: <1@b>\r\n\r\n", "1@b"),
        (b"Subject: x\r\nMESSAGE-id:\r\n\t<1@b>\r\nDate: y\r\n", "1@b"),
        (b"Message-ID: <1@\r\n b>\r\n", ""),  # the message is known by its bytes
        (b"Subject: Message-ID: <1@b>\r\n", ""),
        (b"Message-ID:\r\nSubject: <2@b>\r\n", ""),
        (b"Message-ID: two words\r\n", ""),
        (b"", ""),
    ],
)
def test_the_id_of_a_message_by_its_headers(header: bytes, found: str) -> None:
    assert message_id(header) == found
    if header:
        own = thread(b"From: a@b.c\r\n" + header.rstrip() + b"\r\n\r\nx").message_id
        assert own == found or not found


def test_words_are_no_ids() -> None:
    found = thread(b"From: a@b.c\nIn-Reply-To: Your message of Monday\nReferences: 7@b\n\nx")
    assert found.references == ("7@b",)


@pytest.mark.parametrize(
    "value",
    [
        b"<1@b> <2@b>", b"<1@b>,<2@b>", b"1@b 2@b", b"1@b,2@b", b"1@b,\n\t2@b;", b"<1@b>, 2@b",
        b"1@b <2@b>", b"<1@b 2@b>", b"<1@b><2@b", b"<1@b>\nReferences: 2@b",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [b"References", b"In-Reply-To"])
def test_ids_may_be_bare_or_between_commas(value: bytes, name: bytes) -> None:
    found = thread(b"From: a@b.c\n%b: %b\n\nx" % (name, value))
    assert sorted(found.references) == ["1@b", "2@b"]


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (b"Message from ann@b.org of Monday <1@b>", ("1@b",)),
        (b"ann@b.org wrote", ()),
        (b"a,b", ("a,b",)),
        (b"<a,b@c>", ("a,b@c",)),
        (b"a b", ()),
        (b"", ()),
    ],
)
def test_words_beside_ids_are_none(value: bytes, ids: tuple[str, ...]) -> None:
    assert thread(b"From: a@b.c\nIn-Reply-To: %b\n\nx" % value).references == ids


def test_people() -> None:
    found = thread(
        b'From: "Lee, Ann" <Ann@B.c>\nTo: bob@b.c, "X" <Cy@b.c>;\n \'dan@b.c\'\n'
        b"Cc: team: eve@b.c, nobody;\nCc: <fay@b.c>\nBcc: gus@b.c\n\nx"
    )
    assert found.sender == "ann@b.c"
    assert found.recipients == ("bob@b.c", "cy@b.c", "dan@b.c", "eve@b.c", "fay@b.c")


def test_what_is_stored_of_a_message_ties_it_as_the_message_does() -> None:
    raw = b"Message-ID: <1@b>\nFrom: Ann <a@b.c>\nTo: d@b.c\nDate: 1 Jan 2026 10:00 +0000\n"
    for subject in (b"Plans", b"Re: Plans"):
        found = record(raw + b"Subject: " + subject + b"\n\nx")
        assert found.thread is not None
        keys, offers = keys_of_stored(found.metadata)
        assert keys == thread_keys(found.thread)
        assert offers == thread_offers(found.thread)
        assert bool(offers) == (subject == b"Plans")
    assert keys_of_stored({"file": "a"}) == ((), ())
    assert keys_of_stored({"message_id": "", "subject": "x"}) == ((), ())


def test_a_mail_with_very_many_references_has_few_keys(tmp_path: Path) -> None:
    ids = b"\n\t".join(b"<%d@b>" % number for number in range(60_000))
    (tmp_path / "a.eml").write_bytes(b"From: a@b.c\nReferences: " + ids + b"\n\nx")
    (document,) = load(tmp_path).documents
    assert len(document.origin.keys) == 101


def test_the_report_names_what_subjects_joined(tmp_path: Path) -> None:
    head = b"Date: 1 Jan 2026 10:00 +0000\nFrom: a@b.c\nTo: d@b.c\n"
    (tmp_path / "a.eml").write_bytes(b"Message-ID: <1@b>\nSubject: Plans\n" + head + b"\nx")
    (tmp_path / "b.eml").write_bytes(b"Message-ID: <2@b>\nSubject: AW: Plans\n" + head + b"\ny")
    (tmp_path / "c.eml").write_bytes(b"References: <2@b>\nSubject: Re: Plans\n" + head + b"\nz")
    (tmp_path / "d.eml").write_bytes(b"From: x@y.z\nTo: a@b.c\nSubject: Re: Plans\n\nz")
    found = load(tmp_path)
    assert len({document.unit for document in found.documents}) == 2
    assert found.report.joined == (("a.eml", "b.eml"),)
    assert load(tmp_path, unit="sender").report.joined == ()
