"""Questions of conversations: how many of them a model puts into words that stand by themselves.

``python -m benchmarks.follow_ups --model FOLDER`` asks it for follow-ups in five languages, and for
questions that stand by themselves already. What is asked is right where it is one question that has
every word that it needs.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dpicl_rag.answering.follow_ups import whole_question
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.transformers import TransformersModel


@dataclass(frozen=True)
class FollowUp:
    """A question, the one before it, its answer, and expressions that the whole question has."""

    before: str
    answer: str
    question: str
    needs: tuple[str, ...]


POOL = "When does the pool open on weekdays?"
COURSE = "Who teaches the beginners' course?"

FOLLOW_UPS = (
    # Those of the mailbox.
    FollowUp(POOL, "At 6:45.", "And at weekends?", ("^when", "pool", "open", "weekend")),
    FollowUp(
        COURSE,
        "Marta Quintero.",
        "And on which day is it?",
        ("day", "beginners", "course"),
    ),
    # Others.
    FollowUp(
        "How much is a ticket for adults?",
        "A ticket for adults is 14 crowns.",
        "And for children?",
        ("how much", "ticket", "children"),
    ),
    FollowUp(
        "Who repairs the organ?",
        "Runa Tveit repairs the organ.",
        "Since when does she do it?",
        ("since when", "runa|tveit|she", "organ"),
    ),
    FollowUp(
        "Where is the seed library?",
        "The seed library is in the old mill.",
        "Is it open in January?",
        ("^is", "seed library", "january"),
    ),
    FollowUp(
        "Wann öffnet die Werkstatt am Montag?",
        "Die Werkstatt öffnet am Montag um 10 Uhr.",
        "Und am Samstag?",
        ("^wann", "werkstatt", "samstag"),
    ),
    FollowUp(
        "Wer leitet die Töpfergruppe?",
        "Die Töpfergruppe leitet Jorun Haas.",
        "Und wo trifft sie sich?",
        ("wo", "töpfergruppe|jorun|haas", "trifft"),
    ),
    FollowUp(
        "Combien coûte la carte annuelle ?",
        "La carte annuelle coûte 48 euros.",
        "Et où peut-on l'acheter ?",
        ("où", "carte annuelle", "achet"),
    ),
    FollowUp(
        "Qui garde la clé du hangar ?",
        "Maud Lerat garde la clé du hangar.",
        "Et en août ?",
        ("qui", "clé", "hangar", "août"),
    ),
    FollowUp(
        "¿Cuándo se reúne el club de ajedrez?",
        "El club de ajedrez se reúne los martes.",
        "¿Y en qué sala?",
        ("sala", "club de ajedrez", "reúne"),
    ),
    FollowUp(
        "¿Quién cuida las colmenas?",
        "Las colmenas las cuida Nerea Izaga.",
        "¿Y por qué lo hace?",
        ("por qué", "colmenas"),
    ),
    FollowUp(
        "A che ora parte la corriera per Lenno?",
        "La corriera per Lenno parte alle 7.20.",
        "E la domenica?",
        ("a che ora", "corriera", "lenno", "domenica"),
    ),
)

ALONE = (
    (COURSE, "Marta Quintero.", "Where can I park my bicycle?"),
    ("Who repairs the organ?", "Runa Tveit.", "Until when is the north door closed?"),
    ("Wer leitet den Chor?", "Jorun Haas.", "Was kostet ein Schließfach?"),
    ("Qui garde la clé ?", "Maud Lerat.", "Pourquoi la cour est-elle fermée ?"),
    ("¿Quién cuida las colmenas?", "Nerea Izaga.", "¿Cuánto cuesta la entrada del museo?"),
    ("A che ora parte la corriera?", "Alle 7.20.", "Dove si trova il deposito bagagli?"),
)


_MARK = {True: "yes", False: "no"}


def is_right(question: str, needs: tuple[str, ...]) -> bool:
    """True of one question that has all that it needs."""
    return question.count("?") == 1 and all(
        re.search(need, question.lstrip("¿ "), re.IGNORECASE) for need in needs
    )


def main() -> int:
    """Read the command line and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="folder of a model; the packaged one without")
    folder = parser.parse_args().model
    model = default_model() if folder is None else TransformersModel.load(str(folder))
    table = Table("question", "asked", "right")
    right = kept = 0
    for one in FOLLOW_UPS:
        turns = [("user", one.before), ("assistant", one.answer)]
        asked = whole_question(one.question, turns, model)
        right += is_right(asked, one.needs)
        table.add_row(one.question, asked, _MARK[is_right(asked, one.needs)])
    for before, answer, question in ALONE:
        turns = [("user", before), ("assistant", answer)]
        asked = whole_question(question, turns, model)
        kept += asked == question
        table.add_row(question, asked, _MARK[asked == question])
    console = Console(width=200)
    console.print(table)
    console.print(
        f"{right} of {len(FOLLOW_UPS)} follow-ups are asked in whole words; {kept} of {len(ALONE)} "
        "questions that stand by themselves are asked as they are"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
