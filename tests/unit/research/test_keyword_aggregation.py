"""KSA: its price, neighbours compared exactly, faults of ours and of the papers, and answers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, pairwise

import pytest
import torch
from dp_accounting.pld import common, privacy_loss_distribution

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import selection
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness, SeededRandomness
from dpicl_research.keyword_aggregation import (
    KeywordAggregation,
    KeywordRelease,
    passing,
    words_of,
)

PRICES = [(0.5, 1e-3), (1.0, 1e-5), (2.0, 1e-2), (8.0, 1e-5)]
LETTERS = "abc"
REPLIES = [chosen for size in range(4) for chosen in combinations(LETTERS, size)]
SMALL = [
    list(corpus) for size in range(4) for corpus in combinations_with_replacement(REPLIES, size)
]
TALL = [
    [("a", "b")] * 9 + [("c",)] * low + [("a",)] * high for low in range(0, 9, 2) for high in (0, 3)
]
CORPORA = [*SMALL, *TALL]


def beyond(p, q, epsilon):
    """Hockey-stick divergence, the larger of both ways."""
    every = {*p, *q}
    return max(
        sum(max(0.0, one.get(x, 0.0) - math.exp(epsilon) * other.get(x, 0.0)) for x in every)
        for one, other in ((p, q), (q, p))
    )


def worst(law, epsilon, replies=REPLIES):
    """The least delta at epsilon for which all neighbours of the corpora are private."""
    return max(
        beyond(own, law([*corpus, reply]), epsilon)
        for corpus, own in ((corpus, law(corpus)) for corpus in CORPORA)
        for reply in replies
    )


def written_anew(release, *, ranked=False, behind=0):
    """The distribution from its definition, with faults.

    Args:
        release: Has the settings.
        ranked: Words go out by their counts.
        behind: The gap that is tested is so many words further down, as in DP-ICL's code.
    """

    def law(said):
        counts = Counter(word for words in said for word in words)
        order = sorted(LETTERS, key=lambda word: (-counts[word], word))
        heights = [counts[word] for word in order] + [0] * (release.most + 2)
        gaps = [heights[k] - heights[k + 1] for k in range(release.most)]
        chosen = selection.flip_distribution(
            release.strength * torch.tensor(gaps, dtype=torch.float64)
        )
        found = Counter()
        for k in range(1, release.most + 1):
            passes = release.passes[min(gaps[k - 1], len(release.passes) - 1)]
            out = order[: k - behind]
            found[tuple(out if ranked else sorted(out))] += float(chosen[k - 1]) * passes
            found["none"] += float(chosen[k - 1]) * (1 - passes)
        return dict(found)

    return law


@pytest.mark.one_in(15)
@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
@pytest.mark.parametrize("share", [0.2, 0.4, 0.7])
def test_neighbours_are_within_the_price(epsilon, delta, share):
    release = KeywordRelease.within(epsilon, delta, most=4, share=share)
    found = worst(release.distribution, epsilon)
    assert found <= delta * (1 + 1e-9) + 1e-15
    # A corpus that one reply makes has delta to itself, so no smaller delta would do.
    assert found > 0.2 * delta


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
def test_the_distribution_is_that_of_its_definition(epsilon, delta):
    release = KeywordRelease.within(epsilon, delta, most=4)
    law = written_anew(release)
    for corpus in CORPORA:
        expected = law(corpus)
        found = release.distribution(corpus)
        assert sum(found.values()) == pytest.approx(1, abs=1e-12)
        assert found.pop(()) == pytest.approx(expected.pop("none"), abs=1e-12)
        expected = {words: chance for words, chance in expected.items() if chance}
        assert found == pytest.approx(expected, rel=1e-9)


EPSILON, DELTA = 1.0, 1e-3


@pytest.fixture
def release():
    return KeywordRelease.within(EPSILON, DELTA, most=4)


@pytest.mark.heavy
def test_a_threshold_without_delta_is_found(release):
    for early in ((0.0, 10 * DELTA, *release.passes[2:]), release.passes[1:]):
        assert worst(replace(release, passes=early).distribution, EPSILON) > 1.5 * DELTA


def test_words_that_count_more_than_once_are_found(release):
    shouting = [("a", "a", "a"), ("b", "b", "b", "b")]
    assert worst(release.distribution, EPSILON, shouting) > 1.5 * DELTA


def test_a_choice_of_k_that_is_not_paid_for_is_found(release):
    loud = replace(release, strength=4 * release.strength)
    assert worst(loud.distribution, EPSILON) > 1.5 * DELTA


def test_words_in_the_order_of_their_counts_are_found(release):
    assert worst(written_anew(release, ranked=True), EPSILON) > 1.5 * DELTA


def test_a_test_of_another_gap_is_found(release):
    """DP-ICL's code tests the gap behind word k + 1 and releases k words."""
    wrong = written_anew(release, behind=1)
    certain = [("a", "b")] * 20, [("a", "b")] * 20 + [("b",)]
    assert beyond(wrong(certain[0]), wrong(certain[1]), EPSILON) > 0.9
    right = written_anew(release)
    assert beyond(right(certain[0]), right(certain[1]), EPSILON) <= DELTA


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_published_choice_of_k_costs_twice_its_claim(epsilon):
    """DP-KSA, Algorithm 3, for a replaced reply: ``Gumbel(2 / epsilon)`` on gaps that move by 2."""

    def chosen(heights):
        gaps = torch.tensor(heights[:-1]) - torch.tensor(heights[1:])
        return torch.log_softmax(epsilon / 2 * gaps.double(), dim=0)

    # (b) is replaced by (a, c): the first gap grows by 2, and the second shrinks by 2.
    before, after = (60, 60, 3), (61, 59, 4)
    assert (chosen(after) - chosen(before)).max() == pytest.approx(2 * epsilon, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.05, 0.6, 2.4, 4.8])
