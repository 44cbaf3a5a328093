"""A whole synthetic corpus: what is charged, what is exported, and that a run goes on."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from dpicl_rag import Document, Ledger, PrivateContextLLM
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import (
    BudgetExceededError,
    ConfigurationError,
    CorpusError,
    EngineUnavailableError,
)
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import SeededRandomness
from dpicl_rag.synthesis import synthetic_corpus as room
from dpicl_rag.synthesis.public_records import ordinary_answer
from dpicl_rag.synthesis.released_records import Synthesis
from dpicl_rag.synthesis.synthesis_run import open_run, read_run
from dpicl_rag.synthesis.synthetic_corpus import synthesise, synthesise_corpus
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scripted_model import ScriptedModel
from tests.support.synthesising import short_plan, short_template

SECRET = "zanzibar-4471"
PLAN = short_plan(6, topics_per_unit=2, batch=20, records_per_topic=2)
SETTINGS = {
    name: getattr(PLAN, name)
    for name in ("topics_per_unit", "words_per_unit", "batch", "records_per_topic", "keys")
}


@pytest.fixture(autouse=True)
def coins(monkeypatch):
    """Counts without noise, so that a small corpus surely has its keys; they cost as they do.

    Other coins are the same in every run.
    """
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 0)
    monkeypatch.setattr(room, "Randomness", SeededOnce)
    monkeypatch.setattr("dpicl_rag.synthesis.synthesis_run.secrets.token_bytes", lambda n: b"k" * n)


def documents(many=160):
    said = ("alpha is red", "betas is blue")
    own = {7: SECRET}
    return [Document(f"{said[n % 2]} {own.get(n, n)}", f"unit-{n}") for n in range(many)]


def model():
    return ScriptedModel({"alpha": "The light is red", "betas": "It was blue", "none": "Nothing"})


def spent(path):
    """Total and largest spend of units, nano-rho; and how many there are."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT sum(spent), max(spent), count(*) FROM unit").fetchone()


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as book:
        book.set_budget(corpus="default", epsilon=8.0)
        yield book


def test_records_say_what_many_units_say(tmp_path, ledger):
    made = synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=tmp_path / "run")
    by_key = {record.key: record.text for record in made.records}
    assert by_key["alpha"].startswith("It says The light is red")
    assert by_key["betas"].startswith("It says It was blue")
    assert SECRET not in json.dumps([record.text for record in made.records])
    assert (made.epsilon, made.delta, made.rho) == (8.0, 1e-5, ledger.status()[0].budget)


def test_no_unit_pays_more_than_the_run_may_cost(tmp_path, ledger):
    synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=tmp_path / "run")
    _, most, units = spent(tmp_path / "ledger.sqlite")
    assert units == 160
    assert 0 < most <= PLAN.rho * 1e9 + 1
    (status,) = ledger.status()
    assert 0 < status.spent <= PLAN.rho + 1e-9
    assert status.reserved == 0


def test_a_run_without_budget_left_is_refused_before_anything_is_drawn(tmp_path, ledger):
    ledger.set_budget(corpus="default", epsilon=1.0)
    with pytest.raises(BudgetExceededError):
        synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=tmp_path / "run")
    assert not (tmp_path / "run" / "keys.json").exists()


def test_a_unit_budget_below_the_price_of_keys_is_said(tmp_path, ledger):
    ledger.set_budget(corpus="default", epsilon=8.0, unit_rho=0.01)
    with pytest.raises(ConfigurationError, match="unit budget"):
        synthesise(documents(), PLAN, model=model(), ledger=ledger)


def test_the_same_run_again_draws_and_pays_nothing(tmp_path, ledger):
    made = [
        synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=tmp_path / "run")
        for _ in range(2)
    ]
    before = spent(tmp_path / "ledger.sqlite")
    synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=tmp_path / "run")
    assert made[0] == made[1]
    assert spent(tmp_path / "ledger.sqlite") == before


