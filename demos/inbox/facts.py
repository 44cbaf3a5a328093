"""The five facts that the support desk repeats to many customers, and how they are worded.

Every support sentence in ``replies`` states the value in full. Nothing in them can be known without
the mailbox: the company and its products are made up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that many threads say.

    Attributes:
        topic: A short name for tables.
        question: What a user of the assistant asks.
        expected: Wordings of the value. An answer with any one of them is right; case is ignored.
        again: The question in other words.
    """

    topic: str
    question: str
    expected: tuple[str, ...]
    again: str = ""

    def is_stated_in(self, text: str) -> bool:
        """Whether the text gives the value, as whole words: ``19 days`` does not give ``9 days``.

        Line breaks count as spaces.
        """
        text = " ".join(text.split())
        return any(
            re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE)
            for value in self.expected
        )


@dataclass(frozen=True, slots=True)
class FactWording:
    """Sentences from which the threads about one fact are put together.

    Attributes:
        fact: The fact itself.
        subjects: Subject lines; an order number is added to make each unique.
        questions: What the customer asks.
        replies: First sentence of the reply, with the value.
        closings: Second sentence of the reply, without the value.
    """

    fact: Fact
    subjects: tuple[str, ...]
    questions: tuple[str, ...]
    replies: tuple[str, ...]
    closings: tuple[str, ...]


REFUND = FactWording(
    Fact(
        "refund time",
        "How long does a refund take?",
        ("9 working days", "nine working days", "9 business days", "9 days"),
        "After how many days does a refund arrive?",
    ),
    ("Refund", "When will I get my refund?", "Refund not here yet", "Question about a refund"),
    (
        "I returned my anemometer last week. How long does a refund take?",
        "I sent the rain gauge back. When can I expect the refund?",
        "How many days does it take until a refund arrives on my account?",
        "My parcel is with you again, but I see no refund. How long do refunds take?",
        "I cancelled my order yesterday. How long must I wait for the refund?",
        "Could you tell me how long you need for a refund?",
        "I am still waiting for my refund. What is the usual time for refunds?",
        "I paid for two sensors and returned one. When is the refund due?",
        "What is your refund time? My bank shows nothing so far.",
        "My husband returned the barometer. How long will the refund take?",
    ),
    (
        "A refund takes 9 working days.",
        "Refunds take 9 working days.",
        "Our refunds take 9 working days from the day the parcel reaches us.",
        "Your refund takes 9 working days, like every refund.",
        "A refund takes 9 working days to reach your account.",
        "At Larkfield a refund takes 9 working days.",
        "The refund takes 9 working days once we have booked it.",
        "Please allow for the usual time: a refund takes 9 working days.",
        "It takes 9 working days until a refund arrives.",
        "I have started your refund, and refunds take 9 working days.",
    ),
    (
        "You need not do anything else.",
        "The money goes back the way you paid.",
        "Weekends and bank holidays do not count.",
        "You will get a mail when it is on its way.",
        "Thank you for your patience.",
        "Let us know if you see nothing by then.",
        "Your bank may show it under our full company name.",
        "We are sorry that it did not suit you.",
    ),
)

WAREHOUSE = FactWording(
    Fact(
        "warehouse hours",
        "What time does the warehouse open?",
        ("6:40", "06:40", "6.40", "06.40", "6:40am", "6:40a.m"),
        "When can I come to the warehouse in the morning?",
    ),
    ("Collecting my order", "Warehouse hours", "Pick-up at the warehouse", "Opening time"),
    (
        "I would like to collect my order myself. What time does the warehouse open?",
        "When does your warehouse open in the morning?",
        "Our driver can pick up the parcel at the warehouse. From what time are you open?",
        "What are the opening hours of the warehouse for collections?",
        "I pass your warehouse on the way to work. How early do you open?",
        "Can I come to the warehouse before work? When does it open?",
        "I want to pick up my weather station at the warehouse. At what time do you open?",
        "Please tell me the opening time of the warehouse.",
        "Is the warehouse open early? I would collect the order on my way.",
        "My courier asks what time the warehouse opens.",
    ),
    (
        "The warehouse opens at 6:40 in the morning.",
        "Our warehouse opens at 6:40 in the morning.",
        "The warehouse opens at 6:40 in the morning on all working days.",
        "You can come early: the warehouse opens at 6:40 in the morning.",
        "For collections the warehouse opens at 6:40 in the morning.",
        "The warehouse opens at 6:40 in the morning, and your order is ready.",
        "The opening time is easy to remember: the warehouse opens at 6:40 in the morning.",
        "Yes, please collect it; the warehouse opens at 6:40 in the morning.",
        "Our warehouse opens at 6:40 in the morning, all year round.",
        "As the sign at the gate says, the warehouse opens at 6:40 in the morning.",
    ),
    (
        "Please bring the order confirmation.",
        "Ring the bell at the side gate.",
        "There is parking in front of the loading bay.",
        "A van fits through the gate.",
        "Ask for the parcel under your name.",
        "We keep parcels for two weeks.",
        "Please bring something to prove your name.",
        "Our colleagues there will help you carry it.",
    ),
)

