"""Counts over a reader that draws its replies, without one hostile unit and with it.

Whatever that unit's prompts do to a provider, and whatever of others it has copied, when it comes
and when it goes: each of the others has the same reply in every count.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Callable
from unittest import mock

from dpicl_rag.language_models.readers import concurrent_reader
from dpicl_rag.language_models.readers.concurrent_reader import PUBLIC_PROMPT, ConcurrentReader
from dpicl_rag.language_models.readers.reply_cache import ReplyCache
from tests.support.swift_clock import SwiftClock

HOSTILE = "hostile"
EPOCH = 100.0
COUNTS = 4


class Refused(Exception):
    """An error of a client that carries a status."""

    def __init__(self, status: int) -> None:
        self.status_code = status


def _fail(status: int) -> Callable[[int], object]:
    def call(tries: int) -> object:
        raise Refused(status)

    return call


def _fail_a_while(tries: int) -> object:
    if tries < 4:
        raise ConnectionResetError
    return "at last"


def _leave(tries: int) -> object:
    raise SystemExit


KINDS: dict[str, Callable[[int], object] | None] = {
    **{f"HTTP {status}": _fail(status) for status in (400, 403, 408, 425, 429, 500, 503)},
    "fails a while": _fail_a_while,
    "ends its thread": _leave,
    "without end": lambda tries: "all numbers " * 10_000,
    "no text": lambda tries: b"bytes",
    "nothing": lambda tries: "",
    "copies of others": None,
}
"""What its prompts do, by how often each was asked before; copies do as those of others."""


def differences(seed: int, kind: str) -> list[str]:
    """What a hostile unit changed of the others, in a history made up from a number."""
    coins = random.Random(seed)
    texts = [f"text {n}" for n in range(4)]  # some units say the same
    units = {f"unit {n}": coins.sample(texts, coins.randint(1, 2)) for n in range(5)}
    comes = {unit: coins.randrange(COUNTS - 1) for unit in units}
    own = [f"{HOSTILE} {n}" for n in range(3)]
    leaves = coins.randint(1, COUNTS)
    arrives = coins.randrange(leaves)
    epochs = sorted(coins.randrange(COUNTS) for _ in range(COUNTS))
    if KINDS[kind] is None:
        # What nobody else has when it goes is forgotten: who says it later has another draw.
        held = {text for unit, those in units.items() if comes[unit] < leaves for text in those}
        own = sorted(held)
    first = coins.random() < 0.5
    concurrency = coins.choice([1, 2, 8])

    def history(*, together: bool) -> list[dict[str, list[str]]]:
        asked: Counter[tuple[str, int]] = Counter()
        lock, epoch = threading.Lock(), 0

        def call(prompt: str) -> object:
            if prompt == PUBLIC_PROMPT:
                return "OK"
            with lock:
                tries = asked[prompt, epoch]
                asked[prompt, epoch] += 1
            does = KINDS[kind]
            if does is not None and prompt.startswith(HOSTILE):
                return does(tries)
            # A draw of its own each time that it is asked.
            return hashlib.sha256(f"{prompt}, {epoch}, {tries}".encode()).hexdigest()[:8]

        cache = ReplyCache(EPOCH)
        reader = ConcurrentReader(call, "made up", concurrency=concurrency, backoff=1e-6)
        reader = reader.with_cache(cache)
        seen = []
        for count, epoch in enumerate(epochs):
            now = EPOCH * epoch + count
            there = {unit: those for unit, those in units.items() if comes[unit] <= count}
            if together and arrives <= count < leaves:
                there = {HOSTILE: own, **there} if first else {**there, HOSTILE: own}
            elif together and count == leaves:
                cache.keep_only(there)
            pairs = [(unit, text) for unit, those in there.items() for text in those]
            with mock.patch.object(SwiftClock, "time", staticmethod(lambda now=now: now)):
                found = reader.replies([text for _, text in pairs], None, [u for u, _ in pairs])
            replies: dict[str, list[str]] = {}
            for (unit, _), reply in zip(pairs, found, strict=True):
                replies.setdefault(unit, []).append(reply)
            seen.append({unit: replies[unit] for unit in there if unit != HOSTILE})
        return seen

    with mock.patch.object(concurrent_reader, "time", SwiftClock()):
        without, with_it = history(together=False), history(together=True)
    return [
        f"{kind}: in count {at} {one} became {other}"
        for at, (one, other) in enumerate(zip(without, with_it, strict=True))
        if one != other
    ]
