"""A mail that is read again, with attachments that were not read before, is still the same mail."""

from __future__ import annotations

from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders import load, mail
from dpicl_rag.loaders.shared_keys import digest_of
from tests.unit.conftest import HashingEmbedder


@pytest.fixture
def corpus(tmp_path: Path):
    made = Corpus.create("mail", tmp_path / "store", embedder=HashingEmbedder())
    yield made
    made.close()


@pytest.fixture
def read(tmp_path: Path, monkeypatch):
    """Mails with an attachment each, which is read, or read as other words, or not at all."""

    def load_mails(*names: str, attached: str | None, unit: str | None = None, whose: str = ""):
        for name in names:
            message = EmailMessage()
            message["Message-ID"], message["Desk"] = f"<{name}@b.org>", "7.0"
            own = whose or name
            message["From"], message["Subject"] = f"{own}@b.org", f"Plan of {own}"
            message.set_content(f"Dear all, {own} has a plan.")
            message.add_attachment("plan", filename="plan.txt")
            (tmp_path / "mails").mkdir(exist_ok=True)
            (tmp_path / "mails" / f"{name}.eml").write_bytes(bytes(message))
        texts = [] if attached is None else [attached]
        monkeypatch.setattr(mail, "read_attachments", lambda *_: (texts, ()))
        return load(tmp_path / "mails", unit=unit).documents

    return load_mails


def held(corpus: Corpus) -> list[str]:
    return sorted(record.text.splitlines()[-1] for record in corpus.records())


def test_it_takes_its_own_place(corpus, read):
    corpus.add(read("ann", "bob", attached=None))
    before = {record.unit for record in corpus.records()}
    assert held(corpus) == ["Dear all, ann has a plan.", "Dear all, bob has a plan."]
    corpus.add(read("ann", attached="It is blue."))
    assert held(corpus) == ["It is blue.", "It is blue."]
    assert {record.unit for record in corpus.records()} == before
    corpus.add(read("ann", attached="It is blue.\n\nIt is green."))  # one more of them is read
    assert held(corpus) == ["It is green."] * 2
    assert corpus.add(read("ann", attached="It is blue.\n\nIt is green.")).passages == 0
    assert len(corpus.records()) == 2


def test_a_copy_with_another_attachment_takes_nobodys_place_and_is_forgotten_alone(corpus, read):
    mail, copy = (read("ann", attached=text) for text in ("It is blue.", "It is forged."))
    for documents in (mail, copy, mail):
        corpus.add(documents)
    assert held(corpus) == ["It is blue.", "It is forged."]
    with pytest.raises(CorpusError, match="several messages have that id"):
        corpus.forget_message("ann@b.org", no_ledger=True)
    corpus.forget_message(digest_of(copy[0]), no_ledger=True)
    assert held(corpus) == ["It is blue."]
    assert corpus.add([*copy, *mail]).forgotten == 1
    assert held(corpus) == ["It is blue."]
    assert corpus.add(read("ann", attached=None)).forgotten == 1  # as either was, it says no more
    assert held(corpus) == ["It is blue."]


def test_a_join_names_a_mail_that_is_read_again(corpus, read):
    ann, tie, bob = (read(name, attached=None)[-1:] for name in ("ann", "tie", "zoe"))
    corpus.add([*ann, *bob])
    keys = (*tie[0].origin.keys, *ann[0].origin.keys, *bob[0].origin.keys)
    bare, whole = (
        replace(one, origin=replace(one.origin, keys=keys))
        for one in (*tie, *read("tie", attached="It is blue.")[1:2])
    )
    corpus.add([bare], no_ledger=True)
    corpus.add([whole], no_ledger=True)
    (join,) = corpus.joins()
    ((name, fields),) = join.documents.items()
    assert fields["message_id"] == "<tie@b.org>"
    corpus.forget_message(name, no_ledger=True)
    assert held(corpus) == ["Dear all, ann has a plan.", "Dear all, zoe has a plan."]
    assert len({record.unit for record in corpus.records()}) == 2


def test_one_that_was_forgotten_stays_out(corpus, read):
    corpus.add(read("ann", "bob", attached=None))
    corpus.forget_message("ann@b.org", no_ledger=True)
    added = corpus.add(read("ann", attached="It is blue."))
    assert added.forgotten == 1
    assert held(corpus) == ["It is blue."]  # of bob
    corpus.forget_message("bob@b.org", no_ledger=True)
    assert corpus.add(read("ann", attached=None)).forgotten == 2
    assert held(corpus) == []


def test_an_equal_attachment_of_another_mail_stays(corpus, read):
    corpus.add(read("ann", attached="It is blue."))
    corpus.add(read("bob", attached="It is blue."))
    assert held(corpus) == ["It is blue.", "It is blue."]


@pytest.mark.parametrize("unit", ["sender", "desk"])
def test_mails_of_equal_words_stay_where_units_are_no_threads(corpus, read, tmp_path, unit):
    corpus.add(read("first", attached="It is blue.", unit=unit, whose="ann"))
    (tmp_path / "mails" / "first.eml").unlink()
    corpus.add(read("second", attached="It is green.", unit=unit, whose="ann"))
    assert held(corpus) == ["It is blue.", "It is green."]
    assert len({record.unit for record in corpus.records()}) == 1
