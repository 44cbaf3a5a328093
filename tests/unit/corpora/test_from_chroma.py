"""Corpora of older versions, brought over once: they are as they were, and so is what was spent."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dpicl_rag.corpora import Corpus, from_chroma
from dpicl_rag.corpora.from_chroma import bring_over
from dpicl_rag.documents import Document
from dpicl_rag.errors import CorpusError
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.mailboxes import Filled, in_parts, random_mailbox
from tests.support.old_corpus import keep_in_chroma
from tests.unit.conftest import seen

DIMENSION = len(BucketEmbedder().embed(["x"])[0])


def contents(corpus: Corpus) -> dict[str, tuple[object, ...]]:
    found = seen(corpus, dimension=DIMENSION)
    return {text: (one.unit, one.metadata, one.vector.tolist()) for text, one in found.items()}


@pytest.mark.parametrize("seed", range(12))
def test_all_comes_as_it_was_and_goes_on_as_it_would(tmp_path: Path, seed: int) -> None:
    coins = random.Random(seed)
    documents = random_mailbox(coins)
    first = documents[: len(documents) // 2 + 1]
    filled = Filled(in_parts(coins, first))
    tied = [document for document in first if document.origin.keys]
    if tied and seed % 2:
        gone = coins.choice(tied).metadata["message_id"]
        filled.corpus.forget_message(gone, no_ledger=True)
    keep_in_chroma(filled.corpus, tmp_path / "old")
    count = bring_over("mail", tmp_path / "old", tmp_path / "new", embedder=BucketEmbedder())
    assert count == len(filled.corpus.records())
    brought = Corpus.open("mail", tmp_path / "new", embedder=BucketEmbedder())
    for part in ([], documents, in_parts(coins, documents)[0]):
        added = [
            corpus.add(part, no_ledger=True, joins="allow") for corpus in (brought, filled.corpus)
        ]
        assert added[0] == added[1]
        assert contents(brought) == contents(filled.corpus)
        assert brought.records() == filled.corpus.records()
        assert brought.joins() == filled.corpus.joins()
    filled.close()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    corpus = Corpus.create(
        "mail", tmp_path / "made", embedder=BucketEmbedder(), chunk_size=40, chunk_overlap=0
    )
    long = " ".join(f"Sentence {number} is here." for number in range(300))
    corpus.add([Document(long, "one", {"owner": "ann"}), Document("short", "two")])
    keep_in_chroma(corpus, tmp_path / "old")
    corpus.close()
    return tmp_path / "old"


def test_long_documents_come_whole(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_chroma, "_PAGE", 7)
    bring_over("mail", old, tmp_path / "new", embedder=BucketEmbedder())
    made = Corpus.open("mail", tmp_path / "made", embedder=BucketEmbedder())
    brought = Corpus.open("mail", tmp_path / "new", embedder=BucketEmbedder())
    assert brought.records() == made.records()
    question = np.ones(DIMENSION)
    assert brought.scan(question).scores.tolist() == made.scan(question).scores.tolist()


def test_where_an_older_version_kept_it_the_line_says_how_to_bring_it_over(old: Path) -> None:
    for make in (Corpus.open, Corpus.create):
        with pytest.raises(CorpusError) as caught:
            make("mail", old, embedder=BucketEmbedder())
        assert f"`dpicl-rag ingest --from-chroma {old} --corpus mail`" in str(caught.value)
    Corpus.create("other", old, embedder=BucketEmbedder()).close()  # of another name is fine
    bring_over("mail", old, old, embedder=BucketEmbedder())
    assert Corpus.names(old) == ["mail", "other"]
    Corpus.open("mail", old, embedder=BucketEmbedder()).close()


def test_it_comes_once(old: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no older version has made a corpus 'male'"):
        bring_over("male", old, tmp_path / "new", embedder=BucketEmbedder())
    bring_over("mail", old, tmp_path / "new", embedder=BucketEmbedder())
    with pytest.raises(CorpusError, match="here already"):
        bring_over("mail", old, tmp_path / "new", embedder=BucketEmbedder())


def test_what_breaks_off_leaves_nothing(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_chroma, "_PAGE", 10)
    original, calls = from_chroma._identity, iter(range(15))

    def breaks(*rest: object) -> object:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return original(*rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(from_chroma, "_identity", breaks)
        with pytest.raises(KeyboardInterrupt):
            bring_over("mail", old, tmp_path / "new", embedder=BucketEmbedder())
    assert Corpus.names(tmp_path / "new") == []
    bring_over("mail", old, tmp_path / "new", embedder=BucketEmbedder())
    made = Corpus.open("mail", tmp_path / "made", embedder=BucketEmbedder())
    brought = Corpus.open("mail", tmp_path / "new", embedder=BucketEmbedder())
    assert brought.records() == made.records()
