"""The mailbox of a made-up swimming club, and the questions that are asked of it.

``python -m benchmarks.mailbox.made_mailbox OUT.mbox --seed 0`` writes it. Every thread belongs to
another member and is one privacy unit; a fact is worded by each thread that states it. Sentences
and questions stand in ``mailbox.toml``.
"""

from __future__ import annotations

import argparse
import random
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.headerregistry import Address
from email.message import EmailMessage
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.asked_corpus import Question
from demos.inbox.generator import Mailbox, dated_message

DESK = Address("Aquarena Lindach", "desk", "aquarena.example")
DESK_SIGNATURE = "The front desk\nAquarena Lindach, Badstraße 12, 05552 4040"
LANGUAGES = ("en", "de", "fr", "es")
PERSONAL = re.compile(r"(I|My|We always|We come|Ich|Je|Yo)\b|.*\b(my|I)\b")
"""What a member says and the desk does not."""

_FIRST = (
    *("Agnes", "Albrecht", "Amélie", "Bastien", "Beatriz", "Birgit", "Carmen", "Clément", "Dagmar"),
    *("Dolores", "Edgar", "Élodie", "Emilio", "Fabian", "Florence", "Gerda", "Gonzalo", "Greta"),
    *("Hugo", "Ignacio", "Imogen", "Jasper", "Juliette", "Karin", "Lorenz", "Lucía", "Manon"),
    *("Mireille", "Norbert", "Odile", "Oscar", "Penelope", "Quentin", "Renate", "Rosalía", "Ruben"),
)
_LAST = (
    *("Abendroth", "Aubry", "Bastida", "Blackwood", "Brandis", "Cordier", "Crowther", "Delmas"),
    *("Dreyer", "Escalante", "Fairbanks", "Fontanet", "Gallardo", "Gilchrist", "Hartwig", "Hobbs"),
    *("Iglesias", "Jansen", "Kettler", "Lacombe", "Larrea", "Mallory", "Marchand", "Neumeier"),
    *("Oakley", "Ortega", "Pfister", "Pomeroy", "Quiroga", "Rebmann", "Rousselot", "Salcedo"),
    *("Sattler", "Thornbury", "Urrutia", "Vasseur", "Wexler", "Zumwald"),
)
_GREETINGS = {
    "en": ("Hello,", "Dear team,", "Hi all,", "Good morning,", "Dear desk,", ""),
    "de": ("Hallo zusammen,", "Guten Tag,", "Liebes Team,", "Moin,", ""),
    "fr": ("Bonjour,", "Madame, Monsieur,", "Bonjour à tous,", ""),
    "es": ("Hola:", "Buenos días:", "Estimado equipo:", ""),
}
_FILLERS = {
    "en": (
        "I hope that you are all well.",
        "The new lane ropes are great, by the way.",
        "Please excuse the late mail.",
        "My daughter sends her best.",
        "We are looking forward to the autumn.",
        "It was very full last week.",
        "I am writing from my phone, so this is short.",
        "See you in the water.",
    ),
    "de": (
        "Ich hoffe, es geht euch gut.",
        "Die neuen Leinen sind übrigens klasse.",
        "Entschuldigt die späte Mail.",
        "Letzte Woche war es sehr voll.",
        "Bis bald im Wasser.",
    ),
    "fr": (
        "J'espère que vous allez bien.",
        "Veuillez excuser ce message tardif.",
        "Il y avait beaucoup de monde la semaine dernière.",
        "À bientôt dans l'eau.",
    ),
    "es": (
        "Espero que estén todos bien.",
        "Perdonen que escriba tan tarde.",
        "La semana pasada había mucha gente.",
        "Nos vemos en el agua.",
    ),
}
_CLOSINGS = {
    "en": ("Best wishes", "Kind regards", "Thanks", "Cheers"),
    "de": ("Viele Grüße", "Beste Grüße", "Danke"),
    "fr": ("Cordialement", "Bien à vous", "Merci"),
    "es": ("Un saludo", "Saludos cordiales", "Gracias"),
}
_UNDER_NAMES = (
    "",
    "",
    "Sent from my phone",
    "Lane 3, Tuesdays",
    "Member since 2009",
    "Von unterwegs gesendet",
    "Tel. 05552 {number}",
    "Gartenweg {house}, Lindach",
)
_THANKS = {
    "en": "Thank you, that is what I wanted to know.",
    "de": "Danke, genau das wollte ich wissen.",
    "fr": "Merci, c'est ce que je voulais savoir.",
    "es": "Gracias, era lo que quería saber.",
}
_WROTE = {
    "en": "On {date:%d %b %Y} at {date:%H:%M}, {name} wrote:",
    "de": "Am {date:%d.%m.%Y} um {date:%H:%M} schrieb {name}:",
    "fr": "Le {date:%d/%m/%Y} à {date:%H:%M}, {name} a écrit :",
    "es": "El {date:%d/%m/%Y} a las {date:%H:%M}, {name} escribió:",
}