def test_a_finished_run_needs_no_budget_and_an_unfinished_one_only_what_it_lacks(
    tmp_path, ledger, monkeypatch
):
    asked = []
    original = Ledger.reserve

    def reserve(self, **given):
        asked.append(given["rho"])
        return original(self, **given)

    monkeypatch.setattr(Ledger, "reserve", reserve)
    folder = tmp_path / "run"
    made = synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=folder)
    assert asked == [PLAN.rho]
    ledger.set_budget(corpus="default", epsilon=0.01)
    assert synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=folder) == made
    assert len(asked) == 1
    # Without its last record: one is left, and it costs what a record costs.
    journal = (folder / "journal.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in journal if json.loads(line)["record"] < len(made.records) - 1]
    (folder / "journal.jsonl").write_text("".join(kept))
    ledger.set_budget(corpus="default", epsilon=60.0)
    synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=folder)
    assert asked[1:] == [PLAN.record_rho]


def test_another_plan_or_model_in_the_folder_is_refused(tmp_path):
    synthesise(documents(), PLAN, model=model(), folder=tmp_path / "run")
    with pytest.raises(ConfigurationError, match="another plan"):
        synthesise(documents(), short_plan(5), model=model(), folder=tmp_path / "run")


def test_an_engine_that_stops_ends_the_run_and_it_goes_on(tmp_path, ledger, monkeypatch):
    drawn = []
    original = room.draw_record

    def failing(*given):
        for token in original(*given):
            drawn.append(token)
            yield token
            if len(drawn) == 3:
                raise EngineUnavailableError

    monkeypatch.setattr(room, "draw_record", failing)
    with pytest.raises(EngineUnavailableError):
        synthesise(documents(), PLAN, model=model(), ledger=ledger, folder=tmp_path / "run")
    (status,) = ledger.status()
    assert status.reserved == 0
    told = []
    made = synthesise(
        documents(),
        PLAN,
        model=model(),
        ledger=ledger,
        folder=tmp_path / "run",
        on_progress=lambda *numbers: told.append(numbers),
    )
    assert [record.stopped_by for record in made.records].count("interrupted") == 1
    assert made.records[0].tokens == 3
    assert told[0] == (0, len(made.records))
    assert told[-1] == (len(made.records), len(made.records))


def test_the_number_of_records_follows_from_released_numbers_alone(tmp_path, monkeypatch):
    """A count of records from the true counts would differ between these two corpora."""
    numbers = []
    keys = None
    for many in (160, 159):
        folder = tmp_path / f"run-{many}"
        if keys is not None:
            with open_run(folder, PLAN.run_plan("default", model().fingerprint)):
                pass
            (folder / "keys.json").write_text(keys)
        made = synthesise(documents(many), PLAN, model=model(), folder=folder)
        keys = (folder / "keys.json").read_text()
        numbers.append([(record.key) for record in made.records])
    assert numbers[0] == numbers[1]


def test_progress_counts_records_of_the_plan(tmp_path):
    told = []
    made = synthesise(
        documents(), PLAN, model=model(), on_progress=lambda *numbers: told.append(numbers)
    )
    records = len(made.records)
    assert told[0] == (0, records)
    assert told[-1] == (records, records)
    # After every token, and after every record.
    assert len(told) == 1 + sum(record.tokens for record in made.records) + records
    assert told == sorted(told)


