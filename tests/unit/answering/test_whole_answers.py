"""Answers by agreement through the whole private path: who votes, who pays, what is released.

Everything between a corpus and its counts follows from released sentences and is computed bit for
bit. So the counts of neighbours are compared exactly, step by step; what noise makes of them is
compared in test_agreement.
"""

from collections import Counter

import pytest
import torch

from dpicl_rag import PrivateContextLLM
from dpicl_rag.accounting.stability import DIRECT, Adjacency
from dpicl_rag.answering.canonical_form import SentenceVote
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.answering.whole_answers import WholeAnswer
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.auditing.worst_models import SyntheticRows
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, DeltaSpentError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms import privacy_filters
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreed, Agreement, TopCount
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.results import UNSUPPORTED
from tests.support.speaking_model import SpeakingModel

END, SIZE = 26, 27
BOTH = pytest.mark.parametrize("accounting", ["individual", "fixed"])


def speech(text, drawn):
    """A document spells its last word and ends; the public row ends at once."""
    word = (text.split() or [""])[-1]
    said = ord(word[len(drawn)]) - ord("a") if len(drawn) < len(word) else END
    return [0.0 if token == said else -20.0 for token in range(SIZE)]


def unit(name, word):
    return Document(f"says {word}", name)


def documents(*words):
    return [unit(f"u{at}", word) for at, word in enumerate(words)]


def llm(**settings):
    model = SyntheticModel(SIZE, speech, frozenset({END}))
    given = {"agreement": "auto", "max_tokens": 8, **settings}
    return PrivateContextLLM(model, **given)


@pytest.fixture
def counted(monkeypatch):
    """Counts of every step, with what each expert paid for them; nothing is released."""
    steps = []

    def draw(self, held, randomness):
        steps[-1]["keys"] = Counter(key for own in held for key in own)
        return []

    for kind in (privacy_filters.IndividualFilter, privacy_filters.FixedFilter):

        def pay(self, rho, voting, delta, honest=kind.pay_votes):
            steps.append({"rho": rho})
            before = self.rho
            able = honest(self, rho, voting, delta)
            steps[-1].update(able=able, paid=self.rho - before)
            return able

        monkeypatch.setattr(kind, "pay_votes", pay)
    monkeypatch.setattr(Agreement, "draw", draw)
    return steps


@BOTH
@pytest.mark.parametrize("word", ["refund", "other", "refundx"])
def test_a_unit_moves_its_own_key_by_one_and_pays_for_it(counted, accounting, word):
    corpus = documents(*["refund"] * 5, "other", "third")
    private = llm(accounting=accounting, agreement="only")
    private.answer("how?", [*corpus, unit("new", word)])
    with_it = list(counted)
    counted.clear()
    private.answer("how?", corpus)
    assert len(with_it) == len(counted) > 1
    for one, other in zip(with_it, counted, strict=True):
        assert one["rho"] == other["rho"] == pytest.approx(one["paid"])
        moved = Counter(one["keys"])
        moved.subtract(other["keys"])
        assert {key: count for key, count in moved.items() if count} == {word: 1}
        assert one["able"].sum() == sum(one["keys"].values())


@BOTH
def test_experts_hear_the_part_that_asks_and_then_the_whole(counted, accounting, monkeypatch):
    honest = SyntheticRows.continue_each
    heard = []

    def continue_each(self, token_ids, most, asked):
        question = bytes(token_ids).decode()
        heard.append(("It is" in question, sum(asked)))
        hears = [
            one and not ("It is" not in question and "needs more" in text)
            for one, text in zip(asked, self._texts[1:], strict=True)
        ]
        return honest(self, token_ids, most, hears)

    monkeypatch.setattr(SyntheticRows, "continue_each", continue_each)
    private = llm(accounting=accounting, agreement="only")
    corpus = documents(*["refund"] * 3, *["needs more: refund"] * 4)
    private.answer("It is so. How?", corpus)
    assert len(counted) > 1
    for one in counted:
        assert one["keys"] == {"refund": 7}
        assert one["able"].sum() == 7  # each of them pays
    assert heard == [(False, 7), (True, 4)]
    counted.clear()
    heard.clear()
    private.answer("It is how?", corpus)
    assert {one["keys"]["refund"] for one in counted} == {7}
    assert heard == [(True, 7)]


