"""Thirty-five more facts for the mailbox of the demo: five kinds of seven, none of them real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demos.inbox.facts import Fact, FactWording

_CLOSINGS = (
    "Thank you for asking.",
    "Please tell us if anything is unclear.",
    "You need not do anything else.",
    "We are happy to help.",
    "Our colleagues will confirm it if you call.",
    "It has been so for a while.",
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """How facts of a kind are asked for and stated; ``{0}`` is the thing, ``{1}`` the value."""

    subject: str
    questions: tuple[str, ...]
    replies: tuple[str, ...]

    def wording(self, thing: str, value: str, expected: Sequence[str] = ()) -> FactWording:
        """Sentences about one thing."""
        questions = [question.format(thing) for question in self.questions]
        return FactWording(
            Fact(f"{self.subject} {thing}", questions[0], (value, *expected)),
            (f"{self.subject} of the {thing}", f"Question about the {thing}", thing.capitalize()),
            tuple(questions[1:]),
            tuple(reply.format(thing, value) for reply in self.replies),
            _CLOSINGS,
        )


_PRICE = _Kind(
    "Price",
    (
        "How much does the {0} cost?",
        "What is the price of the {0}?",
        "I would like to order the {0}. What does it cost?",
        "Could you tell me what you charge for the {0}?",
        "We need an offer for the {0}. How much is it?",
    ),
    (
        "The {0} costs {1} crowns.",
        "At the moment the {0} costs {1} crowns.",
        "With tax the {0} costs {1} crowns.",
        "The price has not changed: the {0} costs {1} crowns.",
        "For our customers the {0} costs {1} crowns.",
    ),
)
_TOWN = _Kind(
    "Place",
    (
        "In which town is the {0}?",
        "Where is the {0}?",
        "I want to visit the {0}. Which town is it in?",
        "Our driver is looking for the {0}. In what town is it?",
        "Could you tell me where to find the {0}?",
    ),
    (
        "The {0} is in {1}.",
        "Our {0} is in {1}.",
        "Since last year the {0} is in {1}.",
        "The {0} is in {1}, not far from the station.",
        "You are welcome there: the {0} is in {1}.",
    ),
)
_HOUR = _Kind(
    "Hours",
    (
        "What time does the {0} close?",
        "When does the {0} close?",
        "Until what time is the {0} open?",
        "I can come after work only. When does the {0} close?",
        "How late may I come to the {0}?",
    ),
    (
        "The {0} closes at {1}.",
        "On all working days the {0} closes at {1}.",
        "Please be there in time, as the {0} closes at {1}.",
        "Our {0} closes at {1}.",
        "The {0} closes at {1}, on Saturdays too.",
    ),
)
_PERSON = _Kind(
    "Contact",
    (
        "Who is in charge of {0}?",
        "Whom do I ask about {0}?",
        "Could you give me the name of the person in charge of {0}?",
        "I have a question about {0}. Who can help me?",
        "Which colleague is responsible for {0}?",
    ),
    (
        "{1} is in charge of {0}.",
        "Please ask for {1}, who is in charge of {0}.",
        "With us {1} is in charge of {0}.",
        "Since spring {1} is in charge of {0}.",
        "Our colleague {1} is in charge of {0}.",
    ),
)
_CODE = _Kind(
    "Code",
    (
        "What is the discount code for the {0}?",
        "Which discount code do I need for the {0}?",
        "I heard of a discount on the {0}. What is the code?",
        "My discount code for the {0} is lost. Could you send it again?",
        "What do I enter as the discount code for the {0}?",
    ),
    (
        "The discount code for the {0} is {1}.",
        "This month the discount code for the {0} is {1}.",
        "Please enter it in capital letters: the discount code for the {0} is {1}.",
        "As in the newsletter, the discount code for the {0} is {1}.",
        "Here it is again: the discount code for the {0} is {1}.",
    ),
)

_THINGS = (
    "pocket barometer",
    "frost alarm",
    "snow gauge",
    "solar lamp",
    "dew sensor",
    "wind sock",
    "tide clock",
)
_PLACES = (
    "show room",
    "spare parts shop",
    "training centre",
    "paint shop",
    "lending library",
    "test field",
    "returns counter",
)
_TASKS = (
    "the dealer contracts",
    "the school visits",
    "the night deliveries",
    "the rental fleet",
    "the photo contest",
    "the repair lists",
    "the museum tours",
)
_PRICES = ("43", "67", "82", "116", "139", "154", "228")
_TOWNS = ("Quillham", "Ostrevant", "Tarnbeck", "Fennoway", "Drumlow", "Velmare", "Ickleby")
_HOURS = ("4:15", "4:50", "5:20", "5:35", "6:10", "7:05", "8:25")
_PEOPLE = (
    "Brannoc Tully",
    "Ilse Farquar",
    "Odo Pennick",
    "Maris Thwaite",
    "Corvin Ashe",
    "Lettice Borrow",
    "Emeka Strand",
)
_CODES = ("GALEHOP", "MISTWICK", "RIMEFORD", "SUNPEN", "DEWLARK", "VANEBUCK", "TIDEMOLE")

MADE_UP = tuple(
    wording
    for at in range(7)
    for wording in (
        _PRICE.wording(_THINGS[at], _PRICES[at]),
        _TOWN.wording(_PLACES[at], _TOWNS[at]),
        _HOUR.wording(_PLACES[at], _HOURS[at], (_HOURS[at].replace(":", "."),)),
        _PERSON.wording(_TASKS[at], _PEOPLE[at]),
        _CODE.wording(_THINGS[at], _CODES[at]),
    )
)