def read_questions() -> list[Question]:
    """The 24 questions: 16 that many threads answer, 8 that none or one does."""
    return [
        Question(
            one["text"],
            one["kind"],
            tuple((asked, answered) for asked, answered in one.get("turns", ())),
            one.get("fact", ""),
            tuple(one.get("right", ())),
            tuple(one.get("wrong", ())),
            one.get("least", 0),
        )
        for one in _read()["question"]
    ]


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread, and what is true of it.

    Attributes:
        topic: Of the fact that it states; its subject where it states none.
        language: In which it is written.
        messages: Its mails.
    """

    topic: str
    language: str
    messages: tuple[EmailMessage, ...]


def make_threads(seed: int = 0) -> list[Thread]:
    """Make the threads of a mailbox; equal seeds give equal ones.

    Args:
        seed: Of all choices.
    """
    writer = _Writer(random.Random(seed))
    content, threads = _read(), []
    for fact in content["fact"]:
        threads += [writer.fact_thread(fact, number) for number in range(fact["threads"])]
    for language, mails in content["near"].items():
        for subject, body in mails:
            threads.append(Thread(subject, language, writer.thread(language, subject, body)))
    for mail in content["secret"]:
        # The language is that in which the names of days and greetings are written.
        written = writer.thread("en", mail["subject"], mail["body"], mail["from"])
        threads.append(Thread(mail["subject"], "en", written))
    return threads


def make_mailbox(seed: int = 0) -> Mailbox:
    """Make the mailbox of a seed.

    Args:
        seed: Of all choices.
    """
    messages = [message for thread in make_threads(seed) for message in thread.messages]
    messages.sort(key=lambda message: message["Date"].datetime)
    return Mailbox(messages, [], [])


def threads_of_facts() -> dict[str, int]:
    """How many threads state each fact."""
    return {fact["topic"]: fact["threads"] for fact in _read()["fact"]}


class _Writer:
    """Threads, one after the other, from one generator of choices."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        names = [f"{first} {last}" for first in _FIRST for last in _LAST]
        self._names: Iterator[str] = iter(draw.sample(names, len(names)))
        self._numbers = count(1)

    def fact_thread(self, fact: Mapping[str, Any], number: int) -> Thread:
        """Write a thread that states a fact: asked and answered, or in passing."""
        draw = self._draw
        weights = [1 + len(fact[language]["says"]) for language in LANGUAGES]
        language = draw.choices(LANGUAGES, weights)[0]
        worded = fact[language]
        says = worded["says"][number % len(worded["says"])]
        if "also" in fact:
            chosen = draw.sample(fact["also"], draw.choice((1, 1, 2)))
            named = [worded.get("also", {}).get(one, one) for one in chosen]
            says = says.format(also=_AND[language].join(named))
        subject = draw.choice(worded["subjects"])
        if PERSONAL.match(says) or draw.random() < 0.35:
            return Thread(fact["topic"], language, self.thread(language, subject, says))
        asked = self.thread(language, subject, draw.choice(worded["asks"]))
        reply = self._reply(language, asked[0], says, quotes=True)
        thread = [*asked, reply]
        if draw.random() < 0.3:
            thread.append(self._reply(language, reply, _THANKS[language], quotes=False))
        whole = draw.random() < 0.7
        return Thread(fact["topic"], language, tuple(thread) if whole else (reply,))

    def thread(
        self, language: str, subject: str, text: str, name: str = ""
    ) -> tuple[EmailMessage, ...]:
        """Write one mail of a member."""
        name = name or next(self._names)
        draw = self._draw
        filler = draw.choice(_FILLERS[language])
        body = draw.choice((f"{filler} {text}", f"{text} {filler}", text))
        if draw.random() < 0.25:
            body = f"{filler}\n\n{text}\n\n{draw.choice(_FILLERS[language])}"
        under = draw.choice(_UNDER_NAMES).format(
            number=draw.randrange(10_000, 99_999), house=draw.randrange(1, 90)
        )
        parts = (
            draw.choice(_GREETINGS[language]),
            body,
            "\n".join(filter(None, (draw.choice(_CLOSINGS[language]), name, under))),
        )
        day = datetime(2026, 10, 1, tzinfo=UTC) + timedelta(days=draw.randrange(36))
        message = self._message(day + timedelta(hours=7, seconds=draw.randrange(50_000)))
        message["From"] = _address(name)
        message["To"] = DESK
        message["Subject"] = subject
        message.set_content("\n\n".join(filter(None, parts)))
        return (message,)

    def _reply(self, language: str, to: EmailMessage, text: str, *, quotes: bool) -> EmailMessage:
        """Write an answer of the desk, or of a member to the desk."""
        sent = to["Date"].datetime
        message = self._message(sent + timedelta(minutes=self._draw.randrange(20, 900)))
        message["From"], message["To"] = to["To"], to["From"]
        bare = to["Subject"].removeprefix("Re: ")
        message["Subject"] = f"Re: {bare}"
        message["In-Reply-To"] = message["References"] = to["Message-ID"]
        writer = message["From"].addresses[0]
        signature = DESK_SIGNATURE if writer.username == "desk" else writer.display_name
        greetings = [one for one in _GREETINGS[language] if "desk" not in one and "team" not in one]
        body = f"{self._draw.choice(greetings)}\n\n{text}\n\n{signature}".strip()
        if quotes:
            name = to["From"].addresses[0].display_name
            quoted = "\n".join(f"> {line}".rstrip() for line in to.get_content().splitlines())
            body += f"\n\n{_WROTE[language].format(date=sent, name=name)}\n{quoted}"
        message.set_content(body + "\n")
        return message

    def _message(self, sent: datetime) -> EmailMessage:
        return dated_message(sent, next(self._numbers), DESK.domain)


_AND = {"en": " and ", "de": " und ", "fr": " et ", "es": " y "}


def _address(name: str) -> Address:
    plain = name.encode("ascii", "ignore").decode().lower().replace(" ", ".")
    return Address(name, plain, "member.example")


def _read() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("mailbox.toml").read_text("utf-8"))


def main() -> None:
    """Write the mailbox to the path given on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="mbox file to write")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    made = make_mailbox(arguments.seed)
    made.write(arguments.out)
    print(f"{len(made.messages)} messages written to {arguments.out}")


if __name__ == "__main__":
    main()
