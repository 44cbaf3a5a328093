"""Identities of records: their privacy units, the same whenever and wherever they are read."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from dpicl_rag.documents import THREAD_OR_DOCUMENT, Document, Origin
from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import fingerprint
from dpicl_rag.loaders.records import Record, RecordOrSkipped, Skipped, on_one_line
from dpicl_rag.loaders.shared_keys import Joins, name_key
from dpicl_rag.loaders.threads import (
    subject_ties,
    thread_alone,
    thread_ids,
    thread_keys,
    thread_offers,
    tying_many,
)
from dpicl_rag.normal_forms import normal_form

# How programs write a whole number once its column has become one of floats. Nothing else is taken
# for a number: 007 and 1e3 are names.
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)\.0+")
_LARGE = re.compile(r"-?[1-9](?:\.[0-9]+)?e\+[0-9]{2}")


def with_units(
    entries: Sequence[RecordOrSkipped], unit: str | None, joins: Joins
) -> tuple[list[Document | Skipped], tuple[tuple[str, str], ...]]:
    """The records of a load as documents with privacy units, or why there is none of one.

    Returns:
        The documents, in their order; and where messages stand that subjects alone made one unit.
    """
    threaded, joined = _with_threads(entries, unit, joins)
    identities = Identities()
    documents = [
        entry if isinstance(entry, Skipped) else _with_unit(entry, unit, identities)
        for entry in threaded
    ]
    return documents, joined if unit in (None, "thread") else ()


def _with_threads(
    entries: Sequence[RecordOrSkipped], unit: str | None, joins: Joins
) -> tuple[list[RecordOrSkipped], tuple[tuple[str, str], ...]]:
    """The entries with the threads of messages, and where those stand that subjects joined."""
    threaded = list(entries)
    mail = {
        at: (entry, entry.thread)
        for at, entry in enumerate(entries)
        if isinstance(entry, Record) and entry.thread
    }
    if unit in (None, "thread") and joins != "allow":
        places = list(mail)
        for message in tying_many([thread for _, thread in mail.values()]):
            record, _ = mail.pop(places[message])
            threaded[places[message]] = Skipped(record.position, reasons.TIES_MANY)
    keys = [thread for _, thread in mail.values()]
    for (at, (record, _)), thread in zip(mail.items(), thread_ids(keys), strict=True):
        threaded[at] = replace(record, metadata={**record.metadata, "thread": thread})
    positions = [on_one_line(record.position) for record, _ in mail.values()]
    return threaded, tuple((positions[one], positions[other]) for one, other in subject_ties(keys))


def _with_unit(record: Record, unit: str | None, identities: Identities) -> Document | Skipped:
    natural = "thread" if record.thread else "document"
    name = unit or natural
    value, keys, offers = _natural(record, identities)
    former: tuple[str, ...] = ()
    if name != natural:
        former, offers = (name_key(value), *keys), ()
        value, keys = name_in(record, name), ()
        if name == "document":
            value, *others = identities.names(record)
            keys = tuple(map(name_key, others))
        elif (written := record.metadata.get(name, "")) != value and name not in record.exact:
            keys = (name_key(written),)  # who gives a unit by hand may write it so
    if not value:
        return Skipped(record.position, reasons.NO_UNIT)
    kind = THREAD_OR_DOCUMENT if name == natural else name
    # Its first key names a message where units are threads; elsewhere two may have the same words.
    said = record.said if name == "thread" else ""
    alone = thread_alone(record.thread) if name == "thread" and record.thread else None
    named = identities.record_name(record, value)
    origin = Origin(kind, keys, offers, named, former, record.file, said, alone)
    return Document(record.text, value, record.metadata, origin)


def _natural(
    record: Record, identities: Identities
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The unit of a record where nobody chose one, its keys and what it offers."""
    if record.thread:
        thread = record.metadata["thread"]
        return thread, thread_keys(record.thread), thread_offers(record.thread)
    value, *others = identities.names(record)
    return value, tuple(map(name_key, others)), ()


class Identities:
    """The names of the records of one load.

    A message has its id, a row that has a key that key. A row without one is known by its content
    and by how many equal rows came before it, as in ``as_documents``: its place in the file would
    be another's after a row came or went above it, whereas of equal rows it does not matter which
    is which. A row with a key has that name as well, for it may have been read before anyone said
    which column is the key.

    A text file is known by where it lies, packed or not, so that it may be edited, and by its
    content, so that it may be moved. Of equal files in one load each has its own place and so is a
    unit of its own; by content they are numbered like rows. One more changes the unit of none. In a
    corpus, equal files that come in several loads may become one unit, but no others with them.
    """

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._numbers: dict[tuple[str, str], int] = {}

    def names(self, record: Record) -> list[str]:
        """The names of a record, the first of which is its unit's."""
        if record.identity:
            return [fingerprint(record.identity)]
        if record.content:
            content = fingerprint(f"text {record.content}")
            place = (content, record.file)
            if place not in self._numbers:
                self._numbers[place] = self._next(content)
            return [fingerprint(f"file {record.file}"), f"{content}-{self._numbers[place]}"]
        exact = [dict(record.exact)] if record.exact else []
        content = fingerprint(
            json.dumps([record.text, dict(record.metadata), *exact], sort_keys=True)
        )
        by_content = f"{content}-{self._next(content)}"
        if not record.key:
            return [by_content]
        return [fingerprint(f"row {record.key.lower()} {name_in(record, record.key)}"), by_content]

    def record_name(self, record: Record, unit: str) -> str:
        """A name for what takes the place of what was read before; empty where nothing does.

        That is a text file, or a row with a key, of the very same file and the same unit: two
        tables may use the same keys for different things, and nobody's row takes the place of
        another's. Messages do not change.
        """
        if record.content:
            named = [record.file, unit]
        elif record.key:
            named = [record.file, unit, record.key.lower(), name_in(record, record.key)]
        else:
            return ""
        name = fingerprint(json.dumps(named))
        return f"{name}-{self._next(name)}"

    def _next(self, name: str) -> int:
        self._seen[name] += 1
        return self._seen[name]


def key_form(value: str) -> str:
    """One form for all ways of writing the same name.

    Letters are composed (NFC), any blanks are one plain blank, and a whole number has no fraction.
    """
    form = " ".join(normal_form("NFC", value).split())
    if "." not in form and "+" not in form:
        return form
    if _WHOLE.fullmatch(form):
        form = form.partition(".")[0]
        return "0" if form == "-0" else form
    if _LARGE.fullmatch(form):
        number = Decimal(form)
        return f"{number:.0f}" if number == number.to_integral_value() else form
    return form


def name_in(record: Record, field: str) -> str:
    """The name in a field of a record; empty where there is none.

    Bytes that are no characters read the same as others. A hash in the name keeps them apart.
    """
    form = key_form(record.metadata.get(field, ""))
    exact = record.exact.get(field, "")
    return f"{form} [{exact}]" if form and exact else form
