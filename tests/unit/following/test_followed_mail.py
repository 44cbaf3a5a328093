"""Mail on a real server: what is there is in the corpus, and each message is read once."""

from __future__ import annotations

import logging
import random
import ssl
from collections.abc import Callable
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.adding import Ingested
from dpicl_rag.corpora.holdings import Held, Holdings
from dpicl_rag.documents import Document
from dpicl_rag.errors import DPICLError, LoaderError
from dpicl_rag.following import followed_mail, mail_account
from dpicl_rag.following.followed_mail import bring_mail
from dpicl_rag.following.mail_account import Credential, MailAccount, MailSession, accounts_of
from dpicl_rag.following.outcome import Brought, MostGoneError
from dpicl_rag.ledger import Ledger
from dpicl_rag.loaders.loader import load_mails
from tests.support.dovecot import PASSWORD, TOKEN, Dovecot, mail
from tests.support.random_mail import made
from tests.unit.conftest import Killed, TextEmbedder

Bring = Callable[..., Brought]


def session(server: Dovecot, *folders: str, unit: str | None = None) -> MailSession:
    (account,) = accounts_of([server.address(*folders)], unit)
    return MailSession(account, Credential(PASSWORD, is_token=False), server.certificate)


@pytest.fixture
def bring(dovecot: Dovecot, corpus: Corpus) -> Bring:
    """Bring the corpus up to date."""

    def add(documents: list[Document], held: Held) -> Ingested:
        return corpus.add(documents, held=held, no_ledger=True)

    def run(*folders: str, **options) -> Brought:
        with session(dovecot, *folders, unit=options.pop("unit", None)) as opened:
            return bring_mail(corpus, opened, options.pop("add", add), **options)

    return run


def numbers(corpus: Corpus) -> list[list[int]]:
    """Numbers of the mails in each unit."""
    units: dict[str, list[int]] = {}
    for record in corpus.records():
        units.setdefault(record.unit, []).append(
            int(record.metadata["message_id"][2:].split("@")[0])
        )
    return sorted(map(sorted, units.values()))


def counts(brought: Brought) -> tuple[int, int, int, int]:
    return brought.there, brought.read, brought.known, brought.deleted


def test_what_is_new_is_read_and_nothing_twice(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(2), mail(3, answers=1)])
    assert counts(bring()) == (3, 3, 0, 0)
    assert counts(bring()) == (3, 0, 3, 0)
    dovecot.deliver([mail(4, answers=2)])
    assert counts(bring()) == (4, 1, 3, 0)
    assert numbers(corpus) == [[1, 3], [2, 4]]
    assert set(dovecot.bodies_sent().values()) == {1}


def test_batches_make_the_units_that_one_load_makes(dovecot, corpus, bring, monkeypatch):
    monkeypatch.setattr(followed_mail, "BATCH", 2)
    # The last ties three of them: without groups it would join units that are there.
    dovecot.deliver([mail(n) for n in range(6)])
    ties = b"References: " + b" ".join(b"<m%d@example.org>" % n for n in (0, 2, 4)) + b"\r\n"
    dovecot.deliver([ties + mail(6)])
    assert bring().joins == ()
    assert numbers(corpus) == [[0, 2, 4, 6], [1], [3], [5]]


def test_a_message_that_moves_is_the_same(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(2)])
    dovecot.deliver([], "Archive")
    bring("INBOX", "Archive")
    client = dovecot.client()
    client.select_folder("INBOX")
    client.move(client.search(["SUBJECT", "matter 1"]), "Archive")
    client.copy(client.search(["SUBJECT", "matter 2"]), "Archive")
    client.logout()
    # Archive is followed, so it is read although it is not named.
    assert counts(bring("INBOX")) == (3, 0, 3, 0)
    assert numbers(corpus) == [[1], [2]]
    client = dovecot.client()
    client.select_folder("INBOX")
    client.delete_messages(client.search())
    client.logout()
    assert counts(bring()) == (2, 0, 2, 0)  # its copy is still there
    assert set(dovecot.bodies_sent().values()) == {1}


