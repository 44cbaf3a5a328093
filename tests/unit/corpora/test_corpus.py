import json
import logging
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.adding import Ingested
from dpicl_rag.corpora.contents import Contents
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.stored_record import NO_VECTOR, Defect
from dpicl_rag.retrieval.vectors import on_grid
from tests.unit.conftest import HashingEmbedder, seen, units_of

SECRET = "plover-39"
LONG = " ".join(f"Sentence number {number} is here." for number in range(100))
NOTES = [
    Document("a refund takes five days", "thread 1", {"owner": "ann"}),
    Document("the warehouse opens at eight", "thread 2", {"owner": "bob"}),
]


def texts(corpus: Corpus) -> dict[str, list[str]]:
    records = sorted(corpus.records(), key=lambda r: int(r.id.rpartition("-")[2]))
    return {
        unit: [document.text for document in documents]
        for unit, documents in group_by_unit(Document(r.text, r.unit) for r in records).items()
    }


def sizes(corpus: Corpus) -> tuple[int, int, int]:
    """Number of units, documents and passages."""
    records = corpus.records()
    documents = {record.id.rpartition("-")[0] for record in records}
    return len(units_of(corpus)), len(documents), len(records)


def test_what_is_added_is_what_questions_find(corpus: Corpus, embedder: HashingEmbedder) -> None:
    assert corpus.add(NOTES) == Ingested(documents=2, empty=0, passages=2, known=0)
    assert texts(corpus) == {note.unit: [note.text] for note in NOTES}
    found = seen(corpus)
    assert found.keys() == {note.text for note in NOTES}
    for text, passage in found.items():
        assert np.array_equal(passage.vector, on_grid(embedder.embed([text]))[0])
    assert sizes(corpus) == (2, 2, 2)


def test_a_long_document_is_cut_and_its_passages_share_the_unit(corpus: Corpus) -> None:
    corpus.add([Document(LONG, "thread 1")])
    passages = texts(corpus)["thread 1"]
    assert len(passages) > 3
    assert all(len(passage) <= 800 for passage in passages)
    assert sizes(corpus) == (1, 1, len(passages))


def test_adding_again_embeds_nothing_and_duplicates_nothing(
    corpus: Corpus, embedder: HashingEmbedder
) -> None:
    corpus.add([*NOTES, Document(LONG, "thread 3")])
    before, embedded = texts(corpus), embedder.embedded
    result = corpus.add([Document(LONG, "thread 3"), *reversed(NOTES)])
    assert result.passages == 0
    assert result.known == embedded
    assert embedder.embedded == embedded
    assert texts(corpus) == before


def test_equal_texts_in_two_units_are_two_passages(corpus: Corpus) -> None:
    corpus.add([Document("same", "thread 1"), Document("same", "thread 2")])
    assert texts(corpus) == {"thread 1": ["same"], "thread 2": ["same"]}


def test_equal_strings_are_units_of_their_own(corpus: Corpus) -> None:
    corpus.add(["same", "same", "other"])
    assert len(units_of(corpus)) == 3


def test_changed_metadata_is_updated_without_embedding(
    corpus: Corpus, embedder: HashingEmbedder
) -> None:
    corpus.add(NOTES)
    embedded = embedder.embedded
    corpus.add([Document(NOTES[0].text, NOTES[0].unit, {"folder": "sent"})])
    assert embedder.embedded == embedded
    (document,) = [
        d for d in ThresholdRetriever(corpus, -1).retrieve("q") if d.unit == NOTES[0].unit
    ]
    assert document.metadata == {"folder": "sent"}


def test_documents_without_text_are_counted(corpus: Corpus) -> None:
    result = corpus.add([Document(" \n", "thread 1"), *NOTES])
    assert result == Ingested(documents=3, empty=1, passages=2, known=0)
    assert corpus.add([]) == Ingested(0, 0, 0, 0)


def test_progress_counts_passages_up_to_all(corpus: Corpus) -> None:
    seen: list[tuple[int, int]] = []
    documents = [Document(f"note {number}", f"thread {number}") for number in range(150)]
    corpus.add(documents[:10])
    corpus.add(documents, lambda done, total: seen.append((done, total)))
    assert seen == [(10, 150), (74, 150), (138, 150), (150, 150)]


class Interrupted(HashingEmbedder):
    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        if self.embedded >= 128:
            raise KeyboardInterrupt
        return super().embed(texts, query=query)


