"""Ingests of mail that are killed at random instants, while the mailbox goes on to change."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.following.followed_mail import BATCH
from dpicl_rag.ledger import Ledger
from dpicl_rag.loaders.loader import load_mails
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.dovecot import PASSWORD, Dovecot, mail

pytestmark = pytest.mark.stress

KILLS = int(os.environ.get("DPICL_RAG_KILLS", "50"))
MAILS, CHAIN = 5000, 5
SPENT = 0.25

COMMAND = """
from dpicl_rag.cli import data_folder, main
from dpicl_rag.following.mail_account import MailSession
from tests.support.bucket_embedder import BucketEmbedder

def listing(self, folder, listing=MailSession.listing):
    if folder == "INBOX":
        print("go", flush=True)
    return listing(self, folder)

MailSession.listing = listing
data_folder.load_embedder = lambda name, device=None: BucketEmbedder()
main()
"""


class Owner:
    """Who reads a mailbox into a corpus, and what should be there."""

    def __init__(self, server: Dovecot, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.ledger = folder / "ledger.sqlite"
        self.there: set[int] = set()

    def start(self) -> subprocess.Popen[str]:
        words = ["ingest", self.server.address("INBOX", "Archive"), "--corpus", "mail", "--json"]
        words += ["--path", str(self.folder / "corpora"), "--ledger", str(self.ledger)]
        words += ["--ca-file", str(self.server.certificate)]
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "DPICL_RAG_IMAP_PASSWORD": PASSWORD},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        return process

    def killed(self, after: float) -> bool:
        """Start it and kill it; whether it had come to its end before."""
        process = self.start()
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return process.returncode == 0

    def brought(self) -> dict[str, Any]:
        """Let it run to its end."""
        out, _ = self.start().communicate(timeout=300)
        (source,) = json.loads(out)["sources"]
        return source

    def corpus(self) -> Corpus:
        return Corpus.open("mail", self.folder / "corpora", embedder=BucketEmbedder())

    def units(self) -> dict[str, set[str]]:
        """Texts of each unit; each text is there once."""
        corpus = self.corpus()
        found: dict[str, set[str]] = {}
        records = corpus.records()
        for record in records:
            found.setdefault(record.unit, set()).add(record.text)
        assert sum(map(len, found.values())) == len(records)
        corpus.close()
        return found

    def held(self) -> set[bytes]:
        """Message-IDs of all that is in the corpus."""
        corpus = self.corpus()
        found = {record.metadata["message_id"].encode() for record in corpus.records()}
        corpus.close()
        return found

    def check(self) -> None:
        """The corpus equals the mailbox."""
        wanted: dict[int, set[str]] = {}
        for number in self.there:
            wanted.setdefault(number // CHAIN, set()).add(text_of(number))
        assert sorted(map(sorted, self.units().values())) == sorted(map(sorted, wanted.values()))


def message(number: int) -> bytes:
    return mail(number, answers=number - 1 if number % CHAIN else None)


def text_of(number: int) -> str:
    ((document,), _) = load_mails([("", message(number))])
    return document.text  # type: ignore[union-attr]


def change(server: Dovecot, coins: random.Random, owner: Owner, first: int) -> int:
    """New mail, moves, deletions and now and then new numbers; the next mail's number."""
    client = server.client()
    for source, target in (("INBOX", "Archive"), ("Archive", "INBOX")):
        client.select_folder(source)
        uids = client.search("UNDELETED")
        if uids:
            client.move(coins.sample(uids, min(20, len(uids))), target)
    client.select_folder("INBOX")
    uids = client.search("UNDELETED")
    gone = coins.sample(uids, min(7, len(uids)))
    found = client.fetch(gone, ["ENVELOPE"])
    for items in found.values():
        number = int(items[b"ENVELOPE"].message_id[2:].split(b"@")[0])
        owner.there.discard(number)
    client.delete_messages(gone)
    if coins.random() < 0.5:
        client.expunge()
    client.logout()
    new = range(first, first + CHAIN * coins.randrange(1, 4))
    server.deliver([message(number) for number in new], coins.choice(["INBOX", "Archive"]))
    owner.there.update(new)
    if coins.random() < 0.2:
        server.renumber(coins.choice(["INBOX", "Archive"]))
    return new.stop


def test_kills_at_random_instants(dovecot: Dovecot, tmp_path: Path) -> None:
    """After each the corpus is whole, and what it has is never sent again."""
    coins = random.Random(4)
    owner = Owner(dovecot, tmp_path)
    dovecot.deliver([message(number) for number in range(MAILS)])
    dovecot.deliver([], "Archive")
    owner.there = set(range(MAILS))
    with Ledger(owner.ledger) as made:
        made.set_budget(corpus="mail", rho=2.0)
    started = time.monotonic()
    kills = 0
    # The first reading takes many kills to come to its end.
    while kills < KILLS // 2 and not owner.killed(coins.random() * 10):
        kills += 1
        if Corpus.names(tmp_path / "corpora"):
            owner.units()
    owner.brought()
    owner.check()
    first_sent = sum(dovecot.bodies_sent().values())
    assert MAILS <= first_sent <= MAILS + (kills + 1) * BATCH
    payers = sorted(owner.units())[:50]
    ledger = Ledger(owner.ledger)
    with ledger.reserve(corpus="mail", rho=1.0, units=payers) as reservation:
        reservation.commit(1.0, [SPENT] * len(payers))
    first = MAILS
    for _ in range(KILLS - kills):
        first = change(dovecot, coins, owner, first)
        for run in (lambda: owner.killed(coins.random() * 0.4), owner.brought):
            held, sent = owner.held(), dovecot.bodies_sent()
            run()
            # Of what the corpus has nothing is sent, whatever became of it.
            assert not (dovecot.bodies_sent() - sent).keys() & held
            owner.units()
        owner.check()
    assert owner.brought()["read"] == 0
    with ledger.reserve(corpus="mail", rho=2.0, at_least=1e-9, units=payers) as left:
        assert left.limits == pytest.approx([2.0 - SPENT] * len(payers))
    ledger.close()
    figures = f"{KILLS} kills, {kills} of them in the first reading of {MAILS} mails"
    print(f"\n{figures}: {first_sent} sent then, {time.monotonic() - started:.0f} s")  # noqa: T201
