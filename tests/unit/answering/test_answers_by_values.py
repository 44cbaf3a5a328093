"""Answers of a public kind through the whole private path: what neighbours release, exactly.

Every coin of a count is enumerated by the law that `tests.unit.mechanisms.test_value_counts`
computes. Without a ledger the answer is (epsilon, 0)-DP; with one each unit pays for all it shows.
"""

from collections import Counter, defaultdict

import pytest

from dpicl_rag import PrivateContextLLM, Rehearsal
from dpicl_rag.answering import ladder, private_run
from dpicl_rag.answering.canonical_form import SentenceVote
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.documents import Document
from dpicl_rag.errors import DeltaSpentError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms import privacy_filters
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian, DiscreteLaplace
from dpicl_rag.mechanisms.private_counts import Agreed
from dpicl_rag.mechanisms.value_counts import ValueCounts
from dpicl_rag.requests import Request
from dpicl_rag.results import UNSUPPORTED
from tests.support.scored_units import distribution
from tests.support.top_counts import enumerate_top_counts
from tests.unit.answering.test_whole_answers import END, SIZE, one_sentence, speech
from tests.unit.mechanisms.test_agreement import beyond
from tests.unit.mechanisms.test_value_counts import released
from tests.unit.retrieval.test_private_distributions import deficit
from tests.unit.test_exact_agreement import Book, Coins

QUESTION = "Is it?"
OTHERS = ("yes", "yes", "no", "perhaps")
MOST = 1


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    knows = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: knows)


def told(step, held):
    """The law of a count; noisy counts well above the threshold are one outcome."""
    law: dict = defaultdict(float)
    for found, chance in released(step, held).items():
        law[found and (found[0], min(found[1], step.threshold + MOST))] += chance
    return list(law.items())


@pytest.fixture
def enumerated(monkeypatch):
    """Every outcome of a count is a choice."""
    laws: dict = {}

    def draw(self, held, randomness):
        asked = self, tuple(sorted(map(tuple, held)))
        if asked not in laws:
            laws[asked] = told(self, held)
        law = laws[asked]
        found, _ = law[randomness.choose([(at, chance) for at, (_, chance) in enumerate(law)])]
        return [] if found is None else [Agreed(*found, within=1)]

    monkeypatch.setattr(ValueCounts, "draw", draw)
    enumerate_top_counts(monkeypatch, [], cheaper=False)


def corpus_of(words, unit=None):
    said = [Document(f"says {word}", f"other {at}") for at, word in enumerate(words)]
    return said if unit is None else [*said, Document(f"says {unit}", "u")]


def llm(**settings):
    model = SyntheticModel(SIZE, speech, frozenset({END}))
    return PrivateContextLLM(model, max_tokens=8, **settings)


def views(words, unit=None, *, booked=False, statuses=(), **settings):
    """Distribution of all that is released, with what unit ``u`` paid where a ledger books it."""
    corpus = corpus_of(words, unit)

    def run(choose):
        spent = dict.fromkeys([*[f"other {at}" for at in range(len(words))], "u", "delta"], 0.0)

        class Books:
            def status(self):
                return statuses

            def reserve(self, *, rho, delta, units, **_):
                return Book(rho, delta, units, spent)

        private = llm(randomness=Coins(choose), **settings)
        if booked:
            private._ledger = Books()
        answer = private.answer(QUESTION, corpus)
        assert spent["delta"] == 0.0
        # The price of an answer tells which of its counts was the last.
        seen = answer.text, answer.by, answer.supported, answer.agreeing, answer.rho
        return seen, round(spent["u"], 12)

    return distribution(run, 1e-18)


def law(words, unit=None, **settings):
    return {seen: chance for (seen, _), chance in views(words, unit, **settings).items()}


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("enumerated")
@pytest.mark.parametrize("unit", ["yes", "no", "perhaps"])
@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_an_answer_alone_costs_its_epsilon_and_no_delta(unit, epsilon):
    having, without = law(OTHERS, unit, epsilon=epsilon), law(OTHERS, epsilon=epsilon)
    assert beyond(having, without, epsilon) <= 1e-9
    spends = unit != "perhaps"
    assert (beyond(having, without, 0.99 * epsilon) > 1e-6) is spends
    assert (beyond(having, without, 0.0) > 0) is spends


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("enumerated")
@pytest.mark.parametrize("accounting", ["individual", "fixed"])
@pytest.mark.parametrize("unit", ["yes", "no", "perhaps"])
def test_under_a_ledger_a_unit_pays_for_all_that_it_shows(unit, accounting):
    given = {"booked": True, "epsilon": 4.0, "accounting": accounting, "agreement": "only"}
    having, without = views(OTHERS, unit, **given), views(OTHERS, **given)
    assert deficit(having, without) <= 1e-9
    paid = {spent for _, spent in having}
    if accounting == "individual":
        assert (max(paid) > 0) is (unit != "perhaps")


@pytest.mark.usefixtures("enumerated")
def test_a_replaced_unit_is_one_that_goes_and_one_that_comes():
    given = {"epsilon": 4.0, "adjacency": "replace_one", "agreement": "only"}
    for left, right in (("yes", "no"), ("no", "perhaps")):
        one, other = law(OTHERS, left, **given), law(OTHERS, right, **given)
        assert beyond(one, other, 4.0) <= 1e-9


