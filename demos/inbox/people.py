"""Names and small details of made-up customers."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass
from email.headerregistry import Address

FIRST_NAMES = (
    "Adele", "Alasdair", "Amara", "Anselm", "Beatrix", "Bram", "Cecily", "Chloé", "Clement",
    "Cordelia", "Dafydd", "Delphine", "Edmund", "Elspeth", "Farid", "Fenella", "Gideon", "Greta",
    "Hamish", "Ines", "Isolde", "Jasper", "José", "Jürgen", "Kasia", "Lachlan", "Leonie",
    "Lucian", "Mabel", "Magnus", "Nadia", "Niamh", "Octavia", "Orla", "Percy", "Philippa",
    "Quentin", "Ravi", "Rosalind", "Saskia", "Sunil", "Tamsin", "Thaddeus", "Ursula", "Vikram",
    "Winifred", "Yusuf", "Zoë",
)  # fmt: skip

LAST_NAMES = (
    "Abernathy", "Ashdown", "Barrowclough", "Bexley", "Birtwistle", "Blackwood", "Castellan",
    "Chatterjee", "Cobbold", "Dankworth", "Dunmore", "Eastcott", "Fairbrother", "Fernández",
    "Gathercole", "Gillespie", "Hargreave", "Hollins", "Iredale", "Jessop", "Kaminski",
    "Kettlewell", "Langstaff", "Lockridge", "Mbeki", "Merriweather", "Müller", "Nightingale",
    "Nuñez", "Oakshott", "Osgood", "Pemberton", "Penhaligon", "Quayle", "Ramachandran",
    "Ravenscroft", "Sallow", "Stanhope", "Thackeray", "Thistlewood", "Underhill", "Vasquez",
    "Venkatesan", "Whitlock", "Wolstenholme", "Wyndham", "Yarrow", "Zielinski",
)  # fmt: skip

DOMAINS = ("example.com", "example.net", "example.org")

STAFF = ("Priya", "Owen", "Marta", "Dele")

DETAILS = (
    "It is for the weather club of our school.",
    "We use it in a greenhouse near {place}.",
    "My sister in {place} recommended you.",
    "I bought it for the boat that we keep at {place}.",
    "We are a small farm outside {place}.",
    "It hangs in the workshop of our theatre in {place}.",
    "I am writing on behalf of the rowing club in {place}.",
    "It was a present from my colleagues in {place}.",
    "We run a bakery in {place} and rely on it.",
    "I have been a customer since I moved to {place}.",
    "I use it on my allotment in {place}.",
    "It stands on the roof of the library in {place}.",
)

PLACES = (
    "Aldermoor", "Brackwell", "Castlehithe", "Dunsop", "Eelbridge", "Farthing Green",
    "Gorsedale", "Hexcombe", "Kelderwick", "Long Pelham", "Netherfold", "Ostlewick",
    "Pikesley", "Rookhope", "Saltmere", "Thornaby Cross", "Upper Quill", "Wexcombe",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Person:
    """A made-up correspondent."""

    first: str
    last: str
    domain: str

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"

    @property
    def address(self) -> Address:
        """Mail address; accents stay in the display name only."""
        plain = unicodedata.normalize("NFKD", f"{self.first}.{self.last}".lower())
        user = plain.encode("ascii", "ignore").decode().replace(" ", "")
        return Address(self.name, user, self.domain)


def draw_people(rng: random.Random, count: int) -> list[Person]:
    """Draw people with distinct full names."""
    pairs = [(first, last) for first in FIRST_NAMES for last in LAST_NAMES]
    return [Person(first, last, rng.choice(DOMAINS)) for first, last in rng.sample(pairs, count)]


def draw_detail(rng: random.Random) -> str:
    """Draw a sentence about the customer that has nothing to do with any fact."""
    return rng.choice(DETAILS).format(place=rng.choice(PLACES))
