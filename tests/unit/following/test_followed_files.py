"""Files that are followed: what is new, was edited and is gone, in any order of events."""

from __future__ import annotations

import gzip
import json
import mailbox
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import LoaderError
from dpicl_rag.following.followed_files import FileSource, bring_files
from dpicl_rag.following.outcome import Brought, MostGoneError
from dpicl_rag.loaders import load
from tests.support.dovecot import mail
from tests.unit.conftest import HashingEmbedder, Killed


def bring(corpus: Corpus, *paths: Path, **options) -> Brought:
    keep = {name: options.pop(name) for name in ("deletions", "before_deleting") if name in options}
    files = FileSource.at(paths, **options)
    return bring_files(
        corpus,
        files,
        # Files that become equal become one unit.
        lambda some, held: corpus.add(some, held=held, no_ledger=True, joins="allow"),
        **keep,
    )


def texts(corpus: Corpus) -> list[str]:
    return sorted(record.text for record in corpus.records())


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_new_edited_moved_and_deleted_files(corpus: Corpus, tmp_path: Path) -> None:
    folder = write(tmp_path / "notes", a="one", b="two", c="three", d="four")
    assert bring(corpus, folder).deleted == 0
    units = {record.text: record.unit for record in corpus.records()}
    write(folder, b="two, edited", e="five")
    (folder / "a.txt").unlink()
    (folder / "c.txt").rename(folder / "moved.txt")
    brought = bring(corpus, folder)
    assert brought.deleted == 1
    assert texts(corpus) == ["five", "four", "three", "two, edited"]
    now = {record.text: record.unit for record in corpus.records()}
    assert now["three"] == units["three"]
    assert now["two, edited"] == units["two"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(40))
def test_the_corpus_equals_the_folder_whatever_happens_to_it(
    tmp_path: Path, embedder: HashingEmbedder, seed: int
) -> None:
    coins = random.Random(seed)
    corpus = Corpus.create("notes", tmp_path / "corpora", embedder=embedder)
    folder = write(tmp_path / "notes", keep="what stays")
    for step in range(6):
        for _ in range(coins.randrange(4)):
            file = folder / f"{coins.randrange(5)}.txt"
            if file.exists() and coins.random() < 0.5:
                file.unlink()
            else:
                file.write_text(f"text {coins.randrange(4)}")
        bring(corpus, folder, deletions=True)
        wanted = sorted({(d.unit, d.text) for d in load(folder).documents})
        assert sorted({text for _, text in wanted}) == sorted(set(texts(corpus))), step
    corpus.close()