def test_what_is_deleted_there_is_deleted_here_and_may_come_back(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(2, answers=1), mail(3), mail(4)])
    bring()
    client = dovecot.client()
    client.select_folder("INBOX")
    one, two = client.search(["OR", "SUBJECT", "matter 1", "SUBJECT", "matter 3"])
    client.delete_messages([one, two])
    assert counts(bring()) == (2, 0, 2, 2)  # marked as deleted, and not expunged yet
    assert numbers(corpus) == [[2], [4]]
    client.remove_flags([one], ["\\Deleted"])
    client.expunge()
    client.logout()
    assert counts(bring()) == (3, 1, 2, 0)
    assert numbers(corpus) == [[1, 2], [4]]


def test_other_flags_change_nothing_and_reading_sets_none(dovecot, corpus, bring):
    dovecot.deliver([mail(1)])
    bring()
    client = dovecot.client()
    client.select_folder("INBOX")
    assert client.search("SEEN") == []
    client.add_flags(client.search(), ["\\Seen", "\\Flagged", "$Label1"])
    client.logout()
    assert counts(bring()) == (1, 0, 1, 0)


def test_a_folder_that_was_numbered_anew_doubles_nothing(dovecot, corpus, bring):
    without_id = mail(3).partition(b"\r\n")[2]
    dovecot.deliver([mail(1), mail(2, answers=1), mail(4)])
    bring()
    before = corpus.records()
    dovecot.renumber("INBOX")
    assert counts(bring()) == (3, 0, 3, 0)
    assert corpus.records() == before
    dovecot.deliver([without_id])
    bring()
    before = corpus.records()
    dovecot.renumber("INBOX")
    assert counts(bring()) == (4, 1, 3, 0)  # read again, for no Message-ID tells
    assert corpus.records() == before


def test_a_message_that_is_there_twice_is_read_once(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(1), mail(2)])
    assert counts(bring()) == (3, 2, 1, 0)
    assert numbers(corpus) == [[1], [2]]
    assert set(dovecot.bodies_sent().values()) == {1}
    assert counts(bring()) == (3, 0, 3, 0)


def test_one_id_with_two_texts_is_two_messages(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(1, "The same, and what a list adds.")])
    assert bring().read == 2
    assert numbers(corpus) == [[1, 1]]


def test_where_most_is_gone_nothing_is_deleted_without_a_word(dovecot, corpus, bring):
    dovecot.deliver([mail(n) for n in range(5)])
    bring()
    client = dovecot.client()
    client.select_folder("INBOX")
    client.delete_messages(client.search()[:3])
    client.logout()
    dovecot.deliver([mail(9)])
    for _ in range(2):
        with pytest.raises(MostGoneError, match="--deletions") as refused:
            bring()
        assert "\n" not in str(refused.value)
        assert numbers(corpus) == [[n] for n in (*range(5), 9)]  # and what is new is there
    assert counts(bring(deletions=True)) == (3, 0, 3, 3)
    assert numbers(corpus) == [[3], [4], [9]]


def test_units_keep_what_they_have_spent(dovecot, corpus, bring, tmp_path):
    dovecot.deliver([mail(1), mail(2)])
    bring()
    units = {record.metadata["message_id"]: record.unit for record in corpus.records()}
    unit = units["<m1@example.org>"]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=2.0)
        with ledger.reserve(corpus="mail", rho=1.0, units=[unit]) as reservation:
            reservation.commit(1.0, [0.75])
        client = dovecot.client()
        client.select_folder("INBOX")
        first = client.search(["SUBJECT", "matter 1"])
        client.delete_messages(first)
        assert bring().deleted == 1
        client.remove_flags(first, ["\\Deleted"])
        client.logout()
        dovecot.deliver([mail(3, answers=1)])  # and an answer that never saw it
        bring()
        assert numbers(corpus) == [[1, 3], [2]]
        held = {record.unit for record in corpus.records()}
        assert held == set(units.values())
        with ledger.reserve(corpus="mail", rho=2.0, at_least=1e-9, units=[unit]) as left:
            assert left.limits is not None
            assert left.limits[0] == pytest.approx(2.0 - 0.75)