@pytest.mark.usefixtures("enumerated")
@pytest.mark.parametrize("booked", [False, True])
def test_noise_of_half_the_scale_is_seen(monkeypatch, booked):
    """Both kinds of noise are as loud as their price says, not twice."""
    pure, within = DiscreteLaplace, DiscreteGaussian.within
    monkeypatch.setattr(
        "dpicl_rag.mechanisms.value_counts.DiscreteLaplace", lambda epsilon: pure(2 * epsilon)
    )
    monkeypatch.setattr(
        DiscreteGaussian,
        "within",
        staticmethod(lambda rho, far, **given: within(rho, far / 2, **given)),
    )
    ladder._of_values.cache_clear()
    if booked:
        having, without = (views(OTHERS, unit, booked=True, epsilon=4.0) for unit in ("yes", None))
        ladder._of_values.cache_clear()
        assert deficit(having, without) > 0.01
    else:
        assert beyond(law(OTHERS, "yes", epsilon=3.0), law(OTHERS, epsilon=3.0), 3.0) > 0.01


@pytest.mark.usefixtures("enumerated")
def test_a_unit_that_votes_and_does_not_pay_is_seen(monkeypatch):
    honest = privacy_filters.IndividualFilter.pay_votes

    def pay_votes(self, rho, voting, delta):
        honest(self, rho, voting & False, delta)
        return voting

    monkeypatch.setattr(privacy_filters.IndividualFilter, "pay_votes", pay_votes)
    having, without = (views(OTHERS, unit, booked=True, epsilon=4.0) for unit in ("yes", None))
    assert deficit(having, without) > 0.01


@pytest.mark.parametrize("word", ["yes", "no", "perhaps", "yes yes"])
def test_a_unit_moves_its_own_value_by_one_and_only_those_with_a_value_pay(monkeypatch, word):
    steps = []
    honest = privacy_filters.IndividualFilter.pay_votes

    def pay(self, rho, voting, delta):
        able = honest(self, rho, voting, delta)
        steps.append({"rho": rho, "delta": delta, "paying": int(able.sum())})
        return able

    def draw(self, held, randomness):
        steps[-1]["values"] = Counter(key for own in held for key in own)
        return []

    monkeypatch.setattr(privacy_filters.IndividualFilter, "pay_votes", pay)
    monkeypatch.setattr(ValueCounts, "draw", draw)
    llm().answer(QUESTION, corpus_of(OTHERS, word))
    llm().answer(QUESTION, corpus_of(OTHERS))
    with_it, without = steps
    moved = with_it["values"]
    moved.subtract(without["values"])
    own = word.split()[0].capitalize() if word != "perhaps" else None
    assert {key: count for key, count in moved.items() if count} == ({own: 1} if own else {})
    assert (with_it["paying"], without["paying"]) == (3 + (own is not None), 3)
    assert with_it["rho"] == without["rho"]
    assert with_it["delta"] == without["delta"] == 0.0


def test_what_stands_on_no_list_is_no_vote_and_pays_nothing(monkeypatch):
    """The whole sentence of a unit whose document does not state its time, or a time "24:30"."""
    monkeypatch.setattr(ValueCounts, "draw", lambda self, held, randomness: held.clear() or [])
    plan = llm(epsilon=4.0).plan(corpus_of(OTHERS), Request.of("answer", question=QUESTION))
    spend = privacy_filters.FixedFilter(9.0, 0.1)
    votes = []

    def pay_votes(rho, voting, delta):
        votes.append(voting.tolist())
        return voting

    spend.pay_votes = pay_votes
    whole = one_sentence(plan.ladder, spend)
    keys = (("Yes",), ("it is",), ("24:30", "No"))
    said = [SentenceVote(None, own, frozenset(), frozenset()) for own in keys]
    assert whole._count([*said, None]) == []
    assert votes == [[True, False, True, False]]


def test_what_is_released_is_a_value_and_its_noisy_count():
    found = llm(epsilon=8.0).answer(QUESTION, corpus_of(["yes"] * 12))
    assert (found.by, found.supported) == ("agreement", True)
    assert abs(found.agreeing - 12) <= 5
    assert found.agreeing_within >= 0
    silent = llm(epsilon=8.0, false_answers=1e-6).answer(QUESTION, corpus_of(["perhaps"] * 12))
    assert (silent.text, silent.by, silent.agreeing) == (UNSUPPORTED, None, None)


def test_a_ledger_without_a_pool_of_delta_pays_for_it(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", epsilon=20.0, delta=1e-4, thresholds=0)
        private = llm(epsilon=4.0, ledger=ledger)
        found = private.answer(QUESTION, corpus_of(["yes"] * 50))
        (status,) = ledger.status()
        assert found.by == "agreement"
        # So many agree that the first count is enough.
        assert status.spent == pytest.approx(found.rho, rel=1e-6)
        plan = private.plan(corpus_of(OTHERS), Request.of("answer", question=QUESTION))
        assert found.rho < plan.rho / 30
        with pytest.raises(DeltaSpentError):
            private.answer("Who is it?", corpus_of(["Yes"] * 50))


def test_the_plan_says_how_an_answer_is_counted():
    private = llm(epsilon=4.0)
    plan = private.plan(corpus_of(OTHERS), Request.of("answer", question=QUESTION))
    assert plan.threshold_delta == 0.0
    (step,) = plan.ladder.steps
    assert (step.epsilon, plan.units_to_agree) == (4.0, 3)
    assert "public list" in next(part.what for part in plan.parts if part.name == "agreement")
    # A list that is longer than keys are rare, and names of persons, are counted as they occur.
    for question, settings in ((QUESTION, {"false_answers": 1e-9}), ("Who is it?", {})):
        other = llm(epsilon=4.0, **settings).plan(
            corpus_of(OTHERS), Request.of("answer", question=question)
        )
        assert other.threshold_delta > 0
        assert not isinstance(other.ladder.steps[0], ValueCounts)
