"""A corpus made anew under a chosen unit: its units have spent what those had that held them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path

import pytest

from dpicl_rag.corpora import Corpus, unit_changes
from dpicl_rag.corpora.adding import EmbeddingQueue
from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.register import Register
from dpicl_rag.corpora.storage import Storage
from dpicl_rag.documents import Document
from dpicl_rag.errors import CorpusError
from dpicl_rag.ledger import Ledger
from dpicl_rag.loaders import load

BUDGET = 50.0
ROWS = ["Ann,a1", "Bo,b1", "Ann,a2", "Cleo,c1", "Ann,a3", "Bo,b2"]


@pytest.fixture
def read(tmp_path: Path):
    """Documents of a table of customers."""

    def read_rows(
        rows: Sequence[str], unit: str | None = None, head: str = "customer,text"
    ) -> list[Document]:
        path = tmp_path / "t.csv"
        path.write_text("\n".join([head, *rows]) + "\n")
        return load(path, unit=unit).documents

    return read_rows


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        opened.set_budget(corpus="mail", rho=BUDGET)
        yield opened


def texts(corpus: Corpus) -> list[list[str]]:
    """What each unit says."""
    found = defaultdict(list)
    for record in corpus.records():
        found[record.unit].append(record.text)
    return sorted(map(sorted, found.values()))


def unit_of(corpus: Corpus, text: str) -> str:
    return next(record.unit for record in corpus.records() if record.text == text)


def pay(ledger: Ledger, amounts: dict[str, float], rho: float = 0.5) -> None:
    with ledger.reserve(corpus="mail", rho=rho, units=list(amounts)) as reservation:
        reservation.commit(rho, list(amounts.values()))


def pay_fixed(ledger: Ledger, rho: float) -> None:
    with ledger.reserve(corpus="mail", rho=rho) as reservation:
        reservation.commit(rho)


def left(ledger: Ledger, unit: str) -> float:
    with ledger.reserve(corpus="mail", rho=BUDGET, at_least=1e-9, units=[unit]) as reservation:
        assert reservation.limits is not None
        return reservation.limits[0]


def oracle(spent: Sequence[float], fixed: float = 0.0) -> float:
    """What is left of a unit that was several, each of which has spent so much."""
    return BUDGET - sum(sqrt(fixed + one) for one in spent) ** 2


def test_units_are_joined_with_what_they_have_spent(corpus: Corpus, read, ledger: Ledger) -> None:
    corpus.add(read(ROWS), ledger=ledger)
    spent = {row.partition(",")[2]: 0.01 * (at + 1) for at, row in enumerate(ROWS)}
    pay(ledger, {unit_of(corpus, text): amount for text, amount in spent.items()})
    made = corpus.add(read(ROWS, "customer"), ledger=ledger, anew=True)
    assert (made.passages, made.left, made.joins) == (0, 0, ())  # nothing is embedded again
    assert texts(corpus) == [["a1", "a2", "a3"], ["b1", "b2"], ["c1"]]
    for unit in texts(corpus):
        wanted = oracle([spent[text] for text in unit])
        assert left(ledger, unit_of(corpus, unit[0])) == pytest.approx(wanted, abs=1e-8)


def test_answers_at_a_fixed_price_count_for_each_that_it_was(
    corpus: Corpus, read, ledger: Ledger
) -> None:
    corpus.add(read(ROWS), ledger=ledger)
    pay_fixed(ledger, 0.25)
    pay(ledger, {unit_of(corpus, "a1"): 0.04})
    corpus.add(read(ROWS, "customer"), ledger=ledger, anew=True)
    for text, spent in (("a1", [0.04, 0, 0]), ("b1", [0, 0]), ("c1", [0])):
        wanted = oracle(spent, fixed=0.25)
        assert left(ledger, unit_of(corpus, text)) == pytest.approx(wanted, abs=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_the_presence_of_one_unit_moves_no_other(tmp_path: Path, embedder, read, seed: int) -> None:
    coins = random.Random(seed)
    rows = [f"{coins.choice('ABCD')},text {n}" for n in range(12)]
    more = [f"Zoe,{coins.choice(['text 3', 'same', 'other'])}" for _ in range(3)]
    beside = list(rows)
    for row in more:
        beside.insert(coins.randrange(len(beside) + 1), row)
    amounts = {row: coins.uniform(0, 0.3) for row in (*rows, *more)}
    found = []
    for name, these in (("without", rows), ("beside", beside)):
        whole = Corpus.create("mail", tmp_path / name, embedder=embedder)
        with Ledger(tmp_path / f"{name}.sqlite") as book:
            book.set_budget(corpus="mail", rho=BUDGET)
            whole.add(read(these), ledger=book)
            fields = {r.unit: f"{r.metadata['customer']},{r.text}" for r in whole.records()}
            pay(book, {unit: amounts[row] for unit, row in sorted(fields.items())})
            whole.add(read(these, "customer"), ledger=book, anew=True)
            held = defaultdict(list)
            for record in whole.records():
                held[record.unit].append((record.metadata["customer"], record.text))
            found.append({
                (unit, tuple(sorted(said))): left(book, unit) for unit, said in held.items()
            })  # fmt: skip
        whole.close()
    without, together = (set(one.items()) for one in found)
    assert without <= together
    assert {who for (_, said), _ in together - without for who, _ in said} == {"Zoe"}


def test_what_comes_later_belongs_to_it(corpus: Corpus, read, ledger: Ledger) -> None:
    corpus.add(read(ROWS), ledger=ledger)
    pay(ledger, {unit_of(corpus, "a1"): 0.04})
    corpus.add(read(ROWS, "customer"), ledger=ledger, anew=True)
    again = corpus.add(read([*ROWS, "Ann,a4", "Zoe,z1"], "customer"), ledger=ledger)
    assert again.passages == 2
    assert texts(corpus) == [["a1", "a2", "a3", "a4"], ["b1", "b2"], ["c1"], ["z1"]]
    assert left(ledger, unit_of(corpus, "a4")) == pytest.approx(oracle([0.04]), abs=1e-8)
    once_more = corpus.add(read(ROWS, "customer"), ledger=ledger, anew=True)
    assert (once_more.passages, once_more.left) == (0, 0)
    with pytest.raises(CorpusError, match="is the same customer, not one document"):
        corpus.add(read(ROWS), ledger=ledger)


def test_what_the_files_lack_leaves_it_and_is_known_when_it_comes_back(
    corpus: Corpus, read, ledger: Ledger
) -> None:
    corpus.add(read([*ROWS, ",nobody's"]), ledger=ledger)
    spent = dict.fromkeys(("a1", "a2", "a3", "nobody's"), 0.09)
    pay(ledger, {unit_of(corpus, text): amount for text, amount in spent.items()})
    before = corpus.records()
    for rows in ([*ROWS, ",nobody's"], ROWS[:4]):
        with pytest.raises(CorpusError, match="do not have"):
            corpus.add(read(rows, "customer"), ledger=ledger, anew=True)
        assert corpus.records() == before
    corpus.delete_unit(unit_of(corpus, "a3"))
    made = corpus.add(read(ROWS[:4], "customer"), ledger=ledger, anew=True, joins="allow")
    assert made.left == 2  # b2 and nobody's; a3 was forgotten before
    assert texts(corpus) == [["a1", "a2"], ["b1"], ["c1"]]
    assert left(ledger, unit_of(corpus, "a1")) == pytest.approx(oracle([0.09] * 2), abs=1e-8)
    corpus.add(read(ROWS, "customer"), ledger=ledger, joins="allow")
    assert left(ledger, unit_of(corpus, "a1")) == pytest.approx(oracle([0.09] * 3), abs=1e-8)


def test_a_unit_is_never_split(corpus: Corpus, read, ledger: Ledger) -> None:
    head = "id,customer,text"  # two rows of one key are one unit
    rows = ["1,Ann,a1", "1,Bo,b1", "2,Ann,a2"]
    corpus.add(read(rows, head=head), ledger=ledger)
    pay(ledger, {unit_of(corpus, "a1"): 0.04, unit_of(corpus, "a2"): 0.01})
    with pytest.raises(CorpusError, match="several new units"):
        corpus.add(read(rows, "customer", head), ledger=ledger, anew=True)
    assert texts(corpus) == [["a1", "b1"], ["a2"]]
    corpus.add(read(rows, "customer", head), ledger=ledger, anew=True, joins="allow")
    assert texts(corpus) == [["a1", "a2", "b1"]]
    wanted = oracle([0.04, 0.01])
    assert left(ledger, unit_of(corpus, "b1")) == pytest.approx(wanted, abs=1e-8)


def test_chosen_units_stay(corpus: Corpus, read, ledger: Ledger) -> None:
    corpus.add(read(ROWS, "customer"), ledger=ledger)
    for unit in ("text", None):
        with pytest.raises(CorpusError, match="cannot be split"):
            corpus.add(read(ROWS, unit), ledger=ledger, anew=True)


def test_a_conflict_names_both_units_and_the_way(corpus: Corpus, read, ledger: Ledger) -> None:
    corpus.add(read(ROWS), ledger=ledger)
    with pytest.raises(CorpusError) as caught:
        corpus.add(read(ROWS, "customer"), ledger=ledger)
    said = str(caught.value)
    assert "is one document, of mail one email thread, not the same customer" in said
    assert "--unit customer --anew" in said
    assert "thread or document" not in said


class _KilledError(BaseException):
    """Stands for a kill: nothing that follows in the process runs."""


STEPS = [
    (Ledger, "merge_units"),
    (Contents, "merge"),
    (Register, "merge"),
    (Register, "record"),
    (Contents, "delete"),
    (unit_changes, "leave"),
    (Contents, "set_meta"),
    (Storage, "_apply"),
    (EmbeddingQueue, "run"),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].__name__}.{step[1]}")
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_kill_loses_no_spend(
    corpus: Corpus, read, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, step, done: bool
) -> None:
    corpus.add(read([*ROWS, ",nobody's"]), ledger=ledger)
    names = {text: unit_of(corpus, text) for text in ("a1", "a2", "a3", "b1", "b2", "nobody's")}
    pay(ledger, {unit: 0.04 * (at + 1) for at, unit in enumerate(names.values())})
    most = {text: left(ledger, unit) for text, unit in names.items()}
    kind, name = step
    original = getattr(kind, name)

    def killed(*arguments, **options):
        if done:
            original(*arguments, **options)
        raise _KilledError

    def make() -> None:
        corpus.add(read(ROWS, "customer"), ledger=ledger, anew=True, joins="allow")

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, killed)
        with pytest.raises(_KilledError):
            make()
    there = {text for unit in texts(corpus) for text in unit}
    assert there >= {row.partition(",")[2] for row in ROWS}
    for text, unit in names.items():  # under whatever name, no unit has more left than it had
        now = unit_of(corpus, text) if text in there else unit
        assert max(left(ledger, now), left(ledger, unit)) <= most[text]
    make()
    assert texts(corpus) == [["a1", "a2", "a3"], ["b1", "b2"], ["c1"]]
    for text, spent in (("a1", [0.04, 0.08, 0.12]), ("b1", [0.16, 0.2])):
        wanted = oracle(spent)
        assert left(ledger, unit_of(corpus, text)) == pytest.approx(wanted, abs=1e-8)


def test_without_the_ledger_nothing_changes(corpus: Corpus, read, ledger: Ledger) -> None:
    corpus.add(read(ROWS))
    before = corpus.records()
    with pytest.raises(CorpusError, match="give the ledger"):
        corpus.add(read(ROWS, "customer"), anew=True)
    assert corpus.records() == before


def test_a_planted_fault_is_seen(corpus: Corpus, read, ledger: Ledger, monkeypatch) -> None:
    """Without the keys of former units, a customer's rows would have a fresh account."""
    monkeypatch.setattr(unit_changes, "tied", lambda documents: list(documents))
    with pytest.raises((AssertionError, CorpusError)):
        test_units_are_joined_with_what_they_have_spent(corpus, read, ledger)