def test_a_batch_is_noted_with_its_documents_or_not_at_all(dovecot, corpus, bring, monkeypatch):
    """Killed while documents are stored: what is not there is read again, and nothing doubled."""
    monkeypatch.setattr(followed_mail, "BATCH", 2)
    dovecot.deliver([mail(n) for n in range(6)])
    note = Holdings.note
    calls = []

    def killed(self, holdings):
        holdings = list(holdings)
        calls.extend(holdings)
        if any(one.document for one in calls) and len(calls) > 3:
            raise Killed
        note(self, holdings)

    with monkeypatch.context() as patch:
        patch.setattr(Holdings, "note", killed)
        with pytest.raises(Killed):
            bring()
    there = numbers(corpus)
    assert 0 < len(there) < 6
    held = corpus.followed.held(corpus.followed.sources()[0].id)
    assert len(held) == len(there)
    brought = bring()
    assert brought.read == 6 - len(there)
    assert numbers(corpus) == [[n] for n in range(6)]


def test_the_check_finds_a_place_that_is_noted_before_its_document(
    dovecot, corpus, bring, monkeypatch
):
    """The fault: places are noted first. A kill in between then loses a mail."""
    dovecot.deliver([mail(1)])

    def early(documents, held):
        account = MailAccount.of(held.source)
        corpus.followed.follow(account.source)
        corpus.followed.note(one._replace(document="00") for one in held.holdings)
        raise Killed

    with pytest.raises(Killed):
        bring(add=early)
    assert bring().read == 0
    assert numbers(corpus) == []


def test_what_has_no_text_or_is_too_large_is_reported_once(dovecot, corpus, bring, monkeypatch):
    monkeypatch.setattr(followed_mail, "MAX_RECORD_BYTES", 5000)
    empty = b"Message-ID: <e@b>\r\nFrom: a@b.org\r\n\r\n\r\n"
    dovecot.deliver([empty, mail(1, "long " * 2000), mail(2)])
    brought = bring()
    assert sorted(one.reason for one in brought.skipped) == ["empty", "larger than 16 MiB"]
    assert all(one.position.startswith("INBOX, message ") for one in brought.skipped)
    assert counts(bring()) == (3, 0, 3, 0)
    assert sum(dovecot.bodies_sent().values()) == 2


@pytest.mark.heavy
def test_attachments_are_read_with_their_mail_or_named(dovecot, corpus, bring):
    whole = EmailMessage()
    whole["Message-ID"], whole["From"], whole["Subject"] = "<m1@example.org>", "a@b.org", "plan"
    whole.set_content("See the files.")
    whole.add_attachment("The harbour opens at nine.", filename="plan.txt")
    whole.add_attachment(b"\x00\x01", "application", "octet-stream", filename="plan.bin")
    dovecot.deliver([whole.as_bytes(policy=SMTP)])
    (unread,) = bring().skipped
    assert unread.position.startswith("INBOX, message 1, ")
    (record,) = corpus.records()
    assert "harbour opens at nine" in record.text


def test_a_forgotten_message_stays_out(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(2)])
    bring()
    corpus.forget_message("<m1@example.org>", no_ledger=True)
    dovecot.renumber("INBOX")
    assert counts(bring()) == (2, 0, 2, 0)
    assert numbers(corpus) == [[2]]


def test_a_unit_that_was_deleted_stays_out(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(2)])
    bring()
    (unit,) = [one.unit for one in corpus.records() if one.metadata["subject"] == "matter 1"]
    corpus.delete_unit(unit)
    dovecot.renumber("INBOX")
    assert counts(bring()) == (2, 0, 2, 0)
    assert numbers(corpus) == [[2]]


def test_another_unit(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(8), mail(2)])
    bring(unit="sender")
    assert numbers(corpus) == [[1, 8], [2]]
    assert counts(bring()) == (3, 0, 3, 0)  # the account keeps its unit


@pytest.mark.heavy
def test_many_messages_are_listed_in_windows(dovecot, corpus, bring, monkeypatch):
    monkeypatch.setattr(mail_account, "_WINDOW", 2)
    dovecot.deliver([mail(n) for n in range(7)])
    assert counts(bring()) == (7, 7, 0, 0)
    assert counts(bring()) == (7, 0, 7, 0)