def test_a_unit_that_cannot_pay_does_not_vote():
    limits = torch.tensor([1.0, 0.1, 0.25], dtype=torch.float64)
    spend = privacy_filters.IndividualFilter(limits, bound=1.0, worst=0.1)
    voting = torch.tensor([True, True, False])
    assert spend.pay_votes(0.2, voting, 0.0).tolist() == [True, False, False]
    assert spend.pay_votes(0.2, torch.tensor([True] * 3), 0.0).tolist() == [True, False, True]
    assert spend.spent.tolist() == [0.4, 0.0, 0.2]
    assert spend.rho == pytest.approx(0.4)


def one_sentence(ladder, spend):
    """A whole answer of one sentence, and no token behind it."""
    return WholeAnswer(
        ladder,
        spend,
        Randomness(),
        spell=list,
        show=str,
        lead="",
        sentences=1,
        most=8,
        keys=1,
        only_agreement=True,
    )


def test_every_count_is_of_those_who_pay_for_it(counted, monkeypatch):
    tops = []

    def draw(self, keys, randomness):
        tops.append(keys)
        return 100

    monkeypatch.setattr(TopCount, "draw", draw)
    ladder = Ladder.behind_top_count(0.5, 1e-6, DIRECT, Adjacency.ADD_OR_REMOVE_ONE)
    limits = torch.tensor([1.0, 0.0], dtype=torch.float64)
    spend = privacy_filters.IndividualFilter(limits, bound=1.0, worst=0.1)
    whole = one_sentence(ladder, spend)
    said = SentenceVote("refund", ("refund",), frozenset(), frozenset())
    assert whole._count([said, said]) == []
    assert tops == [[("refund",)]]
    top, *steps = counted
    assert top["rho"] == ladder.top.rho
    assert [one["keys"] for one in steps] == [{"refund": 1}] * len(steps)
    assert steps


def test_a_fixed_budget_pays_for_every_count_or_takes_none():
    spend = privacy_filters.FixedFilter(1.0, 0.1, aside=0.25)
    voting = torch.tensor([False])
    assert spend.can_count(0.75)
    spend.pay_votes(0.75, voting, 0.0)
    assert spend.rho == 0.75
    assert not spend.can_count(0.01)


@BOTH
def test_what_enough_units_say_is_released(accounting):
    found = llm(accounting=accounting, epsilon=8.0).answer("how?", documents(*["refund"] * 60))
    # The made-up tokenizer spells a word in bytes when it reads, from zero when it writes.
    # The prompt ends in "Answer:", so that a space comes first.
    spelt = "".join(chr(ord("a") + byte) for byte in b" Refund.")
    assert (found.text, found.by, found.supported) == (spelt, "agreement", True)
    assert abs(found.agreeing - 60) < 60
    assert found.agreeing_within > 0
    assert found.stopped_by == "end"
    assert found.rho <= (0.015 if accounting == "individual" else 0.07)


def test_a_word_of_one_unit_is_not_released_and_only_draws_no_token():
    found = llm(agreement="only").answer("how?", documents("refund", "other", "third"))
    assert (found.text, found.by, found.supported) == (UNSUPPORTED, None, False)
    assert found.agreeing is None


def test_where_words_differ_tokens_are_drawn():
    found = llm(epsilon=50.0).answer("how?", documents("refund", "refuns", "refunz", "refunk"))
    assert found.by == "tokens"
    assert found.agreeing is None


@BOTH
def test_the_answer_never_costs_more_than_its_epsilon(accounting):
    private = llm(accounting=accounting, epsilon=1.0)
    found = private.answer("how?", documents(*["refund"] * 3))
    assert found.rho <= private.config.rho(booked=False)


def test_further_sentences_are_counted_and_paid_for(monkeypatch):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda *_: 0)
    corpus = documents(*["refund"] * 60)
    one, two = (llm(sentences=number, max_tokens=24).answer("how?", corpus) for number in (1, 2))
    assert two.rho > one.rho
    assert two.text.startswith(one.text)


def test_off_asks_nobody(counted):
    llm(agreement="off").answer("how?", documents(*["refund"] * 9))
    assert counted == []


def test_replacement_pays_for_both_keys(counted):
    private = llm(adjacency=Adjacency.REPLACE_ONE, agreement="only")
    private.answer("how?", documents(*["refund"] * 5, "first"))
    one = list(counted)
    counted.clear()
    private.answer("how?", documents(*["refund"] * 5, "other"))
    for left, right in zip(one, counted, strict=True):
        moved = Counter(left["keys"])
        moved.subtract(right["keys"])
        assert {key: count for key, count in moved.items() if count} == {"first": 1, "other": -1}
        assert left["paid"] == pytest.approx(right["paid"])
    added = llm(agreement="only").plan(documents("a")).thresholds
    assert private.plan(documents("a")).thresholds[-1] >= added[-1]