FAULT = FactWording(
    Fact(
        "error E47",
        "How do I clear error E47?",
        ("twelve seconds", "12 seconds"),
        "What should I do when the display shows E47?",
    ),
    ("Error E47", "E47 on the display", "Display shows E47", "Help with error E47"),
    (
        "My weather station shows error E47. How do I clear it?",
        "Since this morning the display says E47. What can I do about this error?",
        "How do I get rid of error E47?",
        "The base unit beeps and shows error E47. What does it want from me?",
        "After a storm my unit stopped with error E47. How can I clear the error?",
        "Error E47 is back again. Could you remind me how to clear it?",
        "I changed the batteries and now see error E47. How do I fix it?",
        "The manual does not mention error E47. How is it cleared?",
        "Error E47 came up during set-up. What should I do?",
        "What is the remedy for error E47?",
    ),
    (
        "To clear error E47, hold the reset button for twelve seconds.",
        "Hold the reset button for twelve seconds to clear error E47.",
        "Error E47 goes away when you hold the reset button for twelve seconds.",
        "For error E47, hold the reset button for twelve seconds.",
        "Please hold the reset button for twelve seconds; that clears error E47.",
        "You can clear error E47 yourself: hold the reset button for twelve seconds.",
        "The remedy for error E47 is to hold the reset button for twelve seconds.",
        "Error E47 is harmless: hold the reset button for twelve seconds.",
        "If you see error E47, hold the reset button for twelve seconds.",
        "To get rid of error E47, hold the reset button for twelve seconds.",
    ),
    (
        "The display then starts afresh.",
        "Your readings are not lost.",
        "You will find the button under the battery cover.",
        "A pencil works well for the button.",
        "The lamp turns green when it is done.",
        "It may come back after a thunderstorm.",
        "You do not need to send the unit in.",
        "Please tell us if it shows up again.",
    ),
)

RENAMED = FactWording(
    Fact(
        "renamed product",
        "What is the Breezer 2 called now?",
        ("Zephyrix",),
        "What is the new name of the Breezer 2?",
    ),
    ("Breezer 2", "Looking for the Breezer 2", "Is the Breezer 2 gone?", "Breezer 2 in your shop"),
    (
        "I cannot find the Breezer 2 in your shop. What is it called now?",
        "Is the Breezer 2 no longer sold? Or has it a new name?",
        "I want a second Breezer 2, but the page is gone. Under what name is it sold?",
        "A friend told me that the Breezer 2 has been renamed. What is it called now?",
        "What is the new name of the Breezer 2?",
        "Which product replaced the Breezer 2 in the catalogue?",
        "My dealer says that the Breezer 2 is now called something else. What is the name?",
        "I need a spare part for the Breezer 2 and cannot find it under that name.",
        "Where did the Breezer 2 go? Your search finds nothing.",
        "Do you still make the Breezer 2, perhaps under a different name?",
    ),
    (
        "The Breezer 2 is now called the Zephyrix.",
        "The Breezer 2 is now called the Zephyrix; only the name has changed.",
        "We renamed it: the Breezer 2 is now called the Zephyrix.",
        "Good news, it is still here: the Breezer 2 is now called the Zephyrix.",
        "Since spring the Breezer 2 is now called the Zephyrix in our shop.",
        "Please search again, as the Breezer 2 is now called the Zephyrix.",
        "Your friend is right, the Breezer 2 is now called the Zephyrix.",
        "The new name is on the box already: the Breezer 2 is now called the Zephyrix.",
        "It has not gone away; the Breezer 2 is now called the Zephyrix.",
        "In the catalogue the Breezer 2 is now called the Zephyrix.",
    ),
    (
        "The device and the price are the same.",
        "All spare parts still fit.",
        "Your old mount can stay where it is.",
        "The app will find both.",
        "The guarantee runs on as before.",
        "You will find it among the wind meters.",
        "The stock is good at the moment.",
        "We are sorry for the confusion.",
    ),
)

CALIBRATION = FactWording(
    Fact(
        "calibration workshop",
        "In which town is the calibration workshop?",
        ("Marrowby",),
        "Where is the workshop for calibration?",
    ),
    ("Calibration", "Where to calibrate?", "Calibration of my barometer", "Calibration workshop"),
    (
        "My barometer needs calibration. In which town is your calibration workshop?",
        "Where is the calibration workshop? I would like to bring my device.",
        "To which town do I send my thermometer for calibration?",
        "The calibration of our wind meter is due. Where is the workshop?",
        "Could you tell me where you do the calibration?",
        "Our auditor wants a new calibration. Where is your calibration workshop?",
        "I would rather drive to the calibration workshop than post it. What town is it in?",
        "Where should the hygrometer go for its yearly calibration?",
        "Which town is the calibration workshop in? The certificate does not say.",
        "We have three sensors for calibration. Where do we deliver them?",
    ),
    (
        "The calibration workshop is in Marrowby.",
        "Our calibration workshop is in Marrowby.",
        "The calibration workshop is in Marrowby, next to the station.",
        "Please bring it to us: the calibration workshop is in Marrowby.",
        "All calibration is done in one place, and the calibration workshop is in Marrowby.",
        "The calibration workshop is in Marrowby, and you are welcome there.",
        "Since last year the calibration workshop is in Marrowby.",
        "You can post it or bring it; the calibration workshop is in Marrowby.",
        "As your certificate should say, the calibration workshop is in Marrowby.",
        "For all our devices the calibration workshop is in Marrowby.",
    ),
    (
        "The work takes one afternoon.",
        "Please take the batteries out first.",
        "You will get a new certificate.",
        "Put a note with your name into the box.",
        "A padded box is best.",
        "No appointment is needed.",
        "The price is on our website.",
        "We will call you when it is ready.",
    ),
)

FACT_WORDINGS = (REFUND, WAREHOUSE, FAULT, RENAMED, CALIBRATION)