def test_an_interrupted_ingest_goes_on_where_it_stopped(tmp_path: Path) -> None:
    documents = [Document(f"note {number}", f"thread {number}") for number in range(200)]
    with pytest.raises(KeyboardInterrupt):
        Corpus.create("mail", tmp_path, embedder=Interrupted()).add(documents)
    embedder = HashingEmbedder()
    corpus = Corpus.open("mail", tmp_path, embedder=embedder)
    assert len(corpus.records()) == 128
    assert corpus.add(documents).known == 128
    assert embedder.embedded == 72
    assert len(corpus.records()) == 200


def test_deleting_a_unit_removes_all_of_it_and_nothing_else(corpus: Corpus) -> None:
    corpus.add([*NOTES, Document(LONG, "thread 1")])
    seen(corpus)
    corpus.delete_unit("thread 1")
    corpus.delete_unit("not there")
    assert texts(corpus) == {"thread 2": [NOTES[1].text]}


def test_a_corpus_outlives_its_object(tmp_path: Path, embedder: HashingEmbedder) -> None:
    first = Corpus.create("mail", tmp_path, embedder=embedder, chunk_size=50, chunk_overlap=0)
    first.add([Document(LONG, "thread 1")])
    again = Corpus.create("mail", tmp_path, embedder=embedder)
    assert texts(again) == texts(first)
    # The lengths it was made with hold, or the same document would be stored twice.
    assert again.add([Document(LONG, "thread 1")]).passages == 0


def test_names(tmp_path: Path, embedder: HashingEmbedder) -> None:
    path = tmp_path / "not" / "there"
    assert Corpus.names(path) == []
    assert not path.exists()
    for name in ("mail", "cases", "b.2-x_y"):
        Corpus.create(name, path, embedder=embedder)
    assert Corpus.names(path) == ["b.2-x_y", "cases", "mail"]


def test_the_folder_is_the_owners_alone(tmp_path: Path, embedder: HashingEmbedder) -> None:
    Corpus.create("mail", tmp_path / "chroma", embedder=embedder)
    assert stat.S_IMODE((tmp_path / "chroma").stat().st_mode) == 0o700


def test_default_folder(
    tmp_path: Path, embedder: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dpicl_rag.corpora.folder.user_data_dir", lambda *_, **__: str(tmp_path / "data")
    )
    Corpus.create("mail", embedder=embedder)
    assert (tmp_path / "data" / "corpora" / "mail.corpus").is_file()
    assert Corpus.names() == ["mail"]


def test_an_unknown_corpus_names_the_known_ones(tmp_path: Path, embedder: HashingEmbedder) -> None:
    with pytest.raises(CorpusError, match=r"no corpus named 'mial'; there is none yet"):
        Corpus.open("mial", tmp_path / "chroma", embedder=embedder)
    assert not (tmp_path / "chroma").exists()
    Corpus.create("mail", tmp_path / "chroma", embedder=embedder)
    Corpus.create("cases", tmp_path / "chroma", embedder=embedder)
    with pytest.raises(CorpusError, match=r"no corpus named 'mial'; there are: cases, mail\."):
        Corpus.open("mial", tmp_path / "chroma", embedder=embedder)


@pytest.mark.parametrize("name", ["", "ab", "-ab", "a b c", "../mail", "ab/", "é" * 4, "a" * 513])
def test_invalid_names(tmp_path: Path, embedder: HashingEmbedder, name: str) -> None:
    for make in (Corpus.create, Corpus.open):
        with pytest.raises(CorpusError, match="the name of a corpus is"):
            make(name, tmp_path, embedder=embedder)


def test_another_embedder_is_refused(tmp_path: Path) -> None:
    Corpus.create("mail", tmp_path, embedder=HashingEmbedder("one"))
    for make in (Corpus.create, Corpus.open):
        with pytest.raises(CorpusError, match=r"embedded with one, not with two; open it with"):
            make("mail", tmp_path, embedder=HashingEmbedder("two"))


def test_chunk_lengths_out_of_range(tmp_path: Path, embedder: HashingEmbedder) -> None:
    with pytest.raises(ConfigurationError, match="overlap"):
        Corpus.create("mail", tmp_path, embedder=embedder, chunk_size=10, chunk_overlap=9)


def test_a_file_in_the_way(tmp_path: Path, embedder: HashingEmbedder) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(CorpusError, match="cannot be opened"):
        Corpus.create("mail", tmp_path / "file", embedder=embedder)


def test_a_damaged_database_is_one_clear_error(tmp_path: Path, embedder: HashingEmbedder) -> None:
    (tmp_path / "mail.corpus").write_bytes(b"not a database" * 100)
    with pytest.raises(CorpusError, match=r"not a corpus|is damaged"):
        Corpus.open("mail", tmp_path, embedder=embedder)


