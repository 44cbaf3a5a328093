"""Cutting long texts into passages that an embedding model reads whole."""

from __future__ import annotations

import re

from dpicl_rag.errors import ConfigurationError

# From the most to the least welcome place to cut: after a paragraph, a line, a sentence, a word.
_BOUNDARIES = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…])\s|(?<=[.!?…][\"'”’)\]])\s|(?<=[。！？])"),
    re.compile(r"\s"),
)
_LOOK_AHEAD = 8  # a paragraph's end may begin within the limit and be complete only after it


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
