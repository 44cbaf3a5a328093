"""Each method's charge is what neighbouring corpora can tell apart: every coin is enumerated.

A whole answer is drawn with and without one unit, and the two distributions of its text compared
by the hockey-stick divergence at epsilon, which must not pass delta. A charge covers the search,
too; documents are a list here, so what a search takes is not spent (its own charge is compared in
tests/unit/retrieval/test_private_distributions.py).
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest
import torch

from benchmarks.leaderboard.method import Asked, Setting, Told, budget_beside_search
from benchmarks.leaderboard.methods import all_methods, dp_ksa
from benchmarks.leaderboard.methods.koga_sparse import SparseVoteRAG
from benchmarks.leaderboard.methods.murag import MuRAG, UnitFilter
from benchmarks.leaderboard.standings import (
    OURS,
    Outcome,
    kept,
    line_of,
    losses,
    markdown,
    plot,
    standings,
    wilson,
)
from benchmarks.leaderboard.tasks import TASKS
from benchmarks.leaderboard.token_votes import AboveThreshold, LimitedDomain
from dpicl_rag import Document, PromptTemplate
from dpicl_rag.accounting import Budget, epsilon_to_rho
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import DenseStep
from tests.support.scored_units import ScoredUnits, distribution

EPSILON, DELTA, TOKENS = 1.0, 1e-2, 5
METHODS = all_methods()
NOT_PRIVATE = {"no documents", "ordinary RAG (not private)"}
# Their exact tests run the same settings: test_exact_agreement.py, test_exact_privacy.py.
DEFAULTS = {OURS, "dpicl-rag: tokens"}
RELEASED = {"synthetic corpus, ordinary RAG"}  # tests/unit/synthesis/test_synthesis_adaptive.py
BY_TOKENS = ["Private PoEtry", "InvisibleInk", "Sarus DP-RAG", "noisy max of votes"]
BY_VOTES = ["DPVoteRAG", "DPSparseVoteRAG", "MuRAG, individual filter"]
AROUND = ("a", "b")


def speech(text, drawn):
    """A document is sure of the letter that it begins with; the public row leans to b."""
    letter = text[:1]
    return [40.0 * (letter == "a") - 1.0 * (letter not in "ab"), 40.0 * (letter == "b")]


SETTING = Setting(SyntheticModel(2, speech), PromptTemplate(), TOKENS, units=2)


class Coins(Randomness):
    """Every draw is a choice that the enumeration makes."""

    def __init__(self, choose):
        self.choose = choose

    def draw(self, scores):
        chances = enumerate(scores.softmax(-1).tolist())
        return self.choose([(at, chance) for at, chance in chances if chance])


def law(method, letters, questions=1, make=None):
    """Distribution of the texts that a method answers over documents of some letters."""

    def run(choose):
        own = make() if make else method
        documents = [Document(f"{letter} it is", f"{at}") for at, letter in enumerate(letters)]
        asked = Asked("which?", documents, EPSILON, DELTA, Coins(choose))
        return tuple(own.answer(SETTING, asked).text for _ in range(questions))

    return distribution(run)


def beyond(p, q, epsilon=EPSILON):
    """Hockey-stick divergence, the larger of both ways."""
    every = {*p, *q}
    return max(
        sum(max(0.0, one.get(x, 0.0) - math.exp(epsilon) * other.get(x, 0.0)) for x in every)
        for one, other in ((p, q), (q, p))
    )


def worst(method, around=AROUND, units=("a", "b"), **more):
    without = law(method, around, **more)
    assert math.fsum(without.values()) == pytest.approx(1)
    return max(beyond(law(method, (*around, unit), **more), without) for unit in units)


def test_every_method_of_the_folder_has_an_exact_test_or_is_not_private():
    tested = {*BY_TOKENS, *BY_VOTES, "DP-KSA"}
    assert set(METHODS) == tested | NOT_PRIVATE | DEFAULTS | RELEASED
    for name, method in METHODS.items():
        charge = method.charge(SETTING, EPSILON, DELTA)
        if name in tested | DEFAULTS:
            assert 0.97 * EPSILON <= charge <= EPSILON * (1 + 1e-6)
        else:
            assert charge in (0.0, math.inf)  # no synthesis has run here


def test_ours_is_the_library_by_default():
    assert METHODS[OURS].settings == {}
    assert METHODS["dpicl-rag: tokens"].settings == {"agreement": "off"}


@pytest.mark.heavy
@pytest.mark.parametrize("name", BY_TOKENS)
def test_an_answer_by_tokens_is_within_its_charge(name):
    assert worst(METHODS[name]) <= DELTA


def width(name):
    """How far one expert moves the log-probabilities of a token, over what its charge allows."""
    method = METHODS[name]
    mechanism = method.mechanism(SETTING, EPSILON, DELTA)
    public = torch.tensor([-30.0, 0.0, 0.0]).log_softmax(-1)
    expert = torch.tensor([[0.0, -60.0, -5.0]]).log_softmax(-1)
    p, q = (mechanism.distribution(DenseStep(public, own)).log() for own in (expert, expert[:0]))
    rho = epsilon_to_rho(method.charge(SETTING, EPSILON, DELTA), DELTA)
    rho -= budget_beside_search(EPSILON, DELTA).search_rho
    return float((p - q).max() - (p - q).min()) / math.sqrt(8 * rho / TOKENS)


@pytest.mark.parametrize("name", BY_TOKENS)
def test_a_token_is_charged_for_what_an_expert_moves(name):
    assert width(name) == pytest.approx(1, abs=0.01)


@pytest.fixture
def halved(monkeypatch):
    """A sensitivity that is halved: twice the strength for the same charge."""
    rho, cost = Budget.rho.fget, ExponentialMechanism.rho.fget
    monkeypatch.setattr(Budget, "rho", property(lambda self: 4 * rho(self)))
    monkeypatch.setattr(ExponentialMechanism, "rho", property(lambda self: cost(self) / 4.001))


@pytest.mark.usefixtures("halved")
@pytest.mark.parametrize("name", BY_TOKENS)
def test_a_sensitivity_that_is_halved_is_seen(name):
    assert width(name) > 1.9


@pytest.mark.heavy
@pytest.mark.usefixtures("halved")
# Two tokens are too few to use all of InvisibleInk's clip.
@pytest.mark.parametrize("name", [name for name in BY_TOKENS if name != "InvisibleInk"])
def test_and_so_it_is_in_whole_answers(name):
    assert worst(METHODS[name]) > DELTA


# Votes on tokens.


def spread(draw, counts):
    found = draw.scores(torch.tensor(counts, dtype=torch.float64)).softmax(-1).tolist()
    return dict(enumerate(found))


COUNTS = list(product(range(4), repeat=2))


def worst_draw(draw, claim):
    """The least delta of a draw at its epsilon, and the widest interval of its log ratios."""
    least, widest = 0.0, 0.0
    for counts in COUNTS:
        for at in range(2):
            more = [count + (at == place) for place, count in enumerate(counts)]
            p, q = spread(draw, more), spread(draw, counts)
            least = max(least, beyond(p, q, claim.reach))
            ratios = [math.log(p[x] / q[x]) for x in q if q[x] and p[x]]
            widest = max(widest, max(ratios) - min(ratios))
    return least, widest


@pytest.mark.parametrize(("reach", "delta"), [(0.3, 1e-2), (2.0, 1e-3)])
def test_a_draw_of_a_limited_domain_is_within_its_charge(reach, delta):
    draw = LimitedDomain(reach, delta)
    least, widest = worst_draw(draw, draw)
    assert 0.5 * delta < least <= delta
    assert 0.99 * reach < widest <= reach * (1 + 1e-9)
    assert draw.rho == pytest.approx(reach**2 / 8)


def test_faults_of_a_limited_domain_are_seen():
    claim = LimitedDomain(1.0, 1e-2)
    loud = LimitedDomain(2.0, 1e-2)  # a sensitivity that is halved
    assert worst_draw(loud, claim)[1] > 1.9
    low = LimitedDomain(1.0, 1e-2 * math.e)  # a threshold without the vote of the newcomer
    assert worst_draw(low, claim)[0] > 1e-2


def ratios(test, values, others):
    """The log ratios of all that one test may answer to some counts and to others."""

    def answers(own):
        def run(choose):
            above, found = test(), []
            for value in own:
                found.append(above.above(value, Coins(choose)))
                if found[-1]:
                    break
            return tuple(found)

        return distribution(run)

    p, q = answers(values), answers(others)
    return [math.log(p[seen] / q[seen]) for seen in p if min(p[seen], q[seen]) > 1e-9]


VALUES = [(0, 0, 0), (2, 2, 2), (0, 4, 1), (6, 0, 6)]


def widest_test(epsilon, moves):
    return max(
        abs(ratio)
        for values in VALUES
        for move in moves
        for ratio in ratios(
            lambda: AboveThreshold(epsilon, 2),
            values,
            [value + own for value, own in zip(values, move, strict=True)],
        )
    )


ONE_WAY = list(product((0, 1), repeat=3))


def test_a_test_of_counts_is_within_its_charge():
    assert 0.7 < widest_test(1.0, ONE_WAY) <= 1.0 + 1e-9


def test_a_test_with_half_of_its_noise_is_seen():
    assert widest_test(2.0, ONE_WAY) > 1.5


def test_counts_that_move_both_ways_would_cost_more():
    assert widest_test(1.0, [(1, 1, -1), (-1, -1, 1)]) > 1.0


@pytest.mark.parametrize("around", [(), ("a",), ("a", "b", "b")])
@pytest.mark.parametrize("name", BY_VOTES)
def test_an_answer_by_votes_is_within_its_charge(name, around):
    method = METHODS[name]
    method = method if name == "DPVoteRAG" else type(method)(draws=2)
    assert worst(method, around) <= DELTA


@pytest.mark.parametrize("make", [lambda: METHODS["DPVoteRAG"], lambda: SparseVoteRAG(draws=2)])
def test_votes_that_are_not_paid_for_are_seen(make, monkeypatch):
    within = LimitedDomain.within
    monkeypatch.setattr(
        LimitedDomain, "within", staticmethod(lambda rho, delta: within(36 * rho, 4 * delta))
    )
    assert max(worst(make(), around) for around in [(), ("b", "b", "b")]) > DELTA


@pytest.mark.heavy
@pytest.mark.parametrize("around", [(), ("b", "b")])
def test_a_unit_pays_for_its_lifetime_and_then_is_silent(around):
    lifetime = {"questions": 2, "make": lambda: MuRAG(draws=1, lifetime=UnitFilter(1))}
    assert worst(None, around, **lifetime) <= DELTA


def after_the_first(around):
    """Distribution of a second answer, which the lifetime of no unit pays for."""
    make = lambda: MuRAG(draws=1, lifetime=UnitFilter(1))  # noqa: E731
    found = Counter()
    for (_, text), chance in law(None, around, questions=2, make=make).items():
        found[text] += chance
    return found


def test_who_has_paid_says_nothing_more():
    assert beyond(after_the_first(("a", "a")), after_the_first(("a",)), 0.0) <= 1e-12


def test_a_filter_that_forgets_is_seen(monkeypatch):
    monkeypatch.setattr(UnitFilter, "admit", lambda self, units: set(units))
    assert beyond(after_the_first(("a", "a")), after_the_first(("a",)), 0.0) > 1e-3


def test_a_unit_below_the_bar_of_murag_changes_nothing():
    def run(units):
        def answer(choose):
            asked = Asked("which?", ScoredUnits(units), EPSILON, DELTA, Coins(choose))
            return MuRAG(draws=2).answer(SETTING, asked).text

        return distribution(answer)

    without = run({"a": [0.9], "b": [0.8]})
    assert run({"a": [0.9], "b": [0.8], "b far": [0.49]}) == without
    assert run({"a": [0.9], "b": [0.8], "b near": [0.51]}) != without


# Keywords.


@pytest.fixture
def keywords_are_shown(monkeypatch):
    monkeypatch.setattr(dp_ksa, "greedy_answer", lambda *given, **_: given[3][0])


@pytest.mark.usefixtures("keywords_are_shown")
@pytest.mark.parametrize("around", [(), ("a",), ("a", "a", "a", "b")])
def test_keywords_are_within_their_charge(around):
    assert worst(METHODS["DP-KSA"], around) <= DELTA


@pytest.mark.usefixtures("keywords_are_shown")
def test_keywords_that_forget_the_search_and_more_are_seen(monkeypatch):
    monkeypatch.setattr(dp_ksa, "beside_any", lambda epsilon, *_: 3 * epsilon)
    around = [("a",) * many for many in range(1, 6)]
    assert max(worst(METHODS["DP-KSA"], own) for own in around) > DELTA


# The table.


def outcome(method, right, supported=True, charged=1.0, seed=0, question="q", epsilon=1.0):
    return Outcome(
        *("medical", method, epsilon, seed, question, charged, None, right, supported, 1.0, "")
    )


def test_an_outcome_is_kept_as_it_is(tmp_path):
    file = tmp_path / "kept.jsonl"
    every = [outcome("a", True), outcome("b", False, charged=math.inf)]
    file.write_text("".join(line_of(one) + "\n" for one in every), "utf-8")
    assert kept(file) == every
    assert kept(tmp_path / "none") == []


def test_where_we_lose_comes_first_and_the_ceiling_is_no_loss(tmp_path):
    every = [
        *(outcome(OURS, at == 0, question=f"{at}") for at in range(3)),
        *(outcome("better", at < 2, question=f"{at}") for at in range(3)),
        *(outcome("worse", False, False, question=f"{at}") for at in range(3)),
        *(outcome("ceiling", True, charged=math.inf, question=f"{at}") for at in range(3)),
    ]
    found = standings(every)
    assert [one.outcomes[0].method for one in found] == ["ceiling", "better", OURS, "worse"]
    lost = list(losses(found))
    assert len(lost) == 1
    assert lost[0].startswith("medical, epsilon 1: better has 2 right")
    lines = markdown(found).splitlines()
    assert lines[2] == f"- {lost[0]}"
    assert "| medical | ceiling | 1 | all | 3 |" in lines[6]
    plot(found, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 1000


def test_intervals_are_of_seeds_or_of_questions():
    (one,) = standings([outcome("a", at < 8, question=f"{at}") for at in range(10)])
    assert one.interval == wilson(8, 10)
    assert one.interval == pytest.approx((0.490, 0.943), abs=1e-3)
    seeds = [
        outcome("a", at < 5 + seed, seed=seed, question=f"{at}")
        for seed in (0, 1)
        for at in range(10)
    ]
    (two,) = standings(seeds)
    assert two.interval == pytest.approx((0.5, 0.6))


def test_a_method_from_outside_joins_by_one_file(tmp_path, monkeypatch):
    from benchmarks.leaderboard import methods

    (tmp_path / "joined.py").write_text(
        "class Mine:\n    name = 'mine'\n\n\nMETHOD = Mine()\n", encoding="utf-8"
    )
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    assert "mine" in all_methods()
    assert Told("", False) == Told("", False)


def test_tasks_ask_what_every_method_can_read():
    asked = TASKS["mailbox"].questions()
    assert len(asked) > 16
    assert not any(one.turns for one in asked)
    assert all(0 < task.bar < 1 for task in TASKS.values())