class TestExport:
    def write(self, tmp_path, **options):
        return synthesise_corpus(
            documents(),
            "lights",
            epsilon=8.0,
            template=short_template(6),
            model=model(),
            path=tmp_path / "store",
            folder=tmp_path / "run",
            embedder=BucketEmbedder(),
            **{**SETTINGS, **options},
        )

    def opened(self, tmp_path):
        return Corpus.open("lights", tmp_path / "store", embedder=BucketEmbedder())

    def test_the_collection_says_what_it_is_and_holds_nothing_of_a_unit(self, tmp_path):
        made = self.write(tmp_path)
        corpus = self.opened(tmp_path)
        assert corpus.public
        assert corpus.synthetic is not None
        assert (corpus.synthetic.epsilon, corpus.synthetic.run) == (8.0, made.run)
        found = corpus.records()
        assert sorted(record.text for record in found) == sorted(r.text for r in made.records)
        for record in found:
            assert set(record.metadata) == {"synthetic", "key", "run", "tokens"}
            assert record.metadata["synthetic"] == "True"
            assert "unit-" not in json.dumps([record.id, record.unit, *record.metadata.values()])
        corpus.close()

    def test_records_are_kept_by_their_text_and_read_back(self, tmp_path):
        made = self.write(tmp_path, keep=lambda text: "red" in text)
        assert made.records
        assert all("red" in record.text for record in made.records)
        assert Synthesis.read(tmp_path / "run" / "records.jsonl") == made

    def test_a_name_that_is_taken_is_refused_before_anything_is_paid(self, tmp_path):
        Corpus.create("lights", tmp_path / "store", embedder=BucketEmbedder()).close()
        with pytest.raises(CorpusError, match="already"):
            self.write(tmp_path)
        assert not (tmp_path / "run").exists()

    def test_the_same_run_again_leaves_the_collection_as_it_is(self, tmp_path):
        first, again = self.write(tmp_path), self.write(tmp_path)
        assert first.run == again.run
        corpus = self.opened(tmp_path)
        assert len(corpus.records()) == len(first.records)
        corpus.close()

    def test_interrupted_records_are_not_exported(self, tmp_path):
        made = self.write(tmp_path)
        cut = Synthesis((made.records[0], *(r for r in made.records[1:])), 8.0, 1e-5, made.rho, {})

        cut = replace(cut, records=tuple(replace(r, stopped_by="interrupted") for r in cut.records))
        corpus = cut.into_corpus("none", tmp_path / "store", embedder=BucketEmbedder())
        assert corpus.records() == []
        corpus.close()

    def test_nothing_may_be_added_to_it(self, tmp_path):
        self.write(tmp_path)
        corpus = self.opened(tmp_path)
        with pytest.raises(CorpusError, match="its run alone adds to it"):
            corpus.add(["something private"])
        corpus.close()

    def test_it_answers_by_ordinary_rag(self, tmp_path):
        self.write(tmp_path)
        corpus = self.opened(tmp_path)
        said = ordinary_answer(
            corpus, "betas?", ScriptedModel({"blue": "It was blue", "none": "Nothing"})
        )
        assert said == "It was blue"
        corpus.close()

    def test_a_private_corpus_is_not_answered_from_so(self, tmp_path):
        corpus = Corpus.create("private", tmp_path / "store", embedder=BucketEmbedder())
        with pytest.raises(ConfigurationError, match="private"):
            ordinary_answer(corpus, "What?", model())
        corpus.close()

    def test_it_is_public_knowledge_to_private_answers(self, tmp_path):
        self.write(tmp_path)
        corpus = self.opened(tmp_path)
        llm = PrivateContextLLM(model(), knowledge=corpus, randomness=SeededOnce())
        assert llm.answer("It says It was", []).recalled > 0
        corpus.close()


class SeededOnce(SeededRandomness):
    def __init__(self):
        with pytest.warns(UserWarning, match="not private"):
            super().__init__(1)


def test_a_run_shows_only_what_was_released(tmp_path):
    synthesise(documents(), PLAN, model=model(), folder=tmp_path / "run")
    kept = read_run(tmp_path / "run")
    text = "".join(p.read_text() for p in (tmp_path / "run").glob("*.json*"))
    assert SECRET not in text
    assert "unit-" not in text
    assert kept.charges["rho"] == PLAN.rho
    assert set(kept.released) == {f"trie {level}" for level in range(1, 8)}