@pytest.mark.parametrize("delta", [0.5, 1e-2, 1e-5, 1e-40])
def test_the_test_is_private_and_no_better_one_is(epsilon, delta):
    passes = passing(epsilon, delta)
    assert passes[0] == 0
    assert passes[1] == pytest.approx(delta)
    assert passes[-1] == 1
    for low, high in pairwise(passes):
        rising = high - math.exp(epsilon) * low
        falling = (1 - low) - math.exp(epsilon) * (1 - high)
        assert max(rising, falling) <= delta + 1e-12
        assert high == 1 or max(rising, falling) == pytest.approx(delta, abs=1e-12)


def test_the_test_ends_where_numbers_of_float64_do():
    assert passing(2000.0, 1e-5) == (0.0, pytest.approx(1e-5), 1.0, 1.0)


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
def test_choice_and_test_add_up_to_epsilon(epsilon, delta):
    release = KeywordRelease.within(epsilon, delta)
    tested = math.log(release.passes[2] / release.passes[1] - 1)
    assert 2 * release.strength + tested == pytest.approx(epsilon)
    of = privacy_loss_distribution.from_privacy_parameters
    both = of(common.DifferentialPrivacyParameters(2 * release.strength, 0)).compose(
        of(common.DifferentialPrivacyParameters(tested, delta))
    )
    assert both.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize(("epsilon", "needed"), [(8, 4), (4, 7), (2, 13), (1, 25)])
def test_so_many_replies_that_agree_are_enough(epsilon, needed):
    """Figures of docs/methods.md: nine times in ten their words go out."""
    release = KeywordRelease.within(epsilon, 1e-5)
    said = {"zingpocketosis", "acute"}
    right = ("acute", "zingpocketosis")
    assert release.distribution([said] * needed)[right] >= 0.9
    assert release.distribution([said] * (needed - 1)).get(right, 0.0) < 0.9


def writer():
    """A model that repeats the words it is given."""
    asked = []

    def ask(prompt):
        asked.append(prompt)
        return f" It is {prompt.split('order: ')[1].split('.')[0]}. "

    ask.asked = asked
    return ask


def answers(replies, *, epsilon=8.0, question="Which disease?", times=20):
    """What is answered, time after time, and what was asked."""
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(1)
    ask, made = writer(), KeywordAggregation()
    told = [
        made.answer(question, replies, ask, epsilon=epsilon, delta=1e-5, randomness=coins)
        for _ in range(times)
    ]
    assert len(ask.asked) <= times
    return told, ask.asked


def test_replies_that_agree_are_the_answer():
    replies = ["The disease is acute Zingpocketosis."] * 12
    told, asked = answers(replies)
    assert told == ["It is acute, zingpocketosis."] * 20
    assert all("Which disease?" in prompt for prompt in asked)


def test_what_few_say_never_reaches_a_prompt():
    replies = ["It is zingpocketosis."] * 12 + ["Quillon says it is zingpocketosis."]
    told, asked = answers(replies, times=40)
    assert "It is zingpocketosis." in told
    assert not any("quillon" in prompt for prompt in asked)


@pytest.mark.parametrize(
    "replies",
    [[], ["", " "], ["The."] * 30, ["Which disease?"] * 30, [f"word{n}" for n in range(30)]],
    ids=["none", "empty", "function words", "the question", "each its own"],
)
def test_where_nothing_is_released_nothing_is_asked(replies):
    assert answers(replies) == ([""] * 20, [])


def test_words():
    text = "It’s the patient's 3.5 mg of Non-Stick, Non-stick, in twelve days."
    assert words_of(text) == {"patient", "3.5", "mg", "non-stick", "12", "days"}
    assert words_of("") == frozenset()


def test_bad_settings_are_told_before_anything_is_asked():
    for given, named in (({"most": 0}, "most"), ({"share": 0}, "share"), ({"share": 1}, "share")):
        with pytest.raises(ConfigurationError, match=f"^{named} must [^\n]*$"):
            KeywordAggregation(**given)
    ask = writer()
    for given, named in (
        ({"epsilon": 0, "delta": 1e-5}, "epsilon"),
        ({"epsilon": math.nan, "delta": 1e-5}, "epsilon"),
        ({"epsilon": 1, "delta": 0}, "delta"),
        ({"epsilon": 1, "delta": 1}, "delta"),
    ):
        with pytest.raises(ConfigurationError, match=f"^{named} must [^\n]*$"):
            KeywordAggregation().answer("q", ["a"], ask, **given, randomness=Randomness())
    assert ask.asked == []
