"""Topics and batches: a unit that arrives joins its own records and moves no other unit."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.synthesis.key_words import (
    PublicWords,
    ReleasedWord,
    batch_of,
    joined,
    topics_for,
    words_in,
)
from tests.support.tiny_model import build_tiny_tokenizer

KEYS = [
    ReleasedWord("fever", 100, 6.0),
    ReleasedWord("cough", 31, 6.0),
    ReleasedWord("rash", -3, 6.0),
]
RUN_KEY = b"k" * 32


def members(units, topics, batch=batch_of):
    """By record: who is in it."""
    found: dict[tuple[int, int], set[str]] = {}
    for unit, words in units.items():
        for place in joined(words, topics, most=2):
            topic = topics[place]
            own = batch(RUN_KEY, unit, topic.key.word, topic.batches)
            found.setdefault((place, own), set()).add(unit)
    return found


def require_stable(before, after, newcomer):
    """Stability 1, 0: the newcomer is added, nobody else moves."""
    records = before.keys() | after.keys()
    changed = {r for r in records if before.get(r, set()) != after.get(r, set())}
    assert len(changed) <= 2
    for record in changed:
        assert after.get(record, set()) == before.get(record, set()) | {newcomer}


@pytest.fixture
def units():
    draw = random.Random(1)
    return {
        f"unit-{n}": set(draw.sample(["fever", "cough", "rash", "other"], draw.randrange(4)))
        for n in range(80)
    }


def test_a_newcomer_moves_nobody(units):
    topics = topics_for(KEYS, batch=16, most=3)
    for words in ({"fever"}, {"rash", "cough", "fever"}, set()):
        for name in ("aaa", "zzz", "unit-4x"):
            after = {name: words, **units}
            require_stable(members(units, topics), members(after, topics), name)


def test_batches_by_order_move_others_and_are_seen(units):
    """The planted fault: a batch filled by order."""
    topics = topics_for(KEYS, batch=16, most=3)

    def by_order(some):
        ordered = sorted(some)
        return lambda key, unit, word, batches: ordered.index(unit) % batches

    after = {"aaa": {"fever"}, **units}
    with pytest.raises(AssertionError):
        require_stable(
            members(units, topics, by_order(units)), members(after, topics, by_order(after)), "aaa"
        )


def test_a_unit_joins_the_rarest_keys_and_no_more_than_asked():
    topics = topics_for(KEYS, batch=16, most=3)
    assert joined({"rash", "cough", "fever"}, topics, most=2) == [0, 1]
    assert joined({"rash"}, topics, most=2) == [2]
    assert joined(set(), topics, most=2) == []


def test_the_number_of_records_follows_from_the_noisy_count():
    topics = topics_for([*KEYS, ReleasedWord("much", 1000, 6.0)], batch=32, most=3)
    assert [(t.batches, t.records) for t in topics] == [(3, 3), (1, 1), (1, 1), (31, 3)]
    assert topics[0].count.value == pytest.approx(100 / 3)


def test_a_number_of_records_from_the_true_count_is_seen():
    """The planted fault: with the true count the number of records tells one unit."""

    def records(true, noise):
        return topics_for([ReleasedWord("fever", true + noise, 6.0)], batch=32, most=9)[0].records

    # The same release gives the same number, whatever the true counts behind it.
    assert records(63, 1) == records(64, 0)
    faulty = [topics_for([ReleasedWord("fever", true, 6.0)], 32, 9)[0].records for true in (63, 64)]
    assert faulty[0] != faulty[1]


def test_coins_are_a_units_own_and_spread_evenly():
    drawn = [batch_of(RUN_KEY, f"unit-{n}", "fever", 4) for n in range(4000)]
    assert all(900 < n < 1100 for n in Counter(drawn).values())
    assert drawn == [batch_of(RUN_KEY, f"unit-{n}", "fever", 4) for n in range(4000)]
    others = [batch_of(b"l" * 32, f"unit-{n}", "fever", 4) for n in range(4000)]
    elsewhere = [batch_of(RUN_KEY, f"unit-{n}", "cough", 4) for n in range(4000)]
    assert drawn != others
    assert drawn != elsewhere
    assert 0 <= batch_of(RUN_KEY, "half \ud800", "fever", 4) < 4


def test_words_lose_capitals_accents_and_numbers():
    assert words_in("Überfieber! It's 12345 and SR20-x, don\u2019t: naïve") == {
        "uberfieber",
        "sr20",
        "naive",
    }


def test_the_rarest_words_are_a_function_of_the_unit_alone():
    class Listed:
        def __init__(self):
            words = ("\u0120fever", "\u0120cough", "\u0120the", "x", "\u0120ab1")
            self.vocabulary = {word: number for number, word in enumerate(words)}

        def encode(self, text):
            return [self.vocabulary.get("\u0120" + text.strip(), 400), *([900] * len(text))]

    public = PublicWords(Listed())
    assert public.listed == ("cough", "fever")
    own = public.rarest(["Fever and zingpocketosis.", "A cough, wiggle."], 1)
    assert own.listed == ("cough",) or own.listed == ("fever",)
    assert own.unlisted == ("zingpocketosis",)
    assert "zing" not in repr(own)


def test_a_tokenizer_of_bytes_lists_no_words():
    from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer

    assert PublicWords(HuggingFaceTokenizer(build_tiny_tokenizer())).listed == ()


def test_noise_is_what_the_count_of_a_batch_says():
    (topic,) = topics_for(
        [ReleasedWord("fever", 64, DiscreteGaussian(5.0).sigma)], batch=32, most=1
    )
    assert topic.count.sigma == pytest.approx(((5 / 2) ** 2 + 64 / 4) ** 0.5)
