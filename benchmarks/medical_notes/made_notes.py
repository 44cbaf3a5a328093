"""Notes of a ward, made from the records of Medical Synth, and what is asked of them.

Each note is about another patient and is one privacy unit. It states what the patient has, some of
the signs and what is given, in one of ten wordings. None of them has the words of the questions.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from benchmarks.asked_corpus import Question
from dpicl_rag import Document

DATA = Path(os.environ.get("DPICL_RAG_DATA", "../shared/data"))
TELLING, MOST = 16, 32
"""Notes that tell of a disease that is asked about: at least, and at most."""
OF_A_KIND = 10
"""Questions of each kind."""

WORDINGS = (
    # a note of an admission
    "Adm. {day}, bed {bed}. {patient}, {age} y. Came in with {signs}. Seen by {doctor}: it sounds "
    "like {disease}. Rx: {given}, first dose at {time}. Eats and drinks well, family informed.",
    # a letter to the family doctor
    "Dear colleague,\n\nthank you for sending us {patient}, born {year}, who presents with "
    "{signs}. The findings fit {disease}. We put the person on {given} and would be glad if you "
    "went on with it for three weeks. Blood count and ECG were normal.\n\nKind regards\n{doctor}",
    # a ticket
    "[#{number}] Ward {ward} -> pharmacy\nFor: {patient}\nPlease send up {given} before {time}.\n"
    "Why: {disease}, confirmed by {doctor} this morning. Complains of {signs}.\nPriority: normal",
    # a mail
    "Hi {nurse},\n\nshort word on {patient} in bed {bed}: turns out to be {disease}, I should have "
    "thought of it when I heard of {signs}. I have prescribed {given}, please start today. The "
    "daughter calls around {time}.\n\nThanks\n{doctor}",
    # a SOAP note
    "S: {patient} reports {signs} since {day}.\nO: BP {pressure}/80, pulse {pulse}, afebrile.\n"
    "A: {disease}.\nP: {given}; review in {days} days. {doctor}",
    # a memo of a telephone call
    "Phone memo, {time}. {patient} rang. Still has {signs}, though less than last week. Told the "
    "caller to keep taking {given}, as {doctor} wants it for everyone who has {disease}. Calls "
    "again in {days} days if it does not get better.",
    # a handover between shifts
    "Handover {day}, nights to days\nBed {bed}: {patient}, in for {disease}. Quiet night. Had "
    "{signs} again at {time}, settled by itself. Gets {given} from us, next one at noon. Needs "
    "help with washing. {nurse}",
    # a letter of discharge
    "{patient} goes home today after {days} days with us. On arrival there were {signs}; after the "
    "tests we are sure that {disease} was behind it. Therapy: {given}, well tolerated, to be "
    "continued at home. Follow-up at our clinic on {day}. Signed {doctor}",
    # minutes of a round
    "Round, {day}, with {doctor} and {nurse}. Bed {bed}, {patient}: the student asked what causes "
    "{signs}. Answer: {disease}, a textbook case. What helps is {given}; second dose given, no "
    "side effects so far. Physiotherapy from tomorrow.",
    # a letter of a patient
    "Dear ward {ward},\n\nI wanted to say thank you. For weeks I had {signs}, and nobody knew why, "
    "until {doctor} found that I have {disease}. Since I take {given} I am another person. The "
    "food was good, too.\n\nYours, {patient}",
)

_DOCTORS = ("Dr Adeyemi", "Dr Lindqvist", "Dr Moreau", "Dr Petrov", "Dr Sandoval", "Dr Whitlock")
_NURSES = ("Aoife", "Bruno", "Chidi", "Hanne", "Marisol", "Tomasz")
# What stands behind many names of medicines and diseases, and need not be said.
_KINDS = (
    "treatment|therapy|shots?|injections?|injectibles|injection therapy|pills|capsules|drops|spray"
    "|lotion|infusion|medicine ssm|syndrome|sindrome|disorder"
)


@dataclass(frozen=True)
class MadeNotes:
    """The notes of a seed, and what is asked of them.

    Attributes:
        documents: A note each.
        questions: Treatments and diagnoses in turn.
        telling: How many notes tell of each disease.
        given: How many say that each medicine is given.
        asked: The diseases that questions are about, and what is given for each.
    """

    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    telling: Mapping[str, int]
    given: Mapping[str, int]
    asked: Mapping[str, str]


@dataclass(frozen=True)
class _Illness:
    """What all records of a disease say, and their patients."""

    name: str
    given: str
    signs: tuple[str, ...]
    patients: tuple[str, ...]


def make_notes(seed: int = 0, notes: int | None = None) -> MadeNotes:
    """Make the notes of a seed; equal seeds give equal notes.

    Args:
        seed: Chooses the diseases that are asked about, the patients, and all that is filled in.
        notes: That tell of each disease that is asked about; 16 to 32 by default.
    """
    draw = random.Random(seed)
    illnesses = _illnesses()
    asked = _chosen(illnesses, draw)
    documents: list[Document] = []
    telling: dict[str, int] = {}
    given = Counter[str]()
    for illness in illnesses:
        most = notes if notes is not None and illness in asked else MOST
        patients = draw.sample(illness.patients, min(most, len(illness.patients)))
        telling[illness.name] = len(patients)
        given[illness.given] += len(patients)
        wordings = cycle(draw.sample(WORDINGS, len(WORDINGS)))
        for patient, wording in zip(patients, wordings, strict=False):
            text = _write(wording, patient, illness, draw)
            documents.append(Document(text, f"note {len(documents)}"))
    draw.shuffle(documents)
    questions = tuple(_questions(asked, illnesses))
    return MadeNotes(
        tuple(documents), questions, telling, given, {one.name: one.given for one in asked}
    )


def _illnesses() -> list[_Illness]:
    with gzip.open(DATA / "medical_synth_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    by_name: dict[str, list[dict[str, object]]] = defaultdict(list)
    for record in records:
        by_name[record["disease"]].append(record)
    return [
        _Illness(
            name,
            str(own[0]["treatment"]),
            tuple(str(sign).lower() for sign in own[0]["symptoms"]),  # type: ignore[attr-defined]
            tuple(dict.fromkeys(str(record["patient"]) for record in own)),
        )
        for name, own in sorted(by_name.items())
    ]


def _chosen(illnesses: Sequence[_Illness], draw: random.Random) -> list[_Illness]:
    """Diseases that enough notes tell of, and none of whose signs alone would ask for two."""

    def clear(illness: _Illness) -> bool:
        others = (set(other.signs) for other in illnesses if other is not illness)
        return max(len(other & set(illness.signs)) for other in others) <= 1

    enough = [one for one in illnesses if len(one.patients) >= TELLING and clear(one)]
    return draw.sample(enough, 2 * OF_A_KIND)


def _questions(asked: Sequence[_Illness], illnesses: Sequence[_Illness]) -> Iterator[Question]:
    for number, illness in enumerate(asked):
        if number % 2:
            text = f"Which disease has {_listed(illness.signs)}?"
            names, right, kind = [one.name for one in illnesses], illness.name, "diagnosis"
        else:
            text = f"What is {illness.name} treated with?"
            names, right, kind = [one.given for one in illnesses], illness.given, "treatment"
        yield Question(
            text, kind, (), illness.name, (_said(right, names),), tuple(_others(right, names))
        )


def _said(name: str, names: Sequence[str]) -> str:
    """An expression for a name; its kind may be left out where no other name is alike."""
    bare = re.sub(rf"( (?:{_KINDS}))+$", "", name, flags=re.IGNORECASE)
    alike = any(bare.casefold() in one.casefold() for one in names if one != name)
    return rf"\b{re.escape(name if alike else bare)}\b"


def _others(right: str, names: Sequence[str]) -> Iterator[str]:
    """Expressions for the other names, which a right answer has not."""
    for name in names:
        said = _said(name, names)
        if name != right and not re.search(said, right, re.IGNORECASE):
            yield said


def _write(wording: str, patient: str, illness: _Illness, draw: random.Random) -> str:
    signs = draw.sample(illness.signs, draw.choice((2, 3)))
    return wording.format(
        patient=patient,
        disease=illness.name,
        given=illness.given,
        signs=_listed(signs),
        doctor=draw.choice(_DOCTORS),
        nurse=draw.choice(_NURSES),
        day=f"{draw.randrange(1, 29)} {draw.choice(('Sept', 'Oct', 'Nov'))}",
        time=f"{draw.randrange(7, 22)}:{draw.choice(('00', '15', '30', '45'))}",
        bed=draw.randrange(1, 40),
        ward=draw.randrange(1, 9),
        age=draw.randrange(18, 92),
        year=draw.randrange(1934, 2008),
        number=draw.randrange(10_000, 99_999),
        pressure=draw.randrange(108, 142),
        pulse=draw.randrange(58, 96),
        days=draw.randrange(2, 12),
    )


def _listed(parts: Sequence[str]) -> str:
    """Words as a sentence lists them."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
