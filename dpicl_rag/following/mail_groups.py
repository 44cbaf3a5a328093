"""Which messages belong together, by their headers, before any is read.

A mailbox is read in batches, and each batch is added to the corpus by itself. A batch that cut a
conversation would make several units of it, which later ones would have to join. So batches are cut
between conversations, as far as these are not larger than a batch may be.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dpicl_rag.loaders.mail import parse_mail
from dpicl_rag.loaders.records import UnreadableError
from dpicl_rag.loaders.threads import thread_keys, thread_offers


class MailGroups:
    """Messages and the keys that tie them; 16 bytes for each key of each. Private."""

    def __init__(self) -> None:
        self._count = 0
        self._keys: tuple[array[int], array[int]] = array("q"), array("q")
        self._offers: tuple[array[int], array[int]] = array("q"), array("q")

    def __repr__(self) -> str:
        return "MailGroups(<private>)"

    def add(self, header: bytes) -> None:
        """Note a message by its headers."""
        # It may have headers that were not asked for, and has a text. The number tells messages
        # without a Message-ID apart.
        whole = b"Return-Path: %d\r\n%b\r\n\r\n." % (self._count, header.strip())
        with suppress(UnreadableError):
            thread = parse_mail(whole, None).thread
            _note(self._keys, self._count, thread_keys(thread))
            _note(self._offers, self._count, thread_offers(thread))
        self._count += 1

    def groups(self) -> Iterator[list[int]]:
        """Numbers of messages that belong together, in the order of the first of each."""
        if not self._count:
            return
        messages, keys = map(np.array, self._keys)
        offering, offers = map(np.array, self._offers)
        claimed = np.isin(offers, keys)
        names, places = np.unique(np.concatenate([keys, offers[claimed]]), return_inverse=True)
        size = self._count + len(names)
        rows = np.concatenate([messages, offering[claimed]])
        ties = coo_array((np.ones(len(rows), bool), (rows, self._count + places)), (size, size))
        _, labels = connected_components(ties, directed=False)
        found: dict[int, list[int]] = {}
        for message, label in enumerate(labels[: self._count].tolist()):
            found.setdefault(label, []).append(message)
        yield from found.values()


def batches(
    groups: Iterable[Sequence[int]], sizes: Sequence[int], messages: int, most: int
) -> Iterator[list[int]]:
    """Batches of whole groups; a group beyond the limit of bytes is cut.

    Args:
        groups: Numbers of messages.
        sizes: Bytes of each message.
        messages: How many of them a batch of several groups may have.
        most: How many bytes.
    """
    batch: list[int] = []
    weight = 0
    for group in groups:
        total = sum(sizes[one] for one in group)
        if batch and (len(batch) + len(group) > messages or weight + total > most):
            yield batch
            batch, weight = [], 0
        for one in group:
            if batch and weight + sizes[one] > most:
                yield batch
                batch, weight = [], 0
            batch.append(one)
            weight += sizes[one]
    if batch:
        yield batch


def _note(ties: tuple[array[int], array[int]], message: int, keys: Sequence[str]) -> None:
    # Two keys of one hash would only be read in one batch.
    ties[0].extend([message] * len(keys))
    ties[1].extend(map(hash, keys))
