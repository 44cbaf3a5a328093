"""Passages: cuts of a document that an embedding model reads whole, and what identifies it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dpicl_rag._unobserved import Private
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.loaders.shared_keys import digest_of, is_tied, names_in

LONGEST_FIELD = 1000
MOST_FIELDS = 16_000
"""Letters of one field of a document, and of all of them, that a corpus keeps."""

# From the most to the least welcome place to cut: after a paragraph, a line, a sentence, a word.
_BOUNDARIES = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…])\s|(?<=[.!?…][\"'”’)\]])\s|(?<=[。！？])"),
    re.compile(r"\s"),
)
_LOOK_AHEAD = 8  # a paragraph's end may begin within the limit and be complete only after it


@dataclass(frozen=True, slots=True, repr=False)
class CutDocument(Private):
    """A document in passages. Private.

    Attributes:
        digest: Identifies it in its corpus: a hash of its unit and its text.
        former: Digests that it may have from before it was this unit's.
        unit: Its privacy unit.
        record: The record it is from; see `Origin`.
        tie: What the register knows it by; empty where nothing ties it.
        fields: Its metadata, as JSON, as far as `labels` keeps it.
        texts: Its passages.
        places: Where it stands in the sources that are followed.
    """

    digest: bytes
    former: tuple[bytes, ...]
    unit: str
    record: str
    tie: str
    fields: str
    texts: Sequence[str]
    places: tuple[str, ...] = ()

    @property
    def beside(self) -> bytes:
        """The digest where the other is that of another unit's document."""
        return _digest(self.unit, self.digest.hex())


def cut_up(
    documents: Iterable[Document], former: Mapping[str, Sequence[str]], size: int, overlap: int
) -> tuple[list[CutDocument], int]:
    """Cut documents into passages.

    Args:
        documents: The documents, under their units.
        former: By unit, other units under whose names its passages may be stored.
        size: Longest passage, in characters.
        overlap: Characters repeated between neighbours.

    Returns:
        Each document that has a text, once, those of a unit together, and how many have none.

    Raises:
        CorpusError: A metadata field has an empty name.
    """
    units: dict[str, dict[bytes, CutDocument]] = {}
    empty = 0
    for document in documents:
        if "" in document.metadata:
            raise CorpusError("a document has a metadata field without a name; leave it out")
        text = storable(document.text)
        texts = split_text(text, size, overlap)
        empty += not texts
        if not texts:
            continue
        names = _former_names(document, former.get(document.unit, ()))
        of_unit = units.setdefault(document.unit, {})
        digest = _digest(document.unit, text)
        equal = of_unit[digest].places if digest in of_unit else ()
        of_unit[digest] = CutDocument(
            digest=digest,
            former=tuple(_digest(name, text) for name in names),
            unit=document.unit,
            record=document.origin.record,
            tie=digest_of(document) if is_tied(document) else "",
            fields=json.dumps(labels(document.metadata), ensure_ascii=False),
            texts=texts,
            places=(*equal, *filter(None, [document.origin.place])),
        )
    return [one for of_unit in units.values() for one in of_unit.values()], empty


def labels(metadata: Mapping[str, object]) -> dict[str, str]:
    """Fields of a document that a corpus keeps, for filters.

    What is long is content and no label: a table's text is a field too, and would be kept twice.

    Returns:
        Those of at most `LONGEST_FIELD` letters, in their order, until they are `MOST_FIELDS`.
    """
    kept, left = {}, MOST_FIELDS
    for key, value in metadata.items():
        name, text = storable(key), storable(str(value))
        if max(len(name), len(text)) <= LONGEST_FIELD and len(name) + len(text) <= left:
            kept[name] = text
            left -= len(name) + len(text)
    return kept


def named(document: Document) -> Document:
    """The document, its unit under the name that is stored."""
    unit = stored_unit(document.unit)
    return document if unit == document.unit else replace(document, unit=unit)


def stored_unit(unit: str) -> str:
    """The name under which a unit is stored: its own, or a hash if no database takes that.

    Broken mail has lone surrogates. Replacing them would make one unit of two, which then changes
    when one of them arrives.
    """
    try:
        unit.encode()
    except UnicodeEncodeError:
        return "sha256:" + hashlib.sha256(unit.encode("utf-8", "surrogatepass")).hexdigest()
    return unit


def storable(text: str) -> str:
    """The text as it is stored: without lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def split_text(text: str, size: int = 800, overlap: int = 80) -> list[str]:
    """Cut a text into passages of at most ``size`` characters.

    A passage ends at the last paragraph, line, sentence or word boundary (in that order of
    preference) in the second half of its room, and in the middle of a word only where there is no
    boundary at all. The next one starts up to ``overlap`` characters earlier, at a word, so that a
    fact which straddles a cut is whole in one of the two.

    800 characters of English are about 180 word pieces, within the 256 of the default embedding
    model with room for text that tokenizes badly.

    Args:
        text: Any text.
        size: Longest passage, in characters.
        overlap: Longest text repeated between neighbours, in characters; less than half of
            ``size``.

    Returns:
        Passages in order, stripped, none of them empty. A text of white space alone has none.

    Raises:
        ConfigurationError: A length is out of range.
    """
    if size < 1:
        raise ConfigurationError("size must be at least 1 character")
    if not 0 <= overlap < max(size / 2, 1):
        raise ConfigurationError("overlap must be at least 0 and less than half of size")
    text = text.strip()
    passages: list[str] = []
    start = reached = 0
    while len(text) - start > size:
        end = _cut(text, start, start + size)
        passage = text[start:end].rstrip()
        # Before a run of white space a cut can find no more than what the last passage ended with.
        if start + len(passage) > reached:
            passages.append(passage)
            reached = start + len(passage)
        start = _restart(text, end, overlap)
    if start < len(text):
        passages.append(text[start:])
    return passages


def _digest(unit: str, text: str) -> bytes:
    return hashlib.sha256(json.dumps([unit, text]).encode()).digest()


def _former_names(document: Document, names: Sequence[str]) -> Sequence[str]:
    """Under which other names of units the passages of a document may be stored."""
    origin = document.origin
    own = names_in(origin.former)
    # Of a corpus made anew: a row was under its own name, whatever became of that since. A message
    # is known by others' keys as well, and may have been under the name of any.
    if not own or len(own) < len(origin.former) or not set(own) <= set(names_in(origin.keys)):
        return names
    return [name for name in own if name != document.unit]


def _cut(text: str, start: int, limit: int) -> int:
    """The end of the passage that begins at ``start``: at most ``limit``."""
    middle = start + (limit - start + 1) // 2
    for boundary in _BOUNDARIES:
        found = boundary.finditer(text, middle, limit + _LOOK_AHEAD)
        ends = [match.start() for match in found if match.start() <= limit]
        if ends:
            return ends[-1]
    return limit


def _restart(text: str, end: int, overlap: int) -> int:
    """The start of the passage after ``end``: a word's start at most ``overlap`` before it."""
    word = re.compile(r"(?<=\s)\S").search(text, end - overlap, end) if overlap else None
    start = word.start() if word else end
    while start < len(text) and text[start].isspace():
        start += 1
    return start
