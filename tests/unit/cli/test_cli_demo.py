"""`demo`: it runs the commands that it prints, on the mailbox that is packaged."""

from __future__ import annotations

import gzip
from contextlib import closing
from importlib.resources import files

import pytest

from demos.inbox.generator import generate
from dpicl_rag import Corpus
from dpicl_rag.cli import data_folder, demo
from tests.support.bucket_embedder import BucketEmbedder


@pytest.fixture
def few_mails(monkeypatch, tmp_path):
    """The first mails of the mailbox in the place of all."""
    box = generate()
    del box.messages[12:]
    box.write(tmp_path / "mails")
    (tmp_path / demo._MAILBOX).write_bytes(gzip.compress((tmp_path / "mails").read_bytes()))
    monkeypatch.setattr(demo, "files", lambda _: tmp_path)


def commands(result):
    return [line.split()[2] for line in result.stderr.splitlines() if line.startswith("$ ")]


def test_a_mailbox_is_filled_in_once_and_asked(cli, few_mails, spending):
    first = cli("demo")
    assert first.exit_code == 0, first.output
    assert commands(first) == ["ingest", "budget", "ask"]
    assert "How long does a refund take?" in first.stderr
    with closing(data_folder.open_own_corpus(demo.CORPUS, None, None)) as corpus:
        assert len(list(corpus.records())) == 12
    before = spending(demo.CORPUS)
    assert before.budget is not None
    assert before.questions == 1
    again = cli("demo", "What is Maria Delgado's card number?")
    assert again.exit_code == 0, again.output
    assert commands(again) == ["ask"]
    assert spending(demo.CORPUS).questions == 2


def test_a_command_that_fails_is_the_last(cli, few_mails, tmp_path):
    (tmp_path / demo._MAILBOX).unlink()
    failed = cli("demo")
    assert failed.exit_code == 1
    assert commands(failed) == ["ingest"]
    assert failed.stderr.splitlines()[-1].startswith("error: ")


def test_a_corpus_that_an_earlier_run_left_empty_is_filled(cli, few_mails, spending):
    Corpus.create(demo.CORPUS, embedder=BucketEmbedder()).close()
    result = cli("demo")
    assert result.exit_code == 0, result.output
    assert commands(result) == ["ingest", "budget", "ask"]
    assert spending(demo.CORPUS).budget is not None


def test_the_packaged_mailbox_is_what_the_demos_generate(tmp_path):
    packaged = files("dpicl_rag.cli") / demo._MAILBOX
    generate().write(tmp_path / "mails")
    assert gzip.decompress(packaged.read_bytes()) == (tmp_path / "mails").read_bytes()
