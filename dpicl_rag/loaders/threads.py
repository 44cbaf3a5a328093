"""Threads: which messages are one conversation, and so one privacy unit.

People quote each other, so a secret of one message stands in the answers to it. Only the whole
conversation can be protected as one.

Thread resolution *defines* the privacy units: the guarantee is about adding or removing a whole
thread as resolved here. That is sound because threads are the connected components of a graph
over the messages: taking a whole component away leaves every other component, and its name, as
it was. No unit depends on another.

Messages are connected by

1. the ids in Message-ID, In-Reply-To and References; two messages that refer to a third which is
   not in the mailbox are connected through its id;
2. an equal subject, once reply and forward marks, list tags and case are taken off. A subject that
   says nothing connects nothing.

Messages that come in a later load are connected by the same keys: they go into a corpus with their
documents (`thread_keys`), and the corpus joins what they tie together.

Both err towards joining. Two conversations in one unit cost some utility; one conversation in two
units would break the promise for what is said in both.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from dpicl_rag.identity import Components
from dpicl_rag.loaders.records import ThreadKeys
from dpicl_rag.loaders.subjects import normalise


def thread_keys(message: ThreadKeys) -> tuple[str, ...]:
    """What ties a message to others: its id, the ids that it refers to, and its subject."""
    ids = (message.message_id, *message.references)
    subject = normalise(message.subject)
    return (*(f"id {one}" for one in ids), *([f"subject {subject}"] if subject else []))


def thread_ids(messages: Sequence[ThreadKeys]) -> list[str]:
    """The thread of each message.

    Args:
        messages: All messages of a source, in any order.

    Returns:
        One identifier per message. It is a hash of the root id of the thread's earliest message:
        the first id it refers to, else its own. So it depends neither on the order of messages
        nor on other threads, and answers that arrive later keep it.
    """
    components = Components()
    for message in messages:
        own, *others = thread_keys(message)
        components.find(own)
        for other in others:
            components.join(own, other)
    roots = [components.find(f"id {message.message_id}") for message in messages]
    earliest: dict[str, tuple[float, str]] = {}
    for root, message in zip(roots, messages, strict=True):
        when = math.inf if message.timestamp is None else message.timestamp
        first = message.references[0] if message.references else message.message_id
        earliest[root] = min(earliest.get(root, (when, first)), (when, first))
    return [
        hashlib.sha256(earliest[root][1].encode("utf-8", "replace")).hexdigest()[:32]
        for root in roots
    ]
