"""What belongs to a unit joins it whenever it comes, and the unit keeps what it has spent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import chromadb
import pytest

from dpicl_rag.auditing import Subject, SyntheticModel
from dpicl_rag.auditing.neighbours import compare
from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.adding import EmbeddingQueue
from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.register import Register
from dpicl_rag.corpora.storage import Storage
from dpicl_rag.documents import Document, Origin
from dpicl_rag.errors import CorpusError, LedgerError
from dpicl_rag.ledger import Ledger
from dpicl_rag.loaders import load
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import GivenDocuments, ThresholdRetriever
from dpicl_rag.stores.chroma_client import note_unit
from tests.unit.conftest import HashingEmbedder, units_of

SECRET = "plover-39"


def mail(number: int, subject: str, answers: str = "", day: int = 1) -> str:
    reply = f"In-Reply-To: {answers}\n" if answers else ""
    return (
        f"From ann@b.org Thu Jan  {day} 00:00:00 2026\nMessage-ID: <{number}@b.org>\n{reply}"
        f"From: ann@b.org\nDate: {day} Jan 2026 10:00:00 +0000\nSubject: {subject}\n\n"
        f"Mail {number} says {SECRET}.\n\n"
    )


QUESTION = mail(1, "Plans", day=1)
ANSWER = mail(2, "Something else", "<1@b.org>", day=2)
LATER = mail(3, "Another matter", "<2@b.org>", day=3)
ELSEWHERE = mail(9, "Lunch", day=2)


@pytest.fixture
def read(tmp_path: Path):
    """Documents of one load of a mailbox."""

    def load_mail(*messages: str, unit: str | None = None) -> list[Document]:
        path = tmp_path / "box.mbox"
        path.write_text("".join(messages))
        return load(path, unit=unit).documents

    return load_mail


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        opened.set_budget(corpus="mail", rho=2.0)
        yield opened


def units(corpus: Corpus) -> dict[str, list[str]]:
    """Which numbers of mails are in each unit."""
    found: dict[str, list[str]] = {}
    for record in corpus.records():
        found.setdefault(record.unit, []).append(record.text.partition("Mail ")[2][0])
    return {unit: sorted(numbers) for unit, numbers in found.items()}


def pay(ledger: Ledger, **unit_rho: float) -> None:
    with ledger.reserve(corpus="mail", rho=1.0, units=list(unit_rho)) as reservation:
        reservation.commit(1.0, list(unit_rho.values()))


def left(ledger: Ledger, unit: str) -> float:
    with ledger.reserve(corpus="mail", rho=2.0, at_least=1e-9, units=[unit]) as reservation:
        assert reservation.limits is not None
        return reservation.limits[0]


@pytest.mark.parametrize("order", list(itertools.permutations([QUESTION, ANSWER, LATER])))
def test_loads_in_any_order_give_one_unit(corpus: Corpus, read, order: Sequence[str]) -> None:
    for message in order:
        corpus.add(read(message, ELSEWHERE), no_ledger=True)
    assert sorted(units(corpus).values()) == [["1", "2", "3"], ["9"]]


def test_two_loads_in_one_call_give_one_unit(corpus: Corpus, read) -> None:
    corpus.add([*read(LATER), *read(ANSWER)])
    assert list(units(corpus).values()) == [["2", "3"]]


def test_a_subject_joins_what_comes_later(corpus: Corpus, read) -> None:
    corpus.add(read(mail(1, "Plans")))
    corpus.add(read(mail(2, "Re: plans", day=2)))
    assert list(units(corpus).values()) == [["1", "2"]]


def test_other_units_keep_their_names_whatever_comes(corpus: Corpus, read, tmp_path: Path) -> None:
    alone = Corpus.create("alone", tmp_path / "chroma", embedder=HashingEmbedder())
    alone.add(read(ELSEWHERE))
    for message in (LATER, QUESTION, ANSWER, ELSEWHERE):
        corpus.add(read(message), no_ledger=True)
    assert set(units(alone)) <= set(units(corpus))


def test_adding_again_after_units_became_one_adds_nothing(
    corpus: Corpus, read, embedder: HashingEmbedder
) -> None:
    for message in (QUESTION, LATER, ANSWER):
        corpus.add(read(message), no_ledger=True)
    before, embedded = units(corpus), embedder.embedded
    for _ in range(2):
        for message in (QUESTION, ANSWER, LATER):
            assert corpus.add(read(message)).passages == 0
        assert corpus.add(read(LATER, QUESTION, ANSWER)).passages == 0
    assert units(corpus) == before
    assert embedder.embedded == embedded


def test_a_unit_of_a_former_name_joins_as_well(corpus: Corpus, read) -> None:
    corpus.add(read(QUESTION))
    (one,) = units(corpus)
    corpus.add(read(LATER))
    corpus.add(read(ANSWER), no_ledger=True)
    (stays,) = units(corpus)
    corpus.add([Document("Mail 4 by hand", name) for name in (one, stays)])
    assert len(units(corpus)) == 1


def test_spend_is_joined(corpus: Corpus, read, ledger: Ledger) -> None:
    corpus.add(read(QUESTION), ledger=ledger)
    corpus.add(read(LATER), ledger=ledger)
    one, other = units(corpus)
    pay(ledger, **{one: 0.25, other: 0.09})
    corpus.add(read(ANSWER), ledger=ledger)
    (unit,) = units(corpus)
    # Both may have been in the same answers: (0.5 + 0.3)^2.
    assert left(ledger, unit) == pytest.approx(2.0 - 0.64, abs=1e-8)


def test_without_the_ledger_it_is_refused_and_nothing_changes(
    corpus: Corpus, read, ledger: Ledger
) -> None:
    corpus.add(read(QUESTION))
    corpus.add(read(LATER))
    before = corpus.records()
    with pytest.raises(CorpusError, match="give the ledger") as caught:
        corpus.add(read(ANSWER))
    assert SECRET not in str(caught.value)
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        corpus.add(read(ANSWER), ledger=ledger)
    assert corpus.records() == before


class _KilledError(BaseException):
    """Stands for a kill: nothing that follows in the process runs."""


STEPS = [
    (Ledger, "merge_units"),
    (Contents, "merge"),
    (Register, "merge"),
    (Register, "record"),
    (Storage, "_apply"),
    (EmbeddingQueue, "run"),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].__name__}.{step[1]}")
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_kill_between_the_steps_loses_nothing(
    corpus: Corpus, read, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, step, done: bool
) -> None:
    corpus.add(read(QUESTION), ledger=ledger)
    corpus.add(read(LATER), ledger=ledger)
    one, other = units(corpus)
    pay(ledger, **{one: 0.25, other: 0.09})
    kind, name = step
    original = getattr(kind, name)

    def killed(*arguments, **options):
        if done:
            original(*arguments, **options)
        raise _KilledError

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, killed)
        with pytest.raises(_KilledError):
            corpus.add(read(ANSWER), ledger=ledger)
    assert sorted(itertools.chain(*units(corpus).values())) in (["1", "3"], ["1", "2", "3"])
    # Whatever they are called by now, no unit has more left than it had.
    assert left(ledger, one) <= 1.75
    assert left(ledger, other) <= 1.91
    corpus.add(read(ANSWER), ledger=ledger)
    (unit,) = units(corpus)
    assert left(ledger, unit) == pytest.approx(2.0 - 0.64, abs=1e-8)
    assert units(corpus) == {unit: ["1", "2", "3"]}


def test_a_forgotten_unit_is_known_when_it_comes_back(corpus: Corpus, read, ledger: Ledger) -> None:
    corpus.add(read(QUESTION), ledger=ledger)
    (unit,) = units(corpus)
    pay(ledger, **{unit: 0.5})
    corpus.delete_unit(unit)
    ledger.forget_units("mail", [unit])
    corpus.add(read(ANSWER), ledger=ledger)
    assert list(units(corpus)) == [unit]
    assert left(ledger, unit) == 1.5


def test_forgetting_by_a_former_name(corpus: Corpus, read) -> None:
    corpus.add(read(QUESTION))
    (first,) = units(corpus)
    corpus.add(read(LATER))
    second = next(iter(set(units(corpus)) - {first}))
    corpus.add(read(ANSWER, ELSEWHERE), no_ledger=True)
    for name in (first, second):
        corpus.delete_unit(name)
    assert list(units(corpus).values()) == [["9"]]


def test_given_documents_of_two_loads_are_one_unit(read) -> None:
    given = GivenDocuments([*read(LATER), *read(ANSWER), *read(ELSEWHERE)])
    found = given.retrieve("?")
    assert found[0].unit == found[1].unit != found[2].unit


def test_keys_outlive_the_texts_as_hashes(corpus: Corpus, read, tmp_path: Path) -> None:
    corpus.add(read(QUESTION))
    (unit,) = units(corpus)
    corpus.delete_unit(unit)
    corpus.close()
    held = b"".join(path.read_bytes() for path in (tmp_path / "chroma").iterdir())
    for text in ("Plans", "plans", "b.org", SECRET):
        assert text.encode() not in held
    corpus.add(read(ANSWER))
    assert list(units(corpus)) == [unit]


def test_keys_outlive_a_deleted_corpus(corpus: Corpus, read, tmp_path: Path) -> None:
    corpus.add(read(QUESTION))
    (unit,) = units(corpus)
    corpus.close()
    Corpus.delete("mail", tmp_path / "chroma")
    assert Corpus.names(tmp_path / "chroma") == []
    again = Corpus.create("mail", tmp_path / "chroma", embedder=HashingEmbedder())
    again.add(read(ANSWER))
    assert list(units(again)) == [unit]


def test_an_older_corpus_that_has_one_conversation_in_two_units_is_repaired(
    corpus: Corpus, read, tmp_path: Path, ledger: Ledger
) -> None:
    for number, subject in ((1, "Plans"), (2, "Re: Plans")):
        (document,) = read(mail(number, subject))
        # As if each load had resolved it by itself, under keys that nobody kept.
        thread = f"thread {number}"
        corpus.add([Document(document.text, thread, {**document.metadata, "thread": thread})])
    pay(ledger, **{"thread 1": 0.25, "thread 2": 0.25})
    corpus.add(read(ELSEWHERE), ledger=ledger)
    assert sorted(units(corpus).values()) == [["1", "2"], ["9"]]
    assert left(ledger, "thread 1") == left(ledger, "thread 2") == pytest.approx(1.0)


class TestKindOfUnit:
    """A corpus has one kind of privacy unit."""

    def test_another_is_refused(self, corpus: Corpus, read) -> None:
        corpus.add(read(QUESTION, unit="sender"))
        with pytest.raises(CorpusError, match=r"of 'mail' is the same sender, not one document"):
            corpus.add(read(QUESTION))
        corpus.add(read(QUESTION, unit="sender"))
        assert len(corpus.records()) == 1

    def test_two_in_one_call_are_refused(self, corpus: Corpus, read) -> None:
        with pytest.raises(
            CorpusError, match="different privacy units, the same sender and one doc"
        ):
            corpus.add([*read(QUESTION, unit="sender"), *read(QUESTION)])

    def test_threads_and_documents_go_together(self, corpus: Corpus, read, tmp_path: Path) -> None:
        corpus.add(read(QUESTION))
        (tmp_path / "note.txt").write_text("Mail 7 in a note")
        corpus.add(load(tmp_path / "note.txt", unit="document").documents)
        corpus.add(["Mail 8 in a string"])
        assert len(units(corpus)) == 3

    def test_mail_by_document_is_another(self, corpus: Corpus, read) -> None:
        corpus.add(read(QUESTION))
        with pytest.raises(CorpusError, match="not one document"):
            corpus.add(read(QUESTION, unit="document"))

    def test_it_outlives_the_object(self, corpus: Corpus, read, tmp_path: Path) -> None:
        corpus.add(read(QUESTION, unit="sender"))
        again = Corpus.open("mail", tmp_path / "chroma", embedder=HashingEmbedder())
        with pytest.raises(CorpusError, match="the same sender"):
            again.add(read(QUESTION))

    def test_given_by_hand_there_is_nothing_to_refuse(self, corpus: Corpus) -> None:
        corpus.add([Document("one", "ann"), Document("two", "thread 7")])
        corpus.add([Document("three", "x", origin=Origin(keys=("unit ann",)))])
        assert len(units_of(corpus)) == 2


class TestCollectionsOfOthers:
    @pytest.fixture
    def collection(self, tmp_path: Path, embedder) -> Iterator[chromadb.Collection]:
        with chromadb.PersistentClient(tmp_path / "theirs") as client:
            made = client.create_collection(
                "theirs", metadata={"hnsw:space": "cosine", "of": "them"}, embedding_function=None
            )
            fields = [{"patient": "p1", "ward": "w1"}]
            made.add(["r1"], embeddings=embedder.embed(["x"]), documents=["x"], metadatas=fields)
            yield made

    def test_the_unit_on_record_stays(
        self, collection: chromadb.Collection, embedder: HashingEmbedder
    ) -> None:
        Corpus.from_collection(collection, unit_field="ward", embedder=embedder)
        assert collection.metadata == {"of": "them", "hnsw:space": "cosine"}
        note_unit(collection, "patient")
        for _ in range(2):
            corpus = Corpus.from_collection(collection, unit_field="patient", embedder=embedder)
            assert units_of(corpus) == ["p1"]
        with pytest.raises(CorpusError, match="of 'theirs' is the same patient, not the sa"):
            Corpus.from_collection(collection, unit_field="ward", embedder=embedder)
        again = collection._client.get_collection("theirs")
        assert again.metadata == {"of": "them", "dpicl_privacy_unit": "patient"}
        assert collection.configuration["hnsw"]["space"] == "cosine"


class TestRows:
    """The key of a row names its unit."""

    @pytest.fixture
    def rows(self, tmp_path: Path):
        def read_rows(*lines: str, name: str = "t.csv", **options: str) -> list[Document]:
            path = tmp_path / name
            path.write_text("\n".join(lines) + "\n")
            return load(path, **options).documents

        return read_rows

    def texts(self, corpus: Corpus) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for record in corpus.records():
            found.setdefault(record.unit, []).append(record.text)
        return found

    @pytest.mark.parametrize(
        ("column", "options"), [("id", {}), ("ID", {}), ("uuid", {}), ("nr", {"key_field": "nr"})]
    )
    def test_an_edited_row_takes_its_place_and_keeps_its_spend(
        self, corpus: Corpus, rows, ledger: Ledger, column: str, options: dict[str, str]
    ) -> None:
        head = f"{column},text"
        corpus.add(rows(head, "1,has a cough", "2,is well", **options), ledger=ledger)
        (unit,) = [u for u, found in self.texts(corpus).items() if found == ["has a cough"]]
        pay(ledger, **{unit: 0.5})
        corpus.add(rows(head, "1,has the flu", "2,is well", **options), ledger=ledger)
        found = self.texts(corpus)
        assert found[unit] == ["has the flu"]
        assert sorted(found.values()) == [["has the flu"], ["is well"]]
        assert left(ledger, unit) == 1.5

    @pytest.mark.parametrize("by_hand_first", [True, False])
    def test_a_unit_given_by_hand_as_a_table_writes_it_is_the_same(
        self, corpus: Corpus, rows, by_hand_first: bool
    ) -> None:
        """``5.0`` of a table is the unit 5, whose name a program has from the same column."""
        parts = [[Document("is tired", "5.0")], rows("nr,text", "5.0,has a cough", unit="nr")]
        for part in parts if by_hand_first else reversed(parts):
            corpus.add(part, no_ledger=True)
        assert sorted(*self.texts(corpus).values()) == ["has a cough", "is tired"]

    @pytest.mark.parametrize("origin", ["file", "hand"])
    def test_a_row_takes_no_place_of_another_unit(self, corpus: Corpus, rows, origin: str) -> None:
        """A stranger's row of the same file's name and key, and one that stands above."""
        head, options = "id,customer,text", {"unit": "customer"}
        of_ann = rows(head, "1,Ann,has a cough", **options)
        of_bo = rows(head, "1,Bo,is well", **options)
        if origin == "hand":
            of_bo = [replace(of_bo[0], origin=of_ann[0].origin)]
        for documents in (of_ann, of_bo, of_ann):
            corpus.add(documents)
        assert self.texts(corpus) == {"Ann": ["has a cough"], "Bo": ["is well"]}
        if origin == "file":
            corpus.add(rows(head, "1,Bo,is well", "1,Ann,has the flu", **options))
            assert self.texts(corpus) == {"Ann": ["has the flu"], "Bo": ["is well"]}

    def test_the_same_key_in_another_file_is_the_same_unit_and_both_texts_stay(
        self, corpus: Corpus, rows
    ) -> None:
        corpus.add(rows("id,text", "1,in January", name="jan.csv"))
        corpus.add(rows("id,text", "1,in February", name="feb.csv"))
        assert [sorted(texts) for texts in self.texts(corpus).values()] == [
            ["in February", "in January"]
        ]

    def test_rows_that_share_a_key_are_one_unit_and_none_is_lost(
        self, corpus: Corpus, rows
    ) -> None:
        documents = rows("id,text", "1,first", "1,second", "2,third")
        for document in documents:
            corpus.add([document])
        assert sorted(map(sorted, self.texts(corpus).values())) == [["first", "second"], ["third"]]

    def test_a_key_that_is_named_later_finds_the_row(self, corpus: Corpus, rows) -> None:
        corpus.add(rows("nr,text", "1,has a cough"))
        corpus.add(rows("nr,text", "1,has a cough", key_field="nr"))
        corpus.add(rows("nr,text", "1,has the flu", key_field="nr"))
        assert list(self.texts(corpus).values()) == [["has the flu"]]

    def test_a_row_of_a_patient_is_replaced_alone(self, corpus: Corpus, rows) -> None:
        for word in ("old", "new"):
            corpus.add(rows("id,name,text", "1,ann,cough", f"2,ann,{word}", unit="name"))
        assert {u: sorted(t) for u, t in self.texts(corpus).items()} == {"ann": ["cough", "new"]}

    def test_an_edited_file_takes_its_place(self, corpus: Corpus, tmp_path: Path) -> None:
        for text in ("before", "after"):
            (tmp_path / "note.txt").write_text(text)
            corpus.add(load(tmp_path / "note.txt").documents)
        assert list(self.texts(corpus).values()) == [["after"]]

    def test_files_of_two_folders_stay(self, corpus: Corpus, tmp_path: Path) -> None:
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "note.txt").write_text(f"in {folder}")
            corpus.add(load(tmp_path / folder).documents)
        assert sorted(self.texts(corpus).values()) == [["in a"], ["in b"]]

    def test_without_a_key_an_edited_row_is_a_new_unit_and_others_stay(
        self, corpus: Corpus, rows
    ) -> None:
        corpus.add(rows("name,text", "ann,cough", "bob,well"))
        before = self.texts(corpus)
        corpus.add(rows("name,text", "new,row", "ann,flu", "bob,well"))
        found = self.texts(corpus)
        assert len(found) == 4
        assert {unit: found[unit] for unit in before} == before


# ---- the mechanism ----

SIZE = 3


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """An expert that has read the secret is sure of one token; without one nothing is likely."""
    return [0.0 if t == 1 else -40.0 for t in range(SIZE)] if SECRET in text else [0.0, -9.0, -9.0]


@pytest.mark.parametrize("accounting", ["fixed", "individual"])
@pytest.mark.parametrize("order", [(QUESTION, LATER, ANSWER), (LATER, ANSWER)])
def test_a_conversation_loses_no_more_than_it_is_charged(
    corpus: Corpus, read, tmp_path: Path, order: Sequence[str], accounting: str
) -> None:
    """Exact: all that the mails say is in one of the neighbours and not in the other."""
    apart = Corpus.create("apart", tmp_path / "chroma", embedder=HashingEmbedder())
    for message in order:
        corpus.add(read(message), no_ledger=True)
    subject = Subject(
        SyntheticModel(SIZE, speech, stop_tokens=frozenset({2})),
        "Which token?",
        {"max_tokens": 2, "epsilon": 2.0, "utility": "surplus", "accounting": accounting},
        pipeline=lambda found: ThresholdRetriever(found, -1.0),
    )
    worst = 0.0
    for path in itertools.product(range(2), repeat=2):
        traces = (subject.follow(found, path) for found in (corpus, apart))
        worst = max(worst, compare(*traces)[0])
    assert 0.9 <= worst <= 1 + 1e-9


def test_a_conversation_is_reserved_once(corpus: Corpus, read, ledger: Ledger, tiny_model) -> None:
    for message in (LATER, QUESTION, ANSWER):
        corpus.add(read(message), ledger=ledger)
    llm = PrivateContextLLM(tiny_model, ledger=ledger, corpus="mail", max_tokens=2, epsilon=1.0)
    answer = llm.answer("Which plans?", ThresholdRetriever(corpus, -1.0))
    (unit,) = units(corpus)
    assert 2.0 - left(ledger, unit) <= answer.rho
