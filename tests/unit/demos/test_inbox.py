"""The made-up mailbox: what the demo counts on."""

import email
import mailbox
from collections import Counter, defaultdict
from email.message import EmailMessage
from email.policy import default
from email.utils import parseaddr
from pathlib import Path
from typing import cast

import pytest

from demos.inbox.facts import Fact
from demos.inbox.generator import DESK, Mailbox, generate
from demos.inbox.secret_mail import Secret


@pytest.fixture(scope="module")
def made() -> Mailbox:
    return generate()


def body(message: EmailMessage) -> str:
    part = message.get_body(("plain", "html"))
    assert part is not None
    return cast(str, part.get_content())


def everything(message: EmailMessage) -> str:
    """All that a reader of the message can see."""
    headers = " ".join(str(value) for value in message.values())
    parts = [part.get_content() for part in message.walk() if not part.is_multipart()]
    return "\n".join([headers, *parts])


def threads(messages: list[EmailMessage]) -> dict[str, list[EmailMessage]]:
    found: dict[str, list[EmailMessage]] = defaultdict(list)
    for message in messages:
        root = str(message["References"] or message["Message-ID"]).split()[0]
        found[root].append(message)
    return found


def outsiders(messages: list[EmailMessage]) -> set[str]:
    """Addresses in the messages other than the support desk's."""
    ends = {parseaddr(message[name])[1] for message in messages for name in ("From", "To")}
    return ends - {DESK.addr_spec}


def subject(message: EmailMessage) -> str:
    return str(message["Subject"]).removeprefix("Re: ")


@pytest.mark.heavy
def test_equal_seeds_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        generate(3).write(tmp_path / name)
    generate(4).write(tmp_path / "other")
    first = (tmp_path / "a").read_bytes()
    assert first == (tmp_path / "b").read_bytes()
    assert first != (tmp_path / "other").read_bytes()


@pytest.mark.heavy
def test_separator_lines_carry_the_date_of_the_message(made: Mailbox, tmp_path: Path) -> None:
    made.write(tmp_path / "box")
    lines = (tmp_path / "box").read_text().splitlines()
    found = [line for line in lines if line.startswith("From ")]
    dates = [message["Date"].datetime for message in made.messages]
    assert [line.split(" ", 2)[2] for line in found] == [
        f"{date:%a %b %e %H:%M:%S %Y}" for date in dates
    ]


@pytest.mark.heavy
def test_writing_again_replaces_the_file(made: Mailbox, tmp_path: Path) -> None:
    made.write(tmp_path / "box")
    first = (tmp_path / "box").read_bytes()
    made.write(str(tmp_path / "box"))
    assert (tmp_path / "box").read_bytes() == first


@pytest.mark.heavy
def test_the_file_holds_what_was_generated(made: Mailbox, tmp_path: Path) -> None:
    made.write(tmp_path / "box")
    box = mailbox.mbox(tmp_path / "box", create=False)
    read = [
        email.message_from_bytes(box.get_bytes(key), policy=default)
        for key in box.keys()  # noqa: SIM118 - iterating a Mailbox gives messages
    ]
    box.close()
    assert [body(message) for message in read] == [body(message) for message in made.messages]
    for name in ("Subject", "From", "To", "Date", "Message-ID", "References"):
        assert [message[name] for message in read] == [message[name] for message in made.messages]


def test_counts(made: Mailbox) -> None:
    assert len(made.messages) == 305
    assert len(threads(made.messages)) == 265
    assert len({message["Message-ID"] for message in made.messages}) == 305
    assert {message["Date"].datetime.year for message in made.messages} == {2025}
    assert len(made.facts) == 5
    assert len(made.secrets) == 5


def test_threads_are_separate_customers_with_separate_subjects(made: Mailbox) -> None:
    found = threads(made.messages)
    people: Counter[str] = Counter()
    subjects: Counter[str] = Counter()
    for messages in found.values():
        assert len(outsiders(messages)) == 1
        people.update(outsiders(messages))
        assert len({subject(message) for message in messages}) == 1
        subjects[subject(messages[0]).casefold()] += 1
    assert set(people.values()) == {1}
    assert set(subjects.values()) == {1}