def test_rows_with_and_without_a_key(corpus: Corpus, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("id,text\n1,one\n2,two\n3,three\n4,four\n")
    bring(corpus, table)
    table.write_text("id,text\n0,zero\n1,one more\n2,two\n4,four\n")
    assert bring(corpus, table).deleted == 1
    assert texts(corpus) == ["four", "one more", "two", "zero"]
    loose = tmp_path / "loose.jsonl"
    rows = [json.dumps({"text": f"row {n}", "who": f"p{n % 2}"}) for n in range(5)]
    loose.write_text("\n".join(rows))
    bring(corpus, loose)
    loose.write_text("\n".join([*rows[1:], json.dumps({"text": "row 1, edited", "who": "p1"})]))
    assert bring(corpus, loose).deleted == 1
    assert texts(corpus)[1:] == ["one more", "row 1", "row 1, edited", "row 2", "row 3", "row 4",
                                 "two", "zero"]  # fmt: skip


@pytest.mark.parametrize("kind", ["mbox", "maildir"])
def test_mailboxes(corpus: Corpus, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "box"
    box: mailbox.Mailbox = mailbox.mbox(path) if kind == "mbox" else mailbox.Maildir(path)
    keys = [box.add(mail(n, answers=n - 1 if n else None)) for n in range(4)]
    box.flush()
    bring(corpus, path)
    box.remove(keys[1])
    box.add(mail(9))
    box.close()
    assert bring(corpus, path).deleted == 1
    assert len(texts(corpus)) == 4
    assert len({record.unit for record in corpus.records()}) == 2


def test_where_most_is_gone_nothing_is_deleted_unasked(corpus: Corpus, tmp_path: Path) -> None:
    folder = write(tmp_path / "notes", a="one", b="two", c="three")
    bring(corpus, folder)
    for file in folder.iterdir():
        file.unlink()
    write(folder, other="of another folder")
    for _ in range(3):
        with pytest.raises(MostGoneError, match="--deletions"):
            bring(corpus, folder)
        assert texts(corpus)[-4:] == ["of another folder", "one", "three", "two"]
        # It stays so, however many come, until the owner says a word or all of it is back.
        write(folder, **{f"more{n}": f"more {n}" for n in range(9)})
    write(folder, a="one", b="two", c="three")
    bring(corpus, folder)
    (folder / "a.txt").unlink()
    assert bring(corpus, folder).deleted == 1
    for name in "bc":
        (folder / f"{name}.txt").unlink()
    for n in range(9):
        (folder / f"more{n}.txt").unlink()
    assert bring(corpus, folder, deletions=True).deleted == 11
    assert texts(corpus) == ["of another folder"]


def test_a_folder_that_is_not_there_deletes_nothing(corpus: Corpus, tmp_path: Path) -> None:
    folder = write(tmp_path / "notes", a="one")
    bring(corpus, folder)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(LoaderError):
        bring(corpus, folder, deletions=True)
    assert texts(corpus) == ["one"]


REFUSED = {
    "file": (Path, "open", "d.txt"),
    "its kind": (os, "stat", "d.txt"),
    "folder": (os, "scandir", "within"),
}


@pytest.mark.parametrize("hidden", sorted(REFUSED))
def test_what_cannot_be_read_for_now_is_not_gone(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    folder = write(tmp_path / "notes", a="one", b="two", c="three", f="six", g="seven")
    write(folder / "within", d="four")
    bring(corpus, folder)
    where, call, name = REFUSED[hidden]
    with monkeypatch.context() as patch:
        patch.setattr(where, call, refusing(getattr(where, call), name))
        write(folder, e="five")
        (folder / "a.txt").unlink()
        for _ in range(2):
            with pytest.raises(LoaderError, match=r"d\.txt is there and holds nothing"):
                bring(corpus, folder)
            # What is gone for sure is deleted all the same.
            assert texts(corpus) == ["five", "four", "seven", "six", "three", "two"]
        bring(corpus, folder, deletions=True)
        assert texts(corpus) == ["five", "seven", "six", "three", "two"]
    bring(corpus, folder)
    assert texts(corpus) == ["five", "four", "seven", "six", "three", "two"]


@pytest.mark.parametrize("harm", ["cut off", "not an archive", "emptied", "no text", "a link"])
@pytest.mark.parametrize("name", ["d.txt.gz", "d.csv.gz", "d.json"])
def test_what_is_there_and_damaged_is_not_gone(
    corpus: Corpus, tmp_path: Path, name: str, harm: str
) -> None:
    folder = write(tmp_path / "notes", a="one", b="two", c="three")
    whole = b'[{"id": 1,\n"text": "four"}]' if name == "d.json" else b"id,text\n1,four\n"
    whole = whole if name == "d.json" else gzip.compress(whole)
    file = folder / name
    file.write_bytes(whole)
    bring(corpus, folder)
    (before,) = (text for text in texts(corpus) if "four" in text)
    if harm == "a link":
        file.rename(tmp_path / name)
        file.symlink_to(tmp_path / name)
    else:
        harmed = {"cut off": whole[:-3], "not an archive": b"\x1f\x8b" + whole, "emptied": b""}
        file.write_bytes(harmed.get(harm, bytes(50)))
    (folder / "a.txt").unlink()
    with pytest.raises(LoaderError, match="is there and holds nothing") as error:
        bring(corpus, folder)
    assert "four" not in str(error.value)
    assert sorted(texts(corpus)) == sorted([before, "three", "two"])
    file.unlink()
    assert bring(corpus, folder).deleted == 1
    assert texts(corpus) == ["three", "two"]


def test_of_several_paths_one_that_is_not_mounted_deletes_nothing(
    corpus: Corpus, tmp_path: Path
) -> None:
    large = write(tmp_path / "large", **{f"a{n}": f"text {n}" for n in range(9)})
    small = write(tmp_path / "small", b="one")
    bring(corpus, large, small)
    (small / "b.txt").rename(tmp_path / "b.txt")
    with pytest.raises(MostGoneError, match="--deletions"):
        bring(corpus, large, small)
    (tmp_path / "b.txt").rename(small / "b.txt")
    bring(corpus, large, small)
    (large / "a0.txt").unlink()
    assert bring(corpus, large, small).deleted == 1
    (small / "b.txt").rename(large / "b.txt")  # what stands in another path is not gone
    assert bring(corpus, large, small).deleted == 0
    assert texts(corpus) == ["one", *(f"text {n}" for n in range(1, 9))]


def refusing(open: Callable[..., Any], name: str) -> Callable[..., Any]:
    def refused(path: Any, *args: Any, **options: Any) -> Any:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", str(path))
        return open(path, *args, **options)

    return refused


def test_every_file_may_be_edited_at_once(corpus: Corpus, tmp_path: Path) -> None:
    folder = write(tmp_path / "notes", a="one", b="two", c="three")
    bring(corpus, folder)
    write(folder, a="one!", b="two!", c="three!")
    assert bring(corpus, folder).deleted == 0
    assert texts(corpus) == ["one!", "three!", "two!"]


def test_what_another_source_holds_stays(corpus: Corpus, tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text('{"text": "shared"}\n{"text": "own"}\n{"text": "more"}\n')
    other.write_text('{"text": "shared"}\n')
    bring(corpus, one)
    bring(corpus, other)
    one.write_text('{"text": "own"}\n{"text": "more"}\n')
    assert bring(corpus, one).deleted == 0
    assert texts(corpus) == ["more", "own", "shared"]
    other.write_text("")
    assert bring(corpus, other, deletions=True).deleted == 1


def test_what_was_forgotten_stays_out_until_it_is_ingested_again(
    corpus: Corpus, tmp_path: Path
) -> None:
    folder = write(tmp_path / "notes", a="one", b="two", c="three")
    bring(corpus, folder)
    (unit,) = [record.unit for record in corpus.records() if record.text == "one"]
    corpus.delete_unit(unit)
    write(folder, d="four")
    bring(corpus, folder)
    assert texts(corpus) == ["four", "three", "two"]
    documents, held = FileSource.at([folder]).held(load(folder).documents)
    corpus.add(documents, held=held, no_ledger=True)
    assert texts(corpus) == ["four", "one", "three", "two"]
    bring(corpus, folder)
    assert texts(corpus) == ["four", "one", "three", "two"]


def test_a_copy_is_forgotten_alone(corpus: Corpus, tmp_path: Path) -> None:
    """A stranger answers a mail with its own words, so that both are one text of one unit."""
    same = b"From: a@b.org\nSubject: Plans\nDate: 1 Jan 2026 10:00:00 +0000\n\nThe same words\n"
    folder = write(tmp_path / "notes", other="other")
    (folder / "0.eml").write_bytes(b"Message-ID: <0@b.org>\n" + same)
    (folder / "1.eml").write_bytes(b"Message-ID: <1@b.org>\nReferences: <0@b.org>\n" + same)
    bring(corpus, folder)
    assert len(texts(corpus)) == 2
    corpus.forget_message("1@b.org", no_ledger=True)
    for _ in range(2):
        bring(corpus, folder)
        assert sorted(one.metadata.get("message_id", "") for one in corpus.records()) == [
            "", "<0@b.org>",
        ]  # fmt: skip


def test_a_file_that_is_edited_and_edited_back_was_not_forgotten(
    corpus: Corpus, tmp_path: Path
) -> None:
    folder = write(tmp_path / "notes", a="one", b="two", c="three")
    bring(corpus, folder)
    write(folder, a="one, edited")
    documents, held = FileSource.at([folder]).held(load(folder).documents)
    corpus.add(documents, held=held, no_ledger=True)  # `ingest`, which releases nothing
    write(folder, a="one")
    bring(corpus, folder)
    assert texts(corpus) == ["one", "three", "two"]


def test_before_deleting_is_called_before_it_and_only_then(corpus: Corpus, tmp_path: Path) -> None:
    folder = write(tmp_path / "notes", a="one", b="two", c="three")
    left: list[set[str]] = []

    def killed(units: set[str]) -> None:
        left.append(units)
        raise Killed

    bring(corpus, folder, before_deleting=killed)
    (folder / "a.txt").unlink()
    (unit,) = (record.unit for record in corpus.records() if record.text == "one")
    with pytest.raises(Killed):
        bring(corpus, folder, before_deleting=killed)
    assert left == [{unit}]
    assert texts(corpus) == ["one", "three", "two"]
    bring(corpus, folder)
    assert texts(corpus) == ["three", "two"]


def test_how_files_are_read_is_kept(corpus: Corpus, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("who,said\nann,one\nbo,two\n")
    bring(corpus, table, unit="who", text_field="said")
    (kept,) = map(FileSource.of, corpus.followed.sources())
    assert kept == FileSource.at([table], "who", "said")
    assert {record.unit for record in corpus.records()} == {"ann", "bo"}
    listed = tmp_path / "rows.json"
    listed.write_text('{"rows": [{"who": "cid", "said": "three"}], "count": 1}')
    bring(corpus, listed, unit="who", text_field="said", records="rows")
    kept = [FileSource.of(one).records for one in corpus.followed.sources()]
    assert sorted(map(str, kept)) == ["None", "rows"]
    assert {record.unit for record in corpus.records()} == {"ann", "bo", "cid"}


def test_another_unit_leaves_former_sources(tmp_path: Path, embedder: HashingEmbedder) -> None:
    corpus = Corpus.create("shop", tmp_path / "corpora", embedder=embedder)
    table = tmp_path / "rows.csv"
    table.write_text("who,text\nann,one\nann,two\nbo,three\n")
    bring(corpus, table)
    files = FileSource.at([table], "who")
    documents, held = files.held(load(table, unit="who").documents)
    corpus.add(documents, held=held, no_ledger=True, anew=True, joins="allow")
    table.write_text("who,text\nann,one\nbo,three\n")
    assert bring(corpus, table, unit="who").deleted == 1
    assert texts(corpus) == ["text: one\nwho: ann", "three"] or texts(corpus) == ["one", "three"]
    corpus.close()


def test_a_deleted_corpus_follows_nothing(corpus: Corpus, tmp_path: Path) -> None:
    bring(corpus, write(tmp_path / "notes", a="one"))
    corpus.close()
    Corpus.delete("mail", tmp_path / "chroma")
    made = Corpus.create("mail", tmp_path / "chroma", embedder=corpus.embedder)
    assert made.followed.sources() == []
    bring(made, tmp_path / "notes")
    assert texts(made) == ["one"]
    made.close()
