"""Ten facts that every thread of a mailbox words by itself, in three kinds of wording.

``framed`` keeps the clause that states a fact and puts other words around it. ``rephrased`` states
it in other clauses too. ``free`` writes the value itself in other forms besides.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from demos.inbox.facts import Fact, FactWording

WordingKind = Literal["framed", "rephrased", "free"]
KINDS: tuple[WordingKind, ...] = ("framed", "rephrased", "free")
_REPLIES = 300  # of which a thread takes one

_LEADS = (
    "",
    "",
    "Thank you for your mail. ",
    "I have looked it up for you. ",
    "Good question. ",
    "We are asked this often. ",
    "As far as I can see, ",
    "As my colleague said on the phone, ",
    "To answer your question, ",
    "For your order it is the same as for all: ",
    "I am glad to help: ",
    "According to our list, ",
)
_TAILS = (
    "",
    "",
    " Please write to us if anything is unclear.",
    " I hope that this helps.",
    " Sorry for the late reply.",
    " It is the same all year round.",
    " Have a pleasant week.",
    " Nothing else is needed.",
    " We wrote that on our website too.",
    " Do come back to us about the other matter.",
)


@dataclass(frozen=True, slots=True)
class WordedFact:
    """A fact, and the ways in which people state it.

    Attributes:
        topic: A short name for tables.
        question: Of a user.
        again: The question in other words.
        clauses: Each states the fact and has one place for the value, ``{}``.
        values: Forms of the value; the first is that of all wordings but ``free``. An answer with
            any of them is right.
    """

    topic: str
    question: str
    again: str
    clauses: tuple[str, ...]
    values: tuple[str, ...]

    def wording(self, kind: WordingKind) -> FactWording:
        """Sentences of threads about the fact, in one kind of wording.

        Args:
            kind: See the module.
        """
        draw = random.Random(f"{self.topic} {kind}")
        clauses = self.clauses if kind != "framed" else self.clauses[:1]
        values = self.values if kind == "free" else self.values[:1]
        replies = [_reply(draw, clauses, values) for _ in range(_REPLIES)]
        asked = (self.question, self.again)
        return FactWording(
            Fact(self.topic, self.question, self.values, self.again),
            (self.topic.capitalize(), f"Question about {self.topic}", f"Re {self.topic}"),
            asked,
            tuple(replies),
            ("Kind regards", "With best wishes", "Yours"),
        )


def _reply(draw: random.Random, clauses: Sequence[str], values: Sequence[str]) -> str:
    stated = draw.choice(clauses).format(draw.choice(values))
    lead = draw.choice(_LEADS)
    goes_on = lead.rstrip().endswith((",", ":"))
    stated = stated if not goes_on or stated.startswith("I ") else stated[0].lower() + stated[1:]
    return f"{lead}{stated}{draw.choice(_TAILS)}"


WORDED = (
    WordedFact(
        "refund time",
        "How long does a refund take?",
        "After how many days does a refund arrive?",
        (
            "A refund takes {}.",
            "It takes {} until the money is back.",
            "You will have the refund within {}.",
            "Refunds are paid {} after the parcel has reached us.",
            "We need {} for a refund.",
            "Your bank shows a refund after {}.",
            "Please allow {} for the refund.",
            "The refund reaches your account in {}.",
        ),
        ("9 working days", "nine working days", "9 business days", "nine business days"),
    ),
    WordedFact(
        "warehouse hours",
        "What time does the warehouse open?",
        "When can I come to the warehouse in the morning?",
        (
            "The warehouse opens at {}.",
            "You can collect parcels at the warehouse from {} on.",
            "Our colleagues in the warehouse start at {}.",
            "The gate of the warehouse is unlocked at {}.",
            "From {} somebody is at the warehouse.",
            "Please do not come to the warehouse before {}.",
            "Pick-up at the warehouse is possible as early as {}.",
            "Opening time of the warehouse is {}.",
        ),
        ("6:40", "6.40 am", "06:40", "6:40 in the morning", "twenty to seven"),
    ),
    WordedFact(
        "error E47",
        "How do I clear error E47?",
        "What should I do when the display shows E47?",
        (
            "To clear error E47, hold the reset button for {}.",
            "Hold the reset button for {} to clear error E47.",
            "Error E47 goes away when you hold the reset button for {}.",
            "Keep the reset button pressed for {}, then error E47 is gone.",
            "Press the reset button for {} and error E47 is cleared.",
            "With error E47 it helps to hold the reset button for {}.",
            "Error E47 is cleared by holding the reset button for {}.",
            "If the display shows E47, press and hold the reset button for {}.",
        ),
        ("twelve seconds", "12 seconds", "12 s", "12 sec"),
    ),
    WordedFact(
        "renamed product",
        "What is the Breezer 2 called now?",
        "What is the new name of the Breezer 2?",
        (
            "The Breezer 2 is now called {}.",
            "The new name of the Breezer 2 is {}.",
            "We sell the Breezer 2 as {} now.",
            "Please look for {}, which was the Breezer 2 before.",
            "{} is what the Breezer 2 is called since spring.",
            "The Breezer 2 has been renamed {}.",
            "You find the Breezer 2 under {} in the shop.",
            "The Breezer 2 goes by the name {} these days.",
        ),
        ("Zephyrix", "the Zephyrix", "ZEPHYRIX", '"Zephyrix"'),
    ),
    WordedFact(
        "calibration workshop",
        "In which town is the calibration workshop?",
        "Where is the workshop for calibration?",
        (
            "The calibration workshop is in {}.",
            "You find the calibration workshop in {}.",
            "Calibration is done in {}, where our workshop is.",
            "Please send it to the calibration workshop in {}.",
            "Our people in {} run the calibration workshop.",
            "{} is where the calibration workshop is.",
            "The workshop for calibration has moved to {}.",
            "For calibration you go to {}, where the workshop is.",
        ),
        ("Marrowby", "MARROWBY", "the town of Marrowby"),
    ),
    WordedFact(
        "calibration price",
        "How much does a calibration cost?",
        "What is the price of a calibration?",
        (
            "A calibration costs {}.",
            "The price of a calibration is {}.",
            "We charge {} for a calibration.",
            "You pay {} for a calibration.",
            "Calibration is {} at the moment.",
            "For a calibration we ask {}.",
            "It is {} for a calibration, postage included.",
            "The bill for a calibration comes to {}.",
        ),
        ("43 crowns", "forty-three crowns", "43.00 crowns", "crowns 43"),
    ),
    WordedFact(
        "rental contact",
        "Who is in charge of the rental fleet?",
        "Whom do I ask about the rental fleet?",
        (
            "{} is in charge of the rental fleet.",
            "The rental fleet is run by {}.",
            "Please ask {} about the rental fleet.",
            "For the rental fleet you talk to {}.",
            "The person in charge of the rental fleet is {}.",
            "Our colleague {} looks after the rental fleet.",
            "All that concerns the rental fleet goes to {}.",
            "I have given your mail to {}, who has the rental fleet.",
        ),
        ("Ilse Farquar", "Ms Farquar", "Ms Ilse Farquar", "Mrs Farquar"),
    ),
    WordedFact(
        "stocktaking date",
        "On which day is the stocktaking?",
        "When do you take stock?",
        (
            "The stocktaking is on {}.",
            "We take stock on {}.",
            "On {} we are closed for stocktaking.",
            "This year's stocktaking falls on {}.",
            "Stocktaking has been set for {}.",
            "We count everything on {}, so it is stocktaking then.",
            "{} is the day of the stocktaking.",
            "Please note that the stocktaking takes place on {}.",
        ),
        ("3 March", "March 3", "3rd of March", "the third of March", "March 3rd"),
    ),
    WordedFact(
        "guarantee of the snow gauge",
        "How long is the guarantee of the snow gauge?",
        "For how many years is the snow gauge guaranteed?",
        (
            "The guarantee of the snow gauge is {}.",
            "The snow gauge has a guarantee of {}.",
            "We guarantee the snow gauge for {}.",
            "You get {} of guarantee with the snow gauge.",
            "A snow gauge is covered for {} by our guarantee.",
            "The guarantee of the snow gauge runs for {}.",
            "For {} the snow gauge is under guarantee.",
            "Within {} we repair the snow gauge under guarantee.",
        ),
        ("five years", "5 years", "60 months", "sixty months"),
    ),
    WordedFact(
        "discount code",
        "What is the discount code for the solar lamp?",
        "Which code gives a discount on the solar lamp?",
        (
            "The discount code for the solar lamp is {}.",
            "Enter {} to get the discount on the solar lamp.",
            "For the solar lamp the discount code reads {}.",
            "{} is the discount code for the solar lamp.",
            "Use the code {} for the solar lamp.",
            "With {} you get the discount on the solar lamp.",
            "The solar lamp is cheaper with the discount code {}.",
            "Your discount code for the solar lamp: {}.",
        ),
        ("GALEHOP", "Galehop", '"GALEHOP"', "galehop"),
    ),
)
