"""A probe of what the proof assumes of a reader: a reply depends on its own call alone."""

from __future__ import annotations

import random
from collections import defaultdict

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.concurrent_reader import ConcurrentReader
from dpicl_rag.language_models.readers.notes import Passages, notes

CALLS = 64
"""Calls of a probe, by default."""

FEWEST = 32
"""Calls of a probe, at least."""

_ROUNDS = 4
_QUESTION = "What is the code of the room?"
_ALONE = "The code of the room is 4071."
_MORE = "The key hangs beside the door, and the porter has another one."


def independent(reader: Reader, *, calls: int = CALLS, on_progress: Progress | None = None) -> bool:
    """Whether a reader was seen to give the same notes in all company, of public documents.

    Four times, a made-up document is read alone, and then among others of other lengths, which
    answer the question differently, in another order each time. Every document must have the same
    note each time. The calls of a company run together as those of an answer do, as many at once as
    the reader makes.

    Equal notes are evidence and no proof: a provider may move a reply rarely, under another load,
    or only where documents look otherwise. Notes that differ say that a reply follows from other
    calls (a batch, a history), or that the reader draws its replies; ask at temperature 0.

    No answer asks for this: it costs as many calls as are named here, and one where the reader is
    new.

    Args:
        reader: What is tried; see `as_reader`.
        calls: Calls in all, at most; 32 or more.
        on_progress: Called with the rounds that are done, and how many there are.

    Raises:
        ConfigurationError: Fewer calls.
        EngineUnavailableError: The provider does not answer.
        ModelError: It refuses whoever asks, or the reader says nothing of such a document; then
            there is nothing to compare.
    """
    if calls < FEWEST:
        raise ConfigurationError(f"a probe takes {FEWEST} calls or more")
    if isinstance(reader, ConcurrentReader):
        reader = reader.with_cache(None)  # every call is made
    read = notes(reader, _QUESTION)
    company = [_ALONE, *map(_other, range(calls // _ROUNDS - 2))]
    order = random.Random(0)  # noqa: S311 - public
    found: dict[str, set[Passages]] = defaultdict(set)
    for done in range(_ROUNDS):
        for texts in ([_ALONE], order.sample(company, len(company))):
            for text, note in zip(texts, read([(text,) for text in texts], None), strict=True):
                found[text].add(note)
        if on_progress is not None:
            on_progress(done + 1, _ROUNDS)
    if found[_ALONE] == {()}:
        raise ModelError(
            "the reader says nothing of a document that answers the question; try another model"
        )
    return all(len(said) == 1 for said in found.values())


def _other(number: int) -> str:
    """A document with a code of its own, of up to some hundred words."""
    return " ".join([f"The code of the room is {5000 + number}.", *[_MORE] * (number % 16)])