def test_the_plan_says_how_many_must_agree():
    cost = llm(epsilon=2.0).plan(documents("a"))
    assert list(cost.thresholds) == sorted(cost.thresholds, reverse=True)
    assert f"about {cost.thresholds[-1]}" in str(cost)
    parts = cost.search_rho + cost.support_rho + cost.agreement_rho + cost.tokens_rho
    assert parts == pytest.approx(cost.rho)
    assert cost.as_dict()["agreement_rho"] == cost.agreement_rho


def test_an_engine_that_cannot_is_refused_before_anything_is_paid():
    private = PrivateContextLLM(SpeakingModel(), agreement="auto")
    with pytest.raises(ConfigurationError, match="leave agreement out"):
        private.answer("how?", ["one"])


@BOTH
def test_a_ledger_books_what_thresholds_cost(tmp_path, accounting, monkeypatch):
    drawn, draw = [], Agreement.draw
    monkeypatch.setattr(
        Agreement, "draw", lambda self, *given: drawn.append(self.delta) or draw(self, *given)
    )
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", epsilon=50.0, delta=1e-4, thresholds=0.5)
        model = SyntheticModel(SIZE, speech, frozenset({END}))
        private = PrivateContextLLM(
            model, agreement="auto", ledger=ledger, accounting=accounting, max_tokens=8
        )
        found = private.answer("how?", documents(*["refund"] * 60))
        status = ledger.status()[0]
        assert found.by == "agreement"
        assert status.spent >= found.rho * (1 - 1e-6)
        assert sum(drawn) <= status.delta_spent <= 2.5e-7
        assert status.delta_spent == pytest.approx(sum(drawn), rel=1e-3)
        assert status.delta == pytest.approx(5e-5)
        assert status.delta_remaining == pytest.approx(status.delta - status.delta_spent)


@BOTH
def test_a_pool_that_is_spent_leaves_tokens_or_one_clear_line(tmp_path, accounting):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", epsilon=50.0, thresholds=0)
        model = SyntheticModel(SIZE, speech, frozenset({END}))
        given = {"ledger": ledger, "accounting": accounting, "max_tokens": 8}
        private = PrivateContextLLM(model, agreement="auto", **given)
        corpus = documents(*["refund"] * 60)
        assert private.answer("how?", corpus).by == "tokens"
        before = ledger.status()
        with pytest.raises(DeltaSpentError, match="--thresholds"):
            private.with_settings(agreement="only").answer("how?", corpus)
        assert ledger.status() == before
        assert before[0].delta_spent == 0.0


@pytest.mark.parametrize("delta", [3e-5, 7e-6, 1e-9, 1e-10])
def test_a_pool_that_is_full_pays_for_thresholds_of_every_delta(tmp_path, delta):
    # As floats, what was held is less than what was asked for.
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", epsilon=50.0)
        model = SyntheticModel(SIZE, speech, frozenset({END}))
        private = PrivateContextLLM(
            model, delta=delta, agreement="only", ledger=ledger, max_tokens=8
        )
        assert private.answer("how?", documents(*["refund"] * 60)).by == "agreement"


def test_the_first_agreement_ends_the_ladder(monkeypatch):
    drawn = []

    def draw(self, keys, randomness):
        drawn.append(self.threshold)
        return [Agreed("refund", 40, 3)] if len(drawn) == 2 else []

    monkeypatch.setattr(Agreement, "draw", draw)
    found = llm(accounting="fixed", epsilon=8.0).answer("how?", documents("refund"))
    assert (found.agreeing, found.agreeing_within) == (40, 3)
    assert len(drawn) == 2
    # The third step was neither drawn nor paid for.
    assert found.rho < 0.07


@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
@pytest.mark.parametrize("question", ["When is it?", "Where?"])
def test_a_stream_of_agreement_alone_says_what_the_whole_answer_says(question):
    given = {"agreement": "only", "unsupported": "mark", "epsilon": 20.0, "seed": 0}
    found = documents(*["house"] * 24)
    whole = llm(**given).answer(question, found)
    streamed = "".join(llm(**given).stream(question, found))
    assert whole.agreeing
    assert streamed == whole.text