def test_a_connection_that_breaks_is_one_line_and_the_next_run_goes_on(
    dovecot, corpus, bring, monkeypatch
):
    monkeypatch.setattr(followed_mail, "BATCH", 2)
    dovecot.deliver([mail(n) for n in range(6)])
    with session(dovecot) as opened:

        def breaks(documents, held):
            opened._client.shutdown()
            return corpus.add(documents, held=held, no_ledger=True)

        with pytest.raises(LoaderError, match="goes on where it stopped") as broken:
            bring_mail(corpus, opened, breaks)
    assert "\n" not in str(broken.value)
    assert counts(bring()) == (6, 4, 2, 0)
    assert set(dovecot.bodies_sent().values()) == {1}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(4))
def test_a_unit_changes_nothing_of_the_others(dovecot, tmp_path, monkeypatch, seed):
    """All that a corpus says of other units is the same without one, however batches fall."""
    monkeypatch.setattr(followed_mail, "BATCH", 3)
    coins = random.Random(seed)
    mails = [made(number, coins, 14) for number in range(14)]
    read, _ = load_mails([("", one) for one in mails])
    # Who ties many is withheld by what is there: the limit that docs/privacy.md tells.
    mails = [one for one, found in zip(mails, read, strict=True) if isinstance(found, Document)]

    def kept(folder: str, some: list[bytes]) -> dict[str, list[tuple]]:
        dovecot.deliver(some, folder)
        target = Corpus.create(folder, tmp_path, embedder=TextEmbedder())
        with session(dovecot, folder) as opened:
            bring_mail(target, opened, lambda d, held: target.add(d, held=held, no_ledger=True))
        units: dict[str, list[tuple]] = {}
        for one in target.records():
            units.setdefault(one.unit, []).append((one.id, one.text, sorted(one.metadata.items())))
        target.close()
        return units

    whole = kept("whole", mails)
    for number, (unit, rows) in enumerate(sorted(whole.items())[:4]):
        texts = {text for _, text, _ in rows}
        rest = [one for one in mails if load_mails([("", one)])[0][0].text not in texts]
        assert kept(f"rest{number}", rest) == {u: r for u, r in whole.items() if u != unit}


def test_folders_may_be_called_anything(dovecot, corpus, bring):
    client = dovecot.client()
    client.create_folder('Entwürfe, "alt" & {neu}')
    client.append('Entwürfe, "alt" & {neu}', mail(1))
    client.logout()
    assert counts(bring("Entw%C3%BCrfe%2C%20%22alt%22%20%26%20%7Bneu%7D")) == (1, 1, 0, 0)


def test_a_token_opens_an_account(dovecot):
    (account,) = accounts_of([dovecot.address()])
    with MailSession(account, Credential(TOKEN, is_token=True), dovecot.certificate) as opened:
        assert opened.listing("INBOX").uids == []
    with pytest.raises(LoaderError, match="refuses the token") as refused:
        MailSession(account, Credential("canary-77", is_token=True), dovecot.certificate)
    assert "canary-77" not in str(refused.value)


def failures(server: Dovecot) -> list[DPICLError]:
    """Whatever goes wrong with a server."""
    (account,) = accounts_of([server.address()])
    (nowhere,) = accounts_of([f"imaps://ann@localhost:{server.port + 1}/INBOX"])
    right = Credential(PASSWORD, is_token=False)
    found = []
    for one, secret, ca_file in (
        (account, Credential("canary-77", is_token=False), server.certificate),
        (account, Credential("cänary-77", is_token=False), server.certificate),
        (account, right, None),
        (account, right, Path(__file__)),
        (nowhere, right, server.certificate),
    ):
        with pytest.raises(DPICLError) as failed:
            MailSession(one, secret, ca_file)
        found.append(failed.value)
    with session(server) as opened, pytest.raises(LoaderError) as missing:
        opened.listing("canary folder")
    return [*found, missing.value]


