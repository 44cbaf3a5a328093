"""Write the made-up mailbox of Larkfield Instruments as an mbox file.

Usage: ``python -m demos.inbox.generator OUT.mbox``

Every thread belongs to another customer and is one privacy unit. All choices come from one seeded
``random.Random``, so a seed always gives the same mailbox.
"""

from __future__ import annotations

import argparse
import html
import mailbox
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import parseaddr
from itertools import count
from pathlib import Path

from demos.inbox.chatter import CHATTER, WEEKDAYS
from demos.inbox.facts import FACT_WORDINGS, Fact, FactWording
from demos.inbox.people import PLACES, STAFF, Person, draw_detail, draw_people
from demos.inbox.secret_mail import SECRET_MAILS, Secret

COMPANY = "Larkfield Instruments"
DOMAIN = "larkfield.example"
DESK = Address(f"{COMPANY} Support", "support", DOMAIN)

THREADS_PER_FACT = 40
# The customer's own mail is in the mailbox for these; the others were asked in a web form and only
# the desk's reply, with the question quoted, was filed.
TWO_MESSAGE_THREADS_PER_FACT = 8
CHATTER_MESSAGES = 60

# Order numbers have four digits below 7000, so that none contains a secret.
ORDERS = range(1000, 7000)
BODY_KINDS = ("plain", "alternative", "html", "base64")
BODY_WEIGHTS = (82, 9, 6, 3)


@dataclass(frozen=True, slots=True)
class Mailbox:
    """A mailbox and what there is to know about it.

    Attributes:
        messages: All messages, oldest first.
        facts: What many threads say.
        secrets: What a single message says.
    """

    messages: list[EmailMessage]
    facts: list[Fact]
    secrets: list[Secret]

    def write(self, path: Path | str) -> None:
        """Write the messages to an mbox file, in place of any file there."""
        Path(path).unlink(missing_ok=True)
        box = mailbox.mbox(path)
        try:
            for message in self.messages:
                entry = mailbox.mboxMessage(message.as_bytes())
                # Without this the separator line would carry the time of writing.
                sent = message["Date"].datetime.astimezone(UTC)
                entry.set_from(parseaddr(message["From"])[1], sent.timetuple())
                box.add(entry)
        finally:
            box.close()


def generate(seed: int = 7, wordings: Sequence[FactWording] = FACT_WORDINGS) -> Mailbox:
    """Make the mailbox of a seed; equal seeds give equal messages, byte for byte.

    Args:
        seed: Of all choices.
        wordings: The facts that threads are about, at most 50.
    """
    rng = random.Random(seed)
    writer = _Writer(rng)
    fact_threads = THREADS_PER_FACT * len(wordings)
    people = iter(draw_people(rng, fact_threads + CHATTER_MESSAGES))

    messages: list[EmailMessage] = []
    for wording in wordings:
        for index in range(THREADS_PER_FACT):
            filed = index < TWO_MESSAGE_THREADS_PER_FACT
            messages += writer.fact_thread(wording, next(people), customer_mail_filed=filed)
    for index in range(CHATTER_MESSAGES):
        messages.append(writer.chatter(*CHATTER[index % len(CHATTER)], next(people)))
    for mail in SECRET_MAILS:
        sender = Person(mail.first, mail.last, "example.com")
        messages.append(writer.incoming(sender, mail.subject, mail.body, writer.date()))

    messages.sort(key=lambda message: message["Date"].datetime)
    return Mailbox(
        messages,
        [wording.fact for wording in wordings],
        [mail.secret for mail in SECRET_MAILS],
    )


def dated_message(sent: datetime, number: int, domain: str) -> EmailMessage:
    """A message with its date, and an id that its number in a mailbox makes its own."""
    message = EmailMessage()
    message["Date"] = sent
    message["Message-ID"] = f"<{number:05d}.{sent:%Y%m%d%H%M}@mail.{domain}>"
    return message


