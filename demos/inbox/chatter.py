"""Mail about nothing in particular: the rest of a support mailbox.

None of it touches the topics of the facts, so that a count of threads per fact stays exact.
"""

from __future__ import annotations

CHATTER = (
    (
        "Shipping label",
        "The shipping label of order {order} did not print properly. The bar code has a white\n"
        "stripe. Could you send me the label again as a PDF?",
    ),
    (
        "Label came through",
        "The new shipping label printed fine on the second try, and the parcel left {place} this\n"
        "afternoon. Please close the case for order {order}.",
    ),
    (
        "Thank you",
        "Just a line to say thank you. The thermometer from order {order} arrived in {place}\n"
        "well packed, and the children read it every day.",
    ),
    (
        "Many thanks",
        "Your colleague on the phone was very kind. Please pass on my thanks from {place}. The\n"
        "sensor of order {order} works as it should.",
    ),
    (
        "Meeting on {weekday}",
        "Can we move our meeting about the dealer contract to {weekday} afternoon? I will be on\n"
        "the train from {place} until lunch. File number {order}.",
    ),
    (
        "Agenda for {weekday}",
        "Here is the agenda for {weekday}: spring catalogue, the trade fair in {place}, new\n"
        "brochures. Tell me if a point is missing. Reference {order}.",
    ),
    (
        "Invoice",
        "Our accounts department needs the invoice for order {order} with our new company\n"
        "address in {place}. Please send it as a PDF.",
    ),
    (
        "Invoice paid",
        "We paid the invoice for order {order} by bank transfer on {weekday}. Please confirm\n"
        "that it has arrived. Greetings from {place}.",
    ),
    (
        "Rechnung für Bestellung",
        "Guten Tag, könnten Sie mir die Rechnung für die Bestellung {order} noch einmal\n"
        "schicken? Sie ist in {place} leider nicht angekommen. Vielen Dank.",
    ),
    (
        "Change of address",
        "We have moved to {place}. Please change the delivery address of order {order} before\n"
        "the parcel goes out on {weekday}.",
    ),
    (
        "Printed manual",
        "My father in {place} does not read on a screen. Could you post him a printed manual in\n"
        "large type for the rain gauge of order {order}?",
    ),
    (
        "Newsletter",
        "Please take me off the list of your newsletter. I get it twice every {weekday}, once\n"
        "at home and once at work in {place}. Customer file {order}.",
    ),
    (
        "Photo of our station",
        "Attached to my next mail is a photo of the station of order {order} on the hill above\n"
        "{place}, in snow. You may use it on your website.",
    ),
    (
        "Mounting pole",
        "Which diameter should the mounting pole for order {order} have? The shop in {place}\n"
        "sells two sizes and closes early on {weekday}.",
    ),
    (
        "School visit",
        "Our class from {place} would like to see how a barometer is made. Would a {weekday} in\n"
        "June suit you? Our last order was {order}.",
    ),
)

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