def test_failures_are_one_line_with_a_remedy(dovecot):
    said = [str(error) for error in failures(dovecot)]
    for line, remedy in zip(
        said,
        ["renew it", "renew it", "--ca-file", "PEM", "check the address", "--drop"],
        strict=True,
    ):
        assert remedy in line
        assert "\n" not in line
        assert "canary-77" not in line
        assert "cänary-77" not in line
        assert PASSWORD not in line


def test_no_log_and_no_error_tells_a_mail_or_a_secret(dovecot, corpus, bring, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    dovecot.deliver([mail(1, "The word is quillon."), mail(2)])
    bring()
    dovecot.deliver([mail(3)])

    def fails(*_):
        raise LoaderError("on the way")

    with pytest.raises(LoaderError) as failed:
        bring(add=fails)
    failures(dovecot)
    heard = caplog.text + "".join(capfd.readouterr()) + repr(failed.value)
    units = {record.unit for record in corpus.records()}
    for private in ("quillon", "matter 1", "m1@example.org", PASSWORD, "canary-77", *units):
        assert private not in heard


def test_the_certificate_is_verified_for_the_host(dovecot):
    (account,) = accounts_of([f"imaps://ann@127.0.0.1:{dovecot.port}/INBOX"])
    with pytest.raises(LoaderError, match="not trusted"):
        MailSession(account, Credential(PASSWORD, is_token=False), dovecot.certificate)
    assert ssl.create_default_context().check_hostname


def copy_of(raw: bytes, more: bytes, size: int) -> bytes:
    """A message of the same size and other words, with more headers."""
    head = raw.partition(b"\r\n\r\n")[0] + b"\r\n" + more + b"\r\n\r\n"
    return head + b"x" * (size - len(head) - 2) + b"\r\n"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("unit", [None, "sender", "document", "x-patient"])
def test_a_strangers_copy_erases_no_mail_and_keeps_none_alive(dovecot, corpus, bring, unit):
    """Of the same id and size: in the thread by other headers, in another unit by all of them."""
    victim = mail(1, "a long and private text " * 9).replace(b"\r\n", b"\r\nX-Patient: ann\r\n", 1)
    copy = copy_of(mail(1), b"X-Patient: bo", len(victim))
    if unit in (None, "sender"):  # other headers; else all that are looked at are the same
        copy = copy.replace(b"From: Bo <bo1@", b"From: Bo <x11@").replace(b"matter", b"Matter")
    assert len(copy) == len(victim)
    dovecot.deliver([copy, victim, mail(2), mail(3)])
    bring(unit=unit)
    both = [[1, 1]] if unit in (None, "document") else [[1], [1]]  # these go by the id
    assert numbers(corpus) == both + ([] if unit == "x-patient" else [[2], [3]])
    assert sum("private text" in record.text for record in corpus.records()) == 1
    client = dovecot.client()
    client.select_folder("INBOX")
    client.delete_messages(client.search()[1])
    client.expunge()
    dovecot.deliver([copy], "Archive")
    client.logout()
    assert bring("INBOX", "Archive").deleted == 1
    assert not any("private text" in record.text for record in corpus.records())


def test_a_unit_that_was_deleted_stays_out_where_mails_are_read_again(dovecot, corpus, bring):
    dovecot.deliver([mail(1), mail(2)])
    bring(unit="sender")
    corpus.delete_unit("bo1@example.org")
    dovecot.renumber("INBOX")
    assert counts(bring()) == (2, 2, 0, 0)
    assert numbers(corpus) == [[2]]


def test_what_one_sender_has_deleted_holds_up_nobody(dovecot, corpus, bring):
    """Many threads of one person, all gone: no more than one sender of several."""
    flood = [mail(7 * n) for n in range(1, 9)]  # all of bo0
    dovecot.deliver([mail(1), mail(2), mail(3), *flood])
    bring()
    client = dovecot.client()
    client.select_folder("INBOX")
    client.delete_messages(client.search()[3:])
    client.logout()
    dovecot.deliver([mail(4)])
    assert counts(bring()) == (4, 1, 3, 8)
    assert numbers(corpus) == [[1], [2], [3], [4]]
