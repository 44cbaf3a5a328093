"""A made-up support mailbox: two thousand threads, each about one of ten problems.

Every thread words its problem by itself: an opening, one of six ways to say it, a detail, an end.
The shares are known, so that what a survey or a tally tells can be held against them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

QUESTION = "What do customers complain about?"

PROBLEMS: Mapping[str, tuple[float, Sequence[str]]] = {
    "late delivery": (
        0.20,
        (
            "my parcel should have been here a week ago",
            "the courier keeps moving the delivery date",
            "I am still waiting for the shipment that you promised for Monday",
            "the package came eleven days late",
            "tracking has said 'on its way' since the beginning of the month",
            "nothing has been delivered, although you wrote that it was dispatched",
        ),
    ),
    "refund": (
        0.16,
        (
            "I sent the thing back and have not seen my money",
            "you promised to reimburse me and nothing has reached my bank account",
            "the refund that you announced is missing",
            "please pay back what I paid, I have asked three times",
            "my money has not been returned after the cancellation",
            "half of the repayment is missing",
        ),
    ),
    "broken screen": (
        0.13,
        (
            "the screen has a crack right through the middle",
            "the display stays black when I turn it on",
            "there are green lines all over the monitor",
            "the glass of the display was shattered in the box",
            "the screen flickers all the time",
            "touching the display does nothing any more",
        ),
    ),
    "battery": (
        0.11,
        (
            "the battery is empty after half an hour",
            "it does not charge, whatever cable I take",
            "the battery gets hot when it is charging",
            "the charger that came with it does not fit",
            "it loses all its power over night",
            "the battery has swollen and lifts the cover",
        ),
    ),
    "password": (
        0.10,
        (
            "I cannot log in to my account any more",
            "the password reset mail never comes",
            "your site says that my password is wrong, which it is not",
            "my account is locked and nobody unlocks it",
            "the login code arrives too late to be used",
            "I am logged out after every click",
        ),
    ),
    "rude staff": (
        0.08,
        (
            "the man on your telephone line was rude to me",
            "your employee laughed at me and hung up",
            "the woman at the counter was impolite and shouted",
            "I was treated without any respect in your shop",
            "your agent insulted me in the chat",
            "the staff ignored me and went on talking to each other",
        ),
    ),
    "invoice": (
        0.07,
        (
            "the invoice has a wrong amount on it",
            "you have billed me twice for the same order",
            "the tax on the bill is not what the law says",
            "my company's name is missing on the invoice",
            "I was charged for something that I never ordered",
            "the bill does not show the discount",
        ),
    ),
    "smell": (
        0.06,
        (
            "it smells of burnt plastic",
            "there is an awful smell of chemicals in the whole room",
            "the cover stinks of smoke",
            "the smell of glue does not go away after weeks of airing",
            "it gives off a nasty odour when it is warm",
            "the box smelt of mould when I opened it",
        ),
    ),
    "noise": (
        0.05,
        (
            "it is so loud that we cannot sleep",
            "the fan makes a grinding noise",
            "it whistles and buzzes all day",
            "there is a loud rattle inside",
            "the motor hums louder every week",
            "it beeps without any reason in the middle of the night",
        ),
    ),
    "wrong colour": (
        0.04,
        (
            "I ordered it in blue and got a red one",
            "the colour has nothing to do with the photo on your site",
            "it is yellow and not white as described",
            "the paint is of another shade than the first one I bought",
            "both parts have different colours",
            "the dye came off and everything is pink now",
        ),
    ),
}
"""By name: the share of threads, and ways to say it."""

_OPENINGS = (
    "Hello,", "Dear team,", "Hi there,", "To whom it may concern,", "Good morning,",
    "Hi, I hope you can help me:", "Hello again, as I wrote before,", "Dear Sir or Madam,",
)  # fmt: skip
_DETAILS = (
    "I bought it in {month}.", "My order number is {number}.", "I live in {town}.",
    "This is the second time.", "A friend of mine had the same.",
    "I have been a customer for years.",
    "Your answer of last week did not help.", "I have pictures if you need them.",
)  # fmt: skip
_ENDS = (
    "Please write back soon. {name}", "What will you do about it? {name}", "Regards, {name}",
    "I expect an answer this week. {name}", "Thank you, {name}", "Yours, {name}",
)  # fmt: skip
_NAMES = ("Ada", "Bo", "Cleo", "Dov", "Elif", "Finn", "Gus", "Hana", "Ines", "Jon", "Kim", "Lea")
_TOWNS = ("Marl", "Oster", "Velden", "Brigg", "Tarn", "Lohe")
_MONTHS = ("January", "March", "May", "July", "October", "November")


def complaints(threads: int, seed: int = 1) -> list[tuple[str, str]]:
    """Threads, each with the name of its problem, in a random order.

    Args:
        threads: How many.
        seed: Of the texts.
    """
    coins = random.Random(seed)
    found = [
        (_text(coins, coins.choice(ways)), name)
        for name, (share, ways) in PROBLEMS.items()
        for _ in range(round(share * threads))
    ]
    coins.shuffle(found)
    return found


def _text(coins: random.Random, problem: str) -> str:
    detail = coins.choice(_DETAILS).format(
        month=coins.choice(_MONTHS),
        number=coins.randrange(10_000, 99_999),
        town=coins.choice(_TOWNS),
    )
    end = coins.choice(_ENDS).format(name=coins.choice(_NAMES))
    said = problem[0].upper() + problem[1:]
    return f"{coins.choice(_OPENINGS)}\n\n{said}. {detail} {end}"
