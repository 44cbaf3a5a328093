"""Threads of messages: one conversation is one privacy unit.

People quote each other, so a secret of one message stands in the answers to it. Only the whole
conversation can be protected as one.

Thread resolution *defines* the privacy units: the guarantee is about adding or removing a whole
thread as resolved here. That is sound because whether two messages are connected follows from
these two alone, and threads are the connected components of that relation: taking a whole component
away leaves every other component, and its name, as it was. No unit depends on another.

Messages are connected by

1. the ids in Message-ID, In-Reply-To and References; two messages that refer to a third which is
   not in the mailbox are connected through its id;
2. an equal subject, once marks of replies and forwards, list tags, labels and case are taken off,
   if at least one of the two has such a mark, they were written within `PERIOD`, and the sender and
   a recipient of the one are, in either order, the sender and a recipient of the other. A mail to
   nobody is one to oneself. A subject that says nothing connects nothing.

So a subject by itself ties nothing: who writes "Re: Salary" to somebody is tied to no mail but
those between these two.

Messages that come in a later load are connected by the same keys: they go into a corpus with their
documents (`thread_keys`, `thread_offers`), and the corpus joins what they tie together.

A message that would make more than `MOST_UNITS` conversations one is withheld (`tying_many`), and
the others are as if it were not there: who has collected ids could else make one unit of a mailbox.

Both rules err towards joining. Two conversations in one unit cost some utility; one conversation in
two units would break the promise for what is said in both.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from dpicl_rag.loaders.characters import fingerprint
from dpicl_rag.loaders.records import ThreadKeys
from dpicl_rag.loaders.shared_keys import MOST_UNITS, Components, connect
from dpicl_rag.normal_forms import normal_form

PERIOD = 90 * 24 * 3600
"""Seconds within which an equal subject connects; beyond twice as many it does not."""
MOST_IDS = 100
"""Of the ids that a message refers to, so many connect it: half of them first, half last."""
MOST_RECIPIENTS = 30
"""Of those whom a message is to, so many connect it: the first."""

_LONGEST_ID = 200

# "Re:" and its like in the languages of common mail programs, also "Re[2]:" and "RE (3) :".
_REPLY = (
    r"re|r|aw|antw|antwort|sv|vs|ref|rif|res|odp|ynt|atb|回复|答复|返信|답장|"
    r"auto(?:matic)?[ -]?reply|automatische antwort|réponse automatique|respuesta automática|"
    r"risposta automatica|automatisch antwoord|自动答复|自動回覆|自動応答"
)
_FORWARD = r"fw|fwd|wg|tr|rv|enc|i|doorst|vb|vl|pd|weitergeleitet|转发|転送|전달"
_LABEL = r"external(?: e-?mail)?|extern[ea]?|ext"  # of gateways: it says where a mail came from
_COUNT = r" ?(?:\[\d+\]|\(\d+\))? ?[:：] ?"
_MARK = re.compile(
    rf"(?:(?P<reply>{_REPLY})|(?P<forward>{_FORWARD})|(?:{_LABEL})){_COUNT}"
    rf"|[({{<*]{{1,3}} ?(?:{_LABEL}) ?[)}}>*]{{1,3}} ?[:：]? ?"
    r"|\[[^\]]{1,40}\] ?[:：]? ?"
)
_SUFFIX = re.compile(r" ?\((?:fwd|fw|wg)\)$")
# Subjects that mail programs fill in when the writer gave none.
_NO_SUBJECT = (
    *("no subject", "(no subject)", "<no subject>", "none", "(none)"),
    *("kein betreff", "(kein betreff)"),
)
# A subject longer than this is compared by its beginning, as mail programs cut it too.
_LONGEST_SUBJECT = 500


def thread_keys(message: ThreadKeys) -> tuple[str, ...]:
    """Keys that tie a message to others, its own id first."""
    return (*_id_keys(message), *(_subject_keys(message) if is_marked(message.subject) else ()))


def thread_offers(message: ThreadKeys) -> tuple[str, ...]:
    """Keys that tie a message to its answers and forwards; see ``Origin.offers``."""
    return () if is_marked(message.subject) else _subject_keys(message)


def tying_many(messages: Sequence[ThreadKeys]) -> set[int]:
    """Places of messages that would make more than `MOST_UNITS` conversations one.

    A message is looked at after all that it refers to, and else after those that have fewer keys.
    So a conversation grows by one message after the other, and who ties several is the one who
    refers to them. What two people write under one subject counts as one conversation.
    """
    tying: set[int] = set()
    growing = _Conversations()
    for place, keys, offers in _in_order(messages):
        if not growing.add(keys, offers):
            tying.add(place)
    return tying


class _Conversations:
    """Conversations that messages have made, and of how many others each was made."""

    def __init__(self) -> None:
        self._components = Components()
        self._sizes: dict[str, int] = {}
        self._claimed: set[str] = set()
        self._offering: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, keys: Sequence[str], offers: Sequence[str]) -> bool:
        """Let a message join what it ties, unless that is too much; whether it did."""
        find = self._components.find
        ties = [{find(key)} for key in (*keys, *offers) if key in self._claimed]
        ties += [set(map(find, self._offering[key])) for key in keys if key in self._offering]
        groups = Components()  # conversations that one key ties count once
        for tied in ties:
            for root in tied:
                groups.join(min(tied), root)
        sizes: dict[str, int] = {}
        roots = set[str]().union(*ties)
        for root in roots:
            group = groups.find(root)
            sizes[group] = max(sizes.get(group, 1), self._sizes[root])
        size = sum(sizes.values())
        if len(sizes) > 1 and size > MOST_UNITS:
            return False
        for root in (*keys, *roots):
            self._components.join(keys[0], root)
        self._sizes[find(keys[0])] = max(size, 1)
        self._claimed.update(keys)
        for key in keys:
            self._offering.pop(key, None)
        for key in offers:
            if key not in self._claimed:
                self._offering[key].append(keys[0])
        return True


def _in_order(
    messages: Sequence[ThreadKeys],
) -> Iterator[tuple[int, tuple[str, ...], tuple[str, ...]]]:
    """Each message by its place with its keys and offers, after those that it refers to.

    Of those that refer to each other in a ring, the one with the fewest keys is first.
    """
    ties = [(thread_keys(message), thread_offers(message)) for message in messages]
    ranks = sorted(range(len(ties)), key=lambda place: (len(ties[place][0]), ties[place]))
    # By key, how many are known by it or offer it and did not come yet.
    missing = Counter(key for keys, offers in ties for key in (keys[0], *offers))
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    awaited = []
    for rank, place in enumerate(ranks):
        wanted = [key for key in ties[place][0][1:] if missing[key]]
        awaited.append(len(wanted))
        for key in wanted:
            waiting[key].append(rank)
    ready = [rank for rank, count in enumerate(awaited) if not count]
    came = bytearray(len(ranks))
    first = 0
    while first < len(ranks):
        rank = heappop(ready) if ready else first
        first += came[first]
        if came[rank]:
            continue
        came[rank] = True
        keys, offers = ties[ranks[rank]]
        yield ranks[rank], keys, offers
        for key in (keys[0], *offers):
            missing[key] -= 1
            for one in waiting.pop(key) if not missing[key] and key in waiting else ():
                awaited[one] -= 1
                if not awaited[one]:
                    heappush(ready, one)


def thread_ids(messages: Sequence[ThreadKeys]) -> list[str]:
    """The thread of each message.

    Returns:
        One identifier per message. It is a hash of the root id of the thread's earliest message:
        the first id it refers to, else its own. So it depends neither on the order of messages
        nor on other threads, and answers that arrive later keep it.
    """
    components = Components()
    names = [_id_key(message.message_id) for message in messages]
    connect(
        components,
        (
            (name, thread_keys(message), thread_offers(message))
            for name, message in zip(names, messages, strict=True)
        ),
    )
    roots = [components.find(name) for name in names]
    earliest: dict[str, tuple[float, str, str]] = {}
    for root, message in zip(roots, messages, strict=True):
        alone = thread_alone(message)
        earliest[root] = min(earliest.get(root, alone), alone)
    return [earliest[root][2] for root in roots]


def thread_alone(message: ThreadKeys) -> tuple[float, str, str]:
    """The time of a message, the first id of its thread, and the thread that it would be alone."""
    when = math.inf if message.timestamp is None else message.timestamp
    first = message.references[0] if message.references else message.message_id
    return when, first, fingerprint(first)


def subject_ties(messages: Sequence[ThreadKeys]) -> list[tuple[int, int]]:
    """Places of messages that are in one thread by their subjects alone, as few as connect it."""
    components = Components()
    names = [_id_key(message.message_id) for message in messages]
    connect(
        components,
        ((name, _id_keys(one), ()) for name, one in zip(names, messages, strict=True)),
    )
    keys = [_subject_keys(message) for message in messages]
    claimed = {
        key
        for message, those in zip(messages, keys, strict=True)
        if is_marked(message.subject)
        for key in those
    }
    holders: dict[str, int] = {}
    ties: list[tuple[int, int]] = []
    for place, those in enumerate(keys):
        for key in those:
            holder = holders.setdefault(key, place) if key in claimed else place
            if components.find(names[holder]) != components.find(names[place]):
                components.join(names[holder], names[place])
                ties.append((holder, place))
    return ties


def _id_keys(message: ThreadKeys) -> tuple[str, ...]:
    referred = message.references
    if len(referred) > MOST_IDS:
        referred = (*referred[: MOST_IDS // 2], *referred[-MOST_IDS // 2 :])
    return tuple(dict.fromkeys(map(_id_key, (message.message_id, *referred))))


def _id_key(one: str) -> str:
    is_plain = len(one) <= _LONGEST_ID and one.isascii()
    return f"id {one if is_plain else fingerprint(one)}"


def _subject_keys(message: ThreadKeys) -> tuple[str, ...]:
    """A key for each pair of people and each of two periods: any two that are near share one."""
    subject = normalise(message.subject)
    if not subject or not message.sender or message.timestamp is None:
        return ()
    people = list(dict.fromkeys(message.recipients))[:MOST_RECIPIENTS] or [message.sender]
    period = math.floor(message.timestamp / PERIOD)
    return tuple(
        "subject " + fingerprint("\n".join((subject, *sorted((message.sender, other)), str(when))))
        for other in people
        for when in (period, period + 1)
    )


def normalise(subject: str) -> str:
    """A subject without reply and forward marks, list tags, labels, case and extra blanks.

    Empty for a subject that says nothing, so that such messages are not taken for one thread.
    """
    rest, _ = _unmarked(subject)
    return "" if rest in _NO_SUBJECT else rest


def is_reply(subject: str) -> bool:
    """Test for a subject whose outermost mark is that of a reply."""
    return _unmarked(subject)[1][:1] == ["reply"]


def is_forward(subject: str) -> bool:
    """Test for a subject whose outermost mark is that of a forward."""
    return _unmarked(subject)[1][:1] == ["forward"]


def is_marked(subject: str) -> bool:
    """Test for a subject which says that its mail answers or forwards another."""
    return bool(_unmarked(subject)[1])


def _unmarked(subject: str) -> tuple[str, list[str]]:
    """A subject without what was put before it, and the marks that were, the outermost first."""
    rest = " ".join(normal_form("NFC", subject[:_LONGEST_SUBJECT]).split()).casefold()
    marks: list[str] = []
    while True:
        if found := _MARK.match(rest):
            marks += [found.lastgroup] if found.lastgroup else []
            rest = rest[found.end() :].strip()
        elif found := _SUFFIX.search(rest):
            marks.append("forward")
            rest = rest[: found.start()].strip()
        else:
            return rest, marks
