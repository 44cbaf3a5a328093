"""Joins ask, are listed and undone; what arrives in parts is what arrives at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl_rag import CorpusError, Document
from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.holdings import Held, Holding, StoredSource
from dpicl_rag.corpora.register import Register
from dpicl_rag.corpora.storage import Storage
from dpicl_rag.documents import Origin
from dpicl_rag.ledger import Ledger
from dpicl_rag.loaders import load
from tests.unit.conftest import units_of

SECRET = "plover-39"


def mail(name: str, *ties: str, offers: Sequence[str] = (), thread: str = "") -> Document:
    """A message with keys of its own and of those that it answers."""
    return Document(
        f"Mail {name} says {SECRET}.",
        thread or f"thread {name}",
        {"subject": f"About {name}", "message_id": f"<{name}@b.org>"},
        Origin(
            "thread or document",
            (f"id {name}", *(f"id {t}" for t in ties)),
            tuple(offers),
            alone=(0.0, name, f"thread {name}"),
        ),
    )


class Book:
    """A ledger as far as joins go: which names share an account, and how often it was told so."""

    def __init__(self) -> None:
        self.root: dict[str, str] = {}
        self.told: list[object] = []

    def merge_units(self, corpus: str, survivors: Mapping[str, str]) -> None:
        self.told.append(dict(survivors))
        for goes, stays in survivors.items():
            one, other = self.account(goes), self.account(stays)
            self.root.update(
                {name: other for name in (*self.root, goes) if self.account(name) == one}
            )

    def separate_units(self, corpus: str, units: Sequence[str]) -> None:
        self.told.append(sorted(units))
        for unit in units:
            self.root.pop(unit, None)

    def account(self, unit: str) -> str:
        return self.root.get(unit, unit)


@pytest.fixture
def book() -> Book:
    return Book()


def parts(corpus: Corpus) -> list[list[str]]:
    """Which mails are together."""
    found: dict[str, list[str]] = {}
    for record in corpus.records():
        found.setdefault(record.unit, []).append(record.text.split()[1])
    return sorted(sorted(names) for names in found.values())


def unit_of(corpus: Corpus, name: str) -> str:
    (unit,) = {record.unit for record in corpus.records() if record.text.split()[1] == name}
    return unit


def kept(corpus: Corpus) -> tuple[object, ...]:
    """All that a corpus holds."""
    with closing(sqlite3.connect(corpus._storage.path)) as tables:
        return tuple(
            sorted(map(repr, tables.execute(f"SELECT * FROM {table}")))
            for table in ("unit", "document", "passage", "unit_key", "offer", "parted", "tie")
        )


class TestAsking:
    def test_what_ties_many_units_is_withheld_and_the_rest_is_stored(
        self, corpus: Corpus, book: Book
    ) -> None:
        names = [f"n{number}" for number in range(6)]
        corpus.add([mail(name) for name in names])
        coming = [mail("stranger", *names), mail("other"), mail("late", "n1")]
        added = corpus.add(coming, ledger=book)  # type: ignore[arg-type]
        assert parts(corpus) == [
            ["late", "n1"],
            ["n0"],
            *([f"n{n}"] for n in range(2, 6)),
            ["other"],
        ]
        assert book.told == []
        (join,) = added.withheld
        assert sorted((join.unit, *join.parts)) == [f"thread {name}" for name in names]
        assert [fields["subject"] for fields in join.documents.values()] == ["About stranger"]
        assert (added.documents, added.passages, added.joins) == (3, 2, ())
        assert not any(word in repr(join) for word in (SECRET, "About", "thread n", "b.org", "6"))
        corpus.add(coming, ledger=book, joins="allow")  # type: ignore[arg-type]
        assert parts(corpus) == [sorted([*names, "late", "stranger"]), ["other"]]

    @pytest.mark.parametrize("copies", [1, 3])
    def test_the_corpus_is_as_if_it_had_not_come(
        self, corpus: Corpus, tmp_path: Path, copies: int
    ) -> None:
        """Whatever comes with it, and under the name that it gave to all that it is tied to."""
        without = Corpus.create("without", tmp_path / "chroma", embedder=corpus.embedder)
        tying = [mail(f"s{n}", *"abcde", thread="thread a") for n in range(copies)]
        for target, more in ((corpus, tying), (without, [])):
            target.add([mail(name) for name in "abcd"])
            name = "thread a" if more else "thread e"
            added = target.add([mail("e", thread=name), *more, mail("f", "e", thread=name)])
            assert len(added.withheld) == len(more)
        assert parts(corpus) == parts(without) == [["a"], ["b"], ["c"], ["d"], ["e", "f"]]
        assert units_of(corpus) == units_of(without)
        late = [mail("z", "e"), mail("y", "a")]
        for target in (corpus, without):
            target.add(late)
        assert parts(corpus) == parts(without)

    def test_what_is_withheld_stands_nowhere(self, corpus: Corpus) -> None:
        """So it is looked at again, and stored when its owner accepts it or others are gone."""
        corpus.add([mail(name) for name in "abcd"])
        tie = mail("s", *"abcd")
        tie = replace(tie, origin=replace(tie.origin, place="p"))
        held = Held(StoredSource("s", "imap", "{}"), [Holding("p", "s", "", "")])
        assert corpus.add([tie], held=held).withheld
        assert corpus.followed.held("s") == []
        assert not corpus.add([tie], held=held, no_ledger=True, joins="allow").withheld
        assert [one.id for one in corpus.followed.held("s")] == ["p"]

    def test_a_late_reply_is_not_withheld(self, corpus: Corpus) -> None:
        corpus.add([mail("a"), mail("b"), mail("c")])
        added = corpus.add([mail("d", "a", "b", "c")], no_ledger=True)
        assert parts(corpus) == [["a", "b", "c", "d"]]
        (join,) = added.joins
        assert len(join.parts) == 2

    def test_small_steps_are_counted(self, corpus: Corpus) -> None:
        corpus.add([mail(name) for name in "abcd"])
        corpus.add([mail("x", "a", "b", "c")], no_ledger=True)
        assert corpus.add([mail("y", "x", "d")]).withheld
        assert corpus.add([mail("z", "x")]).withheld == ()
        assert parts(corpus) == [["a", "b", "c", "x", "z"], ["d"]]

    def test_small_steps_of_one_call_are_counted(self, corpus: Corpus) -> None:
        names = [f"n{number}" for number in range(8)]
        corpus.add([mail(name) for name in names])
        steps = [mail(f"s{n}", f"n{n}", f"n{n + 1}") for n in range(7)]
        added = corpus.add(steps, no_ledger=True)
        assert added.withheld
        assert max(sum(name in names for name in part) for part in parts(corpus)) <= 3

    def test_many_small_joins_are_not_withheld(self, corpus: Corpus) -> None:
        corpus.add([mail(f"{side}{n}") for n in range(8) for side in "ab"])
        added = corpus.add([mail(f"c{n}", f"a{n}", f"b{n}") for n in range(8)], no_ledger=True)
        assert len(parts(corpus)) == 8
        assert added.withheld == ()

    def test_who_offers_what_a_reply_claims_counts(self, corpus: Corpus) -> None:
        for name in "abcd":
            corpus.add([mail(name, offers=["subject plans"])])
        claims = mail("r")
        claims = replace(claims, origin=replace(claims.origin, keys=("id r", "subject plans")))
        assert len(corpus.add([claims]).withheld) == 1
        assert parts(corpus) == [["a"], ["b"], ["c"], ["d"]]


class TestOffers:
    """A key that is offered ties to who claims it, whoever comes first."""

    QUESTION = mail("q", offers=["subject plans"])
    OTHER = mail("o", offers=["subject plans"])

    @pytest.mark.parametrize("last", [0, 1, 2])
    def test_whoever_comes_last(self, corpus: Corpus, last: int) -> None:
        answer = mail("a")
        answer = Document(
            answer.text,
            answer.unit,
            answer.metadata,
            Origin("thread or document", (*answer.origin.keys, "subject plans")),
        )
        order = [self.QUESTION, self.OTHER, answer]
        order.append(order.pop(last))
        for document in order:
            corpus.add([document], no_ledger=True)
        assert parts(corpus) == [["a", "o", "q"]]

    def test_offers_alone_tie_nothing(self, corpus: Corpus) -> None:
        corpus.add([self.QUESTION])
        corpus.add([self.OTHER])
        assert parts(corpus) == [["o"], ["q"]]

    def test_offers_follow_joins_and_outlive_forgotten_units(self, corpus: Corpus) -> None:
        corpus.add([mail("z", offers=["subject plans"])])
        corpus.add([mail("b")])
        corpus.add([mail("t", "z", "b")], no_ledger=True)
        unit = unit_of(corpus, "z")
        assert unit == "thread b"
        corpus.delete_unit(unit)
        claims = Origin("thread or document", ("id late", "subject plans"))
        corpus.add([Document("Mail late", "thread late", {}, claims)])
        assert unit_of(corpus, "late") == unit


class TestForgetting:
    def test_what_a_message_held_together_is_separate_again(
        self, corpus: Corpus, book: Book
    ) -> None:
        corpus.add([mail(name) for name in "abcde"])
        corpus.add([mail("s", *"abcde")], ledger=book, joins="allow")  # type: ignore[arg-type]
        (join,) = corpus.joins()
        assert len(join.parts) == 4
        ((digest, fields),) = join.documents.items()
        assert fields["subject"] == "About s"
        assert SECRET not in repr(join)
        corpus.forget_message(digest, ledger=book)  # type: ignore[arg-type]
        assert parts(corpus) == [[name] for name in "abcde"]
        assert [unit_of(corpus, name) for name in "abcde"] == [f"thread {n}" for n in "abcde"]
        assert corpus.joins() == []
        assert {book.account(f"thread {name}") for name in "abcde"} == {
            f"thread {name}" for name in "abcde"
        }

    def test_the_same_message_does_not_come_back(self, corpus: Corpus) -> None:
        corpus.add([mail(name) for name in "ab"])
        corpus.add([mail("s", "a", "b")], no_ledger=True)
        corpus.forget_message("<s@b.org>", no_ledger=True)
        added = corpus.add([mail("a"), mail("s", "a", "b"), mail("b")])
        assert (added.documents, added.forgotten, added.passages, added.joins) == (3, 1, 0, ())
        assert parts(corpus) == [["a"], ["b"]]

    def test_in_one_load_as_well(self, corpus: Corpus, tmp_path: Path, book: Book) -> None:
        box = tmp_path / "box.mbox"
        box.write_text(
            "".join(
                f"From x@b.org Thu Jan  1 00:00:00 2026\nMessage-ID: <{name}@b.org>\n{more}"
                f"From: {name}@b.org\nSubject: {name} {name}\n\nMail {name}\n\n"
                for name, more in (
                    ("a", ""),
                    ("b", ""),
                    ("c", "In-Reply-To: <b@b.org>\n"),
                    ("s", "References: <a@b.org> <b@b.org>\n"),
                )
            )
        )
        corpus.add(load(box).documents)
        units = {record.unit for record in corpus.records()}
        assert len(units) == 1
        corpus.forget_message("s@b.org", ledger=book)  # type: ignore[arg-type]

        def held() -> list[list[str]]:
            found: dict[str, list[str]] = {}
            for record in corpus.records():
                found.setdefault(record.unit, []).append(record.metadata["subject"][0])
            return sorted(map(sorted, found.values()))

        assert held() == [["a"], ["b", "c"]]
        # What never was a unit by itself has no fresh account.
        assert {book.account(record.unit) for record in corpus.records()} == units
        added = corpus.add(load(box).documents)
        assert (added.forgotten, added.passages) == (1, 0)
        assert held() == [["a"], ["b", "c"]]

    def test_a_part_that_had_parts_keeps_them(self, corpus: Corpus, book: Book) -> None:
        corpus.add([mail(name) for name in "abcd"])
        corpus.add([mail("x", "c", "d")], ledger=book)  # type: ignore[arg-type]
        corpus.add([mail("s", *"abc")], ledger=book, joins="allow")  # type: ignore[arg-type]
        corpus.forget_message("<s@b.org>", ledger=book)  # type: ignore[arg-type]
        assert parts(corpus) == [["a"], ["b"], ["c", "d", "x"]]
        assert [book.account(f"thread {n}") for n in "abcd"] == [
            "thread a", "thread b", "thread c", "thread c",
        ]  # fmt: skip
        (join,) = corpus.joins()
        assert (join.unit, join.parts) == ("thread c", ("thread d",))

    def test_two_that_tie_the_same_are_forgotten_both(self, corpus: Corpus) -> None:
        corpus.add([mail(name) for name in "ab"])
        corpus.add([mail("s", "a", "b"), mail("t", "a", "b")], no_ledger=True)
        corpus.forget_message("<s@b.org>", no_ledger=True)
        assert parts(corpus) == [["a", "b", "t"]]
        corpus.forget_message("<t@b.org>", no_ledger=True)
        assert parts(corpus) == [["a"], ["b"]]

    def test_equal_words_of_another_unit_stay(self, corpus: Corpus) -> None:
        corpus.add([replace(mail(name), text="The same words") for name in "ab"])
        corpus.forget_message("<a@b.org>")
        assert units_of(corpus) == ["thread b"]

    def test_equal_words_of_units_that_were_one_are_of_each(self, corpus: Corpus) -> None:
        """Stored once while they were one unit, they are in both when they come again."""
        twins = [replace(mail(name, thread="t"), text="The same words") for name in "ab"]
        tie = mail("s", "a", "b", thread="t")
        corpus.add([*twins, tie])
        corpus.forget_message("<s@b.org>", no_ledger=True)
        for _ in range(2):
            added = corpus.add([*twins, tie])
            assert added.forgotten == 1
            assert len(units_of(corpus)) == len(corpus.records()) == 2
        assert added.passages == 0

    def test_without_the_ledger_it_is_refused_and_nothing_changes(self, corpus: Corpus) -> None:
        corpus.add([mail(name) for name in "ab"])
        corpus.add([mail("s", "a", "b")], no_ledger=True)
        before = kept(corpus)
        with pytest.raises(CorpusError, match="give the ledger"):
            corpus.forget_message("<s@b.org>")
        assert kept(corpus) == before

    def test_one_that_ties_nothing_needs_no_ledger(self, corpus: Corpus) -> None:
        corpus.add([mail("a"), mail("b", "a"), mail("c")])
        corpus.forget_message("b@b.org")
        assert parts(corpus) == [["a"], ["c"]]

    def test_what_is_not_there(self, corpus: Corpus) -> None:
        corpus.add([mail("a")])
        with pytest.raises(CorpusError, match="no message of that id"):
            corpus.forget_message("<b@b.org>")

    def test_an_id_that_two_messages_have(self, corpus: Corpus) -> None:
        twin = mail("a")
        corpus.add([twin, Document("Mail twin", twin.unit, twin.metadata, twin.origin)])
        with pytest.raises(CorpusError, match="several messages") as caught:
            corpus.forget_message("<a@b.org>")
        name = str(caught.value).rpartition(" ")[2]
        corpus.forget_message(name)
        assert len(corpus.records()) == 1

    def test_what_comes_later_goes_where_it_belongs(self, corpus: Corpus) -> None:
        corpus.add([mail(name) for name in "ab"])
        corpus.add([mail("s", "a", "b"), mail("r", "b")], no_ledger=True)
        corpus.forget_message("<s@b.org>", no_ledger=True)
        corpus.add([mail("z", "r"), mail("y", "a")])
        assert parts(corpus) == [["a", "y"], ["b", "r", "z"]]
        corpus.add([mail("again", "a", "b")], no_ledger=True)
        assert parts(corpus) == [["a", "again", "b", "r", "y", "z"]]
        corpus.forget_message("<again@b.org>", no_ledger=True)
        assert parts(corpus) == [["a", "y"], ["b", "r", "z"]]

    def test_a_question_finds_the_units_apart(self, corpus: Corpus) -> None:
        corpus.add([mail(name) for name in "ab"])
        corpus.add([mail("s", "a", "b")], no_ledger=True)
        assert len(set(corpus.scan([1.0] * 16).units)) == 1
        corpus.forget_message("<s@b.org>", no_ledger=True)
        assert sorted(corpus.scan([1.0] * 16).units) == ["thread a", "thread b"]


class _KilledError(BaseException):
    """Stands for a kill: nothing that follows in the process runs."""


STEPS = [
    (Book, "merge_units"),
    (Register, "begin"),
    (Contents, "delete"),
    (Contents, "move"),
    (Storage, "_apply"),
    (Register, "separate"),
    (Book, "separate_units"),
    (Register, "end"),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].__name__}.{step[1]}")
@pytest.mark.parametrize("after", range(4))
def test_a_kill_while_a_message_is_forgotten(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, step: tuple[type, str], after: int
) -> None:
    """No unit is by itself in the ledger before it is in the corpus, and whoever comes ends it."""
    book = Book()
    corpus.add([mail("a", thread="t"), mail("n", "a", "m", thread="t"), mail("m", thread="t")])
    corpus.add([mail(name) for name in "bcd"])
    corpus.add([mail("x", "c", "d")], ledger=book)  # type: ignore[arg-type]
    corpus.add([mail("s", "a", "b", "c")], ledger=book, joins="allow")  # type: ignore[arg-type]
    whole = unit_of(corpus, "a")
    names = {unit_of(corpus, "a"), *(f"thread {name}" for name in "bcd")}
    assert {book.account(name) for name in names} == {book.account(whole)}
    kind, name = step
    original, calls = getattr(kind, name), iter(range(99))

    def killed(*arguments: object, **options: object) -> object:
        call = next(calls)
        if after % 2 and call == after // 2:
            original(*arguments, **options)
        if call == after // 2:
            raise _KilledError
        return original(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, killed)
        try:
            corpus.forget_message("<s@b.org>", ledger=book)  # type: ignore[arg-type]
        except _KilledError:
            apart = {name for name in names if book.account(name) != book.account(whole)}
            if apart:
                assert all(
                    unit_of(corpus, n[-1]) != whole for n in apart & {"thread b", "thread c"}
                )
    corpus.add([mail("z", "b")], ledger=book)  # type: ignore[arg-type]
    if "s" in {name for part in parts(corpus) for name in part}:
        corpus.forget_message("<s@b.org>", ledger=book)  # type: ignore[arg-type]
    assert parts(corpus) == [["a", "m", "n"], ["b", "z"], ["c", "d", "x"]]
    accounts = [book.account(f"thread {name}") for name in "bcd"]
    assert accounts == ["thread b", "thread c", "thread c"]
    assert book.account(whole) == whole


def left(ledger: Ledger, unit: str) -> float:
    with ledger.reserve(corpus="mail", rho=2.0, at_least=1e-9, units=[unit]) as reservation:
        assert reservation.limits is not None
        return reservation.limits[0]


def pay(ledger: Ledger, **rho: float) -> dict[str, float]:
    """Charge units for an answer, as far as they may pay; what they have paid."""
    names = [f"thread {name}" for name in rho]
    with ledger.reserve(corpus="mail", rho=0.3, units=names) as reservation:
        assert reservation.limits is not None
        paid = list(map(min, rho.values(), reservation.limits))
        reservation.commit(0.3, paid)
    return dict(zip(rho, paid, strict=True))


@pytest.mark.parametrize("step", [(Ledger, "separate_units"), *STEPS[1:6], STEPS[7]])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_no_unit_has_a_fresh_budget(
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[type, str],
    done: bool,
) -> None:
    """Spent before the join, with it and after a kill: each unit has paid for all of it."""
    kind, name = step
    original = getattr(kind, name)

    def killed(*arguments: object, **options: object) -> None:
        if done:
            original(*arguments, **options)
        raise _KilledError

    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=2.0)
        corpus.add([mail("a"), mail("b")])
        pay(ledger, a=0.25, b=0.09)
        corpus.add([mail("s", "a", "b")], ledger=ledger)
        pay(ledger, a=0.2)
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, killed)
            with pytest.raises(_KilledError):
                corpus.forget_message("<s@b.org>", ledger=ledger)
        # An answer hears what the corpus says they are by now.
        heard = {record.unit[-1]: 0.1 for record in corpus.records()}
        paid = pay(ledger, **heard)
        corpus.add([], ledger=ledger)
        if len(parts(corpus)) == 1:  # it was killed before anything was noted
            corpus.forget_message("<s@b.org>", ledger=ledger)
        assert parts(corpus) == [["a"], ["b"]]
        assert left(ledger, "thread a") <= 2 - 0.25 - 0.2 - paid["a"] + 1e-8
        assert left(ledger, "thread b") <= 2 - 0.09 - 0.2 - paid.get("b", 0.1) + 1e-8
        assert left(ledger, "thread b") > 0