class _Writer:
    """Puts messages together from templates; holds the draws that must not repeat."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._orders: Iterator[int] = iter(rng.sample(ORDERS, len(ORDERS)))
        self._numbers = count(1)

    def date(self) -> datetime:
        """Draw a moment in the working hours of 2025."""
        # The last days are left for replies.
        day = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=self._rng.randrange(363))
        return day + timedelta(hours=8, seconds=self._rng.randrange(9 * 3600))

    def fact_thread(
        self, wording: FactWording, customer: Person, *, customer_mail_filed: bool
    ) -> list[EmailMessage]:
        """Write a customer's question and the reply that states the fact."""
        rng = self._rng
        asked_at = self.date()
        subject = f"{rng.choice(wording.subjects)} (order {self._order()})"
        question = f"{rng.choice(wording.questions)} {draw_detail(rng)}"
        staff = rng.choice(STAFF)
        question_mail = self.incoming(customer, subject, f"{question}\n\n{customer.name}", asked_at)

        delay = timedelta(days=rng.randrange(3), minutes=rng.randrange(10, 300))
        reply = self._message(asked_at + delay)
        reply["From"] = DESK
        reply["To"] = customer.address
        reply["Subject"] = f"Re: {subject}"
        reply["In-Reply-To"] = question_mail["Message-ID"]
        reply["References"] = question_mail["Message-ID"]
        text = (
            f"Dear {customer.name},\n\n"
            f"{rng.choice(wording.replies)} {rng.choice(wording.closings)}\n\n"
            f"{staff}, {COMPANY}"
        )
        header = f"On {asked_at:%d/%m/%Y} at {asked_at:%H:%M}, {customer.name} wrote:"
        self._set_body(reply, text, (header, question))
        return [question_mail, reply] if customer_mail_filed else [reply]

    def chatter(self, subject: str, body: str, sender: Person) -> EmailMessage:
        """Write a message from one of the chatter templates."""
        slots = {
            "order": self._order(),
            "place": self._rng.choice(PLACES),
            "weekday": self._rng.choice(WEEKDAYS),
        }
        subject = f"{subject.format(**slots)} ({slots['order']})"
        text = f"Hello,\n\n{body.format(**slots)}\n\n{sender.name}"
        return self.incoming(sender, subject, text, self.date())

    def incoming(self, sender: Person, subject: str, text: str, sent: datetime) -> EmailMessage:
        """Write a message to the support desk."""
        message = self._message(sent)
        message["From"] = sender.address
        message["To"] = DESK
        message["Subject"] = subject
        self._set_body(message, text)
        return message

    def _order(self) -> str:
        return f"LF-{next(self._orders)}"

    def _message(self, sent: datetime) -> EmailMessage:
        return dated_message(sent, next(self._numbers), DOMAIN)

    def _set_body(
        self, message: EmailMessage, text: str, quoted: tuple[str, str] | None = None
    ) -> None:
        """Set the body in one of several MIME shapes, with an earlier message quoted below."""
        kind = self._rng.choices(BODY_KINDS, BODY_WEIGHTS)[0]
        plain, rich = text, _paragraphs(text)
        if quoted:
            header, earlier = quoted
            plain += f"\n\n{header}\n" + "\n".join(f"> {line}" for line in earlier.splitlines())
            rich += (
                f"<p>{html.escape(header)}</p>\n"
                f'<blockquote type="cite">{_paragraphs(earlier)}</blockquote>\n'
            )
        rich = f"<html><body>\n{rich}</body></html>\n"
        if kind == "html":
            message.set_content(rich, subtype="html", cte="quoted-printable")
        elif kind == "base64":
            message.set_content(f"{plain}\n", cte="base64")
        else:
            message.set_content(f"{plain}\n")
        if kind == "alternative":
            message.add_alternative(rich, subtype="html", cte="quoted-printable")
            # Left alone, the boundary would be drawn from the global generator.
            number = message["Message-ID"].partition(".")[0].lstrip("<")
            message.set_boundary(f"=_larkfield_{number}")


def _paragraphs(text: str) -> str:
    """Plain text as HTML paragraphs."""
    blocks = (html.escape(block).replace("\n", " ") for block in text.split("\n\n"))
    return "".join(f"<p>{block}</p>\n" for block in blocks)


def main() -> None:
    """Write the mailbox to the path given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="mbox file to write")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    made = generate(arguments.seed)
    made.write(arguments.out)
    print(f"{len(made.messages)} messages written to {arguments.out}")


if __name__ == "__main__":
    main()