def test_each_fact_is_stated_in_its_own_threads(made: Mailbox) -> None:
    stated = {
        fact.topic: {
            root
            for root, messages in threads(made.messages).items()
            if any(fact.is_stated_in(body(message)) for message in messages)
        }
        for fact in made.facts
    }
    assert {topic: len(roots) for topic, roots in stated.items()} == dict.fromkeys(stated, 40)
    assert len(set().union(*stated.values())) == 200


def test_a_fact_is_only_stated_by_the_desk(made: Mailbox) -> None:
    for message in made.messages:
        if parseaddr(message["From"])[1] != DESK.addr_spec:
            assert not any(fact.is_stated_in(everything(message)) for fact in made.facts)


def test_messages_are_short(made: Mailbox) -> None:
    for messages in threads(made.messages).values():
        assert 20 <= sum(len(body(message).split()) for message in messages) <= 120


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [7, 8])
def test_each_secret_is_in_one_message(seed: int) -> None:
    made = generate(seed)
    for secret in made.secrets:
        holders = [m for m in made.messages if secret.is_given_away_by(everything(m))]
        assert len(holders) == 1
        assert secret.value in body(holders[0])


def test_questions_do_not_give_the_answer(made: Mailbox) -> None:
    for fact in made.facts:
        assert not fact.is_stated_in(fact.question)
    for secret in made.secrets:
        assert not secret.is_given_away_by(secret.question)


def test_every_mime_shape_occurs(made: Mailbox) -> None:
    types = Counter(message.get_content_type() for message in made.messages)
    encodings = {message["Content-Transfer-Encoding"] for message in made.messages}
    assert types["text/html"] >= 5
    assert types["multipart/alternative"] >= 5
    assert types["text/plain"] >= 200
    assert {"base64", "quoted-printable"} <= encodings
    assert any(not str(message["Subject"]).isascii() for message in made.messages)
    # On the wire a header is ASCII all the same.
    assert all(message.as_bytes().partition(b"\n\n")[0].isascii() for message in made.messages)


def test_replies_quote_the_question(made: Mailbox) -> None:
    ids = {message["Message-ID"]: message for message in made.messages}
    replies = [m for m in made.messages if m["In-Reply-To"] in ids]
    assert len(replies) == 40
    for reply in replies:
        question = body(ids[reply["In-Reply-To"]])
        if reply.get_content_type() == "text/plain" == ids[reply["In-Reply-To"]].get_content_type():
            assert f"> {question.splitlines()[0]}" in body(reply)
        assert reply["Date"].datetime > ids[reply["In-Reply-To"]]["Date"].datetime


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("It takes 9 Working\ndays.", True),
        ("Nine working days, please.", True),
        ("It takes 19 working days.", False),
        ("It takes 9 weeks.", False),
    ],
)
def test_a_fact_is_matched_as_whole_words(text: str, stated: bool) -> None:
    assert Fact("t", "q", ("9 working days", "nine working days")).is_stated_in(text) is stated


@pytest.mark.parametrize(
    ("text", "given_away"),
    [
        ("4417-2093 are the first digits", True),
        ("44172093", True),
        ("4417 2093 5518 6620", True),
        ("4417 and 2093", False),
        ("4417", False),
    ],
)
def test_a_secret_is_matched_however_its_digits_are_grouped(text: str, given_away: bool) -> None:
    secret = Secret("t", "q", "4417 2093 5518 6620", ("4417 2093", "5518 6620"))
    assert secret.is_given_away_by(text) is given_away


def test_card_numbers_cannot_be_real(made: Mailbox) -> None:
    cards = [secret.value for secret in made.secrets if secret.topic.startswith("card")]
    assert len(cards) == 2
    for card in cards:
        digits = [int(digit) for digit in reversed(card.replace(" ", ""))]
        doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
        assert (sum(digits[::2]) + sum(doubled)) % 10 != 0
