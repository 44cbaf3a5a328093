"""Mail on a server, followed: a corpus is brought up to date with the folders of an account.

A message is known at its place (folder, UIDVALIDITY, UID). At a new place its headers are read
first: one of the same headers and size is the same message, moved, copied, or in a folder that was
numbered anew, and is not read again. Its sender chose all of them, so that holds only where they
give the unit, which is so of threads. The others are read in batches, known by their texts and
units, and noted with their documents. A message that stands nowhere any more is deleted last.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dpicl_rag._unobserved import Private
from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.adding import Ingested
from dpicl_rag.corpora.holdings import Held, Holding
from dpicl_rag.documents import Document
from dpicl_rag.files.tables import pages
from dpicl_rag.following.mail_account import Header, MailAccount, MailSession
from dpicl_rag.following.outcome import Brought, delete_gone, most_is_gone
from dpicl_rag.language_models.base import Progress
from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import fingerprint
from dpicl_rag.loaders.loader import load_mails
from dpicl_rag.loaders.mail import message_id, parse_mail
from dpicl_rag.loaders.records import MAX_RECORD_BYTES, Skipped, UnreadableError
from dpicl_rag.loaders.shared_keys import Joins, standing_name
from dpicl_rag.loaders.threads import thread_keys, thread_offers

Add = Callable[[Sequence[Document], Held], Ingested]
"""Adds documents to the corpus, with what was found at their places."""

BATCH = 500
"""Messages that are read together, as far as no conversation is longer."""
BATCH_BYTES = 64 * 2**20

_HEADERS = 500  # whose headers are read together


@dataclass(frozen=True, slots=True, repr=False)
class _Place:
    """The place of a message in an account. Private."""

    folder: str
    validity: int
    uid: int

    def holding(self, account: MailAccount, known_by: str = "", document: str = "") -> Holding:
        folder = fingerprint(self.folder.encode())[:16]
        id = f"{account.id} {folder} {self.validity} {self.uid}"
        return Holding(id, account.id, self.folder, known_by, document)

    @property
    def position(self) -> str:
        return f"{self.folder}, message {self.uid}"


class MailGroups(Private):
    """Messages and the keys that tie them, by their headers; 16 bytes for each key. Private.

    A mailbox is read in batches, and each batch is added to the corpus by itself. A batch that cut
    a conversation would make several units of it, which later ones would have to join. So batches
    are cut between conversations, as far as these are not larger than a batch may be.
    """

    def __init__(self) -> None:
        self._count = 0
        self._keys: tuple[array[int], array[int]] = array("q"), array("q")
        self._offers: tuple[array[int], array[int]] = array("q"), array("q")

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
        groups: dict[int, list[int]] = {}
        for message, label in enumerate(labels[: self._count].tolist()):
            groups.setdefault(label, []).append(message)
        yield from groups.values()


@dataclass(frozen=True, slots=True, repr=False)
class _Unread:
    """A message that is to be read. Private."""

    place: _Place
    known_by: str
    size: int


@dataclass(frozen=True, slots=True, repr=False)
class _NewPlaces:
    """Messages at places that are new: known ones, unread ones, and their further places. Private.

    A message is unread once, at its first place.
    """

    moved: list[Holding] = field(default_factory=list)
    unread: list[_Unread] = field(default_factory=list)
    mail_groups: MailGroups = field(default_factory=MailGroups)
    others: list[tuple[_Place, str]] = field(default_factory=list)


def bring_mail(
    target: Corpus,
    session: MailSession,
    add: Add,
    *,
    joins: Joins = "ask",
    deletions: bool = False,
    before_deleting: Callable[[set[str]], None] = lambda units: None,
    on_headers: Progress = lambda done, total: None,
    on_progress: Progress = lambda done, total: None,
) -> Brought:
    """Bring a corpus up to date with the folders of an account, and follow them from now on.

    Whatever instant it is killed at, to run it again goes on: what was read is in the corpus, and
    what is not there is read again.

    Args:
        target: The corpus.
        session: With its server. Folders that it does not name are read too, if they are followed.
        add: Adds a batch.
        joins: As for ``load``.
        deletions: That more than half of the mail may be gone.
        before_deleting: Called before anything is deleted, with the units that lose something.
        on_headers: Called with (messages looked at, messages at new places).
        on_progress: Called with (messages read, messages to be read).

    Raises:
        LoaderError: The server cannot be reached or read.
        MostGoneError: More than half of the mail is gone. What is new was added, and nothing
            deleted.
        CorpusError: See `Corpus.add`.
    """
    account = session.account
    for source in target.followed.sources():
        if source.id == account.id:
            before = MailAccount.of(source)
            folders = before.with_folders(account.folders)
            account = replace(folders, unit=account.unit or before.unit)
    return _Bringing(target, account, session, add, joins).run(
        deletions, before_deleting, on_headers, on_progress
    )


class _Bringing:
    def __init__(
        self, target: Corpus, account: MailAccount, session: MailSession, add: Add, joins: Joins
    ) -> None:
        self._followed = target.followed
        self._account = account
        self._session = session
        self._add = add
        self._joins = joins

    def run(
        self,
        deletions: bool,
        before_deleting: Callable[[set[str]], None],
        on_headers: Progress,
        on_progress: Progress,
    ) -> Brought:
        held = {one.id: one for one in self._followed.held(self._account.id)}
        # Of all folders before any message: one that was moved is at its new place, and not gone.
        new = {}
        gone = dict(held)
        count = 0
        for folder in self._account.folders:
            listing = self._session.listing(folder)
            count += len(listing.uids)
            for uid in listing.uids:
                place = _Place(folder, listing.validity, uid)
                id = place.holding(self._account).id
                if gone.pop(id, None) is None:
                    new[id] = place
        known = {one.known_by: one.document for one in held.values() if one.known_by}
        places = self._looked_at(list(new.values()), known, on_headers)
        whose = self._followed.whose(self._account.id) if gone else {}
        for page in pages(places.moved, BATCH):
            self._followed.note(page)
        added, skipped = self._read(places, known, on_progress)
        self._note_others(places.others)
        there = self._followed.held(self._account.id)
        left = {one.document for one in there if one.id not in gone}
        deleted = delete_gone(
            self._followed,
            self._account.id,
            self._account.name,
            gone,
            most=most_is_gone(whose, left),
            allowed=deletions,
            before_deleting=before_deleting,
        )
        return Brought(
            self._account.name,
            there=count,
            read=len(places.unread),
            known=count - len(places.unread),
            skipped=skipped,
            passages=sum(one.passages for one in added),
            deleted=deleted,
            joins=tuple(join for one in added for join in one.joins),
            withheld=tuple(join for one in added for join in one.withheld),
        )

    def _looked_at(
        self, places: Sequence[_Place], known: Mapping[str, str], on_headers: Progress
    ) -> _NewPlaces:
        """Messages at new places, told apart by their headers."""
        new = _NewPlaces()
        coming: set[str] = set()
        done = 0
        for (folder, validity), those in _by_folder(places):
            for page in pages(those, _HEADERS):
                headers = self._session.headers(folder, validity, [one.uid for one in page])
                for place in page:
                    header = headers.get(place.uid)
                    if header is None:
                        continue  # gone since it was listed
                    known_by = self._known_by(header)
                    if known_by in known:
                        new.moved.append(place.holding(self._account, known_by, known[known_by]))
                    elif known_by in coming:
                        new.others.append((place, known_by))
                    else:
                        coming.update([known_by] if known_by else [])
                        new.unread.append(_Unread(place, known_by, header.size))
                        new.mail_groups.add(header.raw)
                done += len(page)
                on_headers(done, len(places))
        return new

    def _known_by(self, header: Header) -> str:
        """A name of a message at whatever place, unread; empty where its headers do not tell.

        Messages of one id are of one thread, so that none stands for another unit's.
        """
        if self._account.unit not in (None, "thread") or not message_id(header.raw):
            return ""
        return fingerprint(json.dumps([header.raw.decode("latin-1"), header.size]))

    def _read(
        self, new: _NewPlaces, known: Mapping[str, str], on_progress: Progress
    ) -> tuple[list[Ingested], list[Skipped]]:
        added: list[Ingested] = []
        skipped: list[Skipped] = []
        done, total = 0, len(new.unread)
        sizes = [message.size for message in new.unread]
        groups = new.mail_groups.groups()
        # Adding nothing once more: the account is followed also where it has no mail yet.
        for batch in batches(groups, sizes, BATCH, BATCH_BYTES) if total else [[]]:
            messages = [new.unread[number] for number in batch]
            raw = self._bodies(messages)
            there = [message for message in messages if message.place in raw]
            documents: list[Document] = []
            holdings: list[Holding] = []
            entries, unread_parts = load_mails(
                [(message.place.position, raw[message.place]) for message in there],
                self._account.unit,
                self._joins,
            )
            skipped.extend(unread_parts)
            for message, entry in zip(there, entries, strict=True):
                known_by = message.known_by
                if isinstance(entry, Document) and not known_by:
                    known_by = standing_name(entry)
                holding = message.place.holding(self._account, known_by, known.get(known_by, ""))
                if isinstance(entry, Skipped):
                    skipped.append(entry)
                if not (isinstance(entry, Skipped) and entry.reason == reasons.TIES_MANY):
                    holdings.append(holding)  # what is withheld is read again
                # What the owner had forgotten stays out.
                if isinstance(entry, Document) and known_by not in known:
                    origin = replace(entry.origin, place=holding.id)
                    documents.append(replace(entry, origin=origin))
            for message in messages:
                if message.size > MAX_RECORD_BYTES:
                    holdings.append(message.place.holding(self._account, message.known_by))
                    skipped.append(Skipped(message.place.position, reasons.TOO_LARGE))
            added.append(self._add(documents, Held(self._account.source, holdings)))
            done += len(batch)
            if total:
                on_progress(done, total)
        return added, skipped

    def _bodies(self, messages: Iterable[_Unread]) -> dict[_Place, bytes]:
        """Whole messages by their places, but for those that are too large to be read."""
        bodies = {}
        small = sorted(
            (message.place for message in messages if message.size <= MAX_RECORD_BYTES),
            key=lambda place: (place.folder, place.uid),
        )
        for (folder, validity), places in _by_folder(small):
            raw = self._session.messages(folder, validity, [place.uid for place in places])
            bodies.update({place: raw[place.uid] for place in places if place.uid in raw})
        return bodies

    def _note_others(self, others: Sequence[tuple[_Place, str]]) -> None:
        """Note further places of messages that were read meanwhile."""
        if others:
            held = self._followed.held(self._account.id)
            known = {one.known_by: one.document for one in held if one.known_by}
            self._followed.note(
                place.holding(self._account, known_by, known[known_by])
                for place, known_by in others
                if known_by in known
            )


def _by_folder(places: Iterable[_Place]) -> Iterator[tuple[tuple[str, int], list[_Place]]]:
    folders: dict[tuple[str, int], list[_Place]] = {}
    for place in places:
        folders.setdefault((place.folder, place.validity), []).append(place)
    yield from folders.items()


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