def test_broken_text_is_stored_with_replacements(corpus: Corpus) -> None:
    corpus.add([Document("caf\udce9", "thread 1", {"owner": "\udce9"})])
    assert texts(corpus) == {"thread 1": ["caf?"]}


def test_units_with_broken_names_stay_apart(corpus: Corpus) -> None:
    units = ["a\udce9", "a\udcea", "a?"]
    corpus.add([Document(f"note {number}", unit) for number, unit in enumerate(units)])
    assert len(units_of(corpus)) == 3
    corpus.delete_unit(units[0])
    assert sorted(record.text for record in corpus.records()) == ["note 1", "note 2"]


def test_errors_carry_no_text(
    corpus: Corpus, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    corpus.add([Document(f"text {SECRET}", f"unit {SECRET}")])
    corpus.close()
    path = tmp_path / "chroma" / "mail.corpus"
    path.write_bytes(path.read_bytes().replace(b"text plover", b"text clover"))
    with pytest.raises(CorpusError, match="it is damaged; restore it") as caught:
        corpus.records()
    assert "lover-39" not in str(caught.value) + repr(caught.value) + caplog.text


def test_a_field_without_a_name(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match="metadata field without a name"):
        corpus.add([Document("text", "unit", {"": "value"})])


def test_logs_carry_no_text(
    corpus: Corpus, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    corpus.add([Document(f"text {SECRET}", f"unit {SECRET}", {"owner": SECRET})])
    assert ThresholdRetriever(corpus, -1).retrieve("q")
    corpus.delete_unit(f"unit {SECRET}")
    captured = capfd.readouterr()
    assert SECRET not in caplog.text + captured.out + captured.err + repr(corpus)


@pytest.mark.heavy
def test_the_default_embedder_finds_the_right_thread(tmp_path: Path) -> None:
    corpus = Corpus.create("mail", tmp_path)
    assert isinstance(corpus.embedder, SentenceTransformerEmbedder)
    corpus.add(NOTES)
    found = ThresholdRetriever(corpus, 0.4).retrieve("How long until I get my money back?")
    assert [document.unit for document in found] == ["thread 1"]


def test_what_a_corpus_says_of_itself_is_public(corpus: Corpus) -> None:
    corpus.add(NOTES)
    meta = corpus._storage.read(lambda connection: Contents(connection).meta())
    size = meta.pop("version, dimensions, rows, passages")
    assert size[1:] == [16, 2, 2]
    assert json.dumps(meta, sort_keys=True) == (
        '{"embedder": "hashing", "name": "mail", "overlap": 80, "public": false, "size": 800}'
    )


def test_names_too_long_for_a_file(tmp_path: Path, embedder: HashingEmbedder) -> None:
    names = ["a" * 511 + last for last in "bc"]
    for name in names:
        Corpus.create(name, tmp_path, embedder=embedder).add([name[-1]])
    assert Corpus.names(tmp_path) == names
    opened = Corpus.open(names[1], tmp_path, embedder=embedder)
    assert [record.text for record in opened.records()] == ["c"]


def test_passages_keep_short_fields_alone(corpus: Corpus) -> None:
    # Else a table's long text is stored as often as it has passages.
    words = "word " * 10_000
    fields = {"owner": "ann", "text": words, "n" * 2_000: "x"}
    many = {f"field {number:04}": "x" * 90 for number in range(1_000)}
    corpus.add([Document(words, "one", fields), Document("a note", "two", many)])
    kept = {record.unit: record.metadata for record in corpus.records()}
    assert kept["one"] == {"owner": "ann"}
    assert sorted(kept["two"]) == [*many][:160]


def test_a_field_that_grew_long_is_forgotten(corpus: Corpus) -> None:
    corpus.add([Document("a note", "one", {"owner": "ann"})])
    corpus.add([Document("a note", "one", {"owner": "ann " * 1_000})])
    assert [record.metadata for record in corpus.records()] == [{}]


def test_a_passage_that_no_question_finds_is_named_to_the_owner(tmp_path: Path) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    corpus.add(NOTES)
    assert corpus.check() == []

    class Blank(HashingEmbedder):
        def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
            return super().embed(texts) * np.array([[text != "?"] for text in texts])

    blank = Corpus.open("mail", tmp_path, embedder=Blank())
    blank.add([Document("?", "four")])
    ((defect,), (record,)) = blank.check(), [r for r in blank.records() if r.unit == "four"]
    assert defect == Defect(record.id, NO_VECTOR)
