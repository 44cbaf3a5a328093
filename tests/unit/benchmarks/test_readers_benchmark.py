"""What the table of readers is made of: the same units, kept replies, and what rivals may spend."""

import math
import random

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.chat_server import head_of
from benchmarks.fixed_search import FixedSearch
from benchmarks.kept_replies import KeptReplies, Used
from benchmarks.reader_tasks import Case, excerpt_of
from benchmarks.rival_budget import beside_any, beside_gaussian
from benchmarks.stated_notes import NOTES, stated_notes
from dpicl_rag import Document
from dpicl_rag.accounting import Adjacency
from dpicl_rag.accounting.conversion import gaussian_mu
from dpicl_rag.retrieval import CountedRetriever, GivenDocuments

DELTA = 1e-5
PASSAGE = "It is old. It rained. The tower is in Ulm. It is tall. Many come. They pay."


@pytest.mark.parametrize("epsilon", [8.0, 2.0])
def test_a_gaussian_rival_and_the_search_are_one_gaussian(epsilon):
    left = gaussian_mu(beside_gaussian(epsilon, DELTA, 0.01), DELTA)
    assert math.isclose(math.hypot(left, math.sqrt(0.02)), gaussian_mu(epsilon, DELTA))
    assert beside_gaussian(epsilon, DELTA, 100.0) == 0.0


@pytest.mark.parametrize("epsilon", [8.0, 2.0])
@pytest.mark.parametrize("rho", [0.04, 0.005])
def test_any_rival_beside_the_search_spends_all_of_delta_and_no_more(epsilon, rho):
    found, mu = beside_any(epsilon, DELTA, DELTA / 2, rho), math.sqrt(2 * rho)
    assert 0.4 * epsilon < found < epsilon
    # The search is N(0, 1) or N(mu, 1), the rival a coin of four sides; delta by its definition.
    at, width = np.linspace(-12, 12, 480_001, retstep=True)
    heads, tails = (1 - DELTA / 2) / (1 + math.exp(-found)), (1 - DELTA / 2) / (1 + math.exp(found))
    pairs = [(DELTA / 2, 0.0), (heads, tails), (tails, heads), (0.0, DELTA / 2)]
    apart = [
        np.maximum(0, p * norm.pdf(at, mu) - math.exp(epsilon) * q * norm.pdf(at)).sum() * width
        for p, q in pairs
    ]
    assert math.isclose(sum(apart), DELTA, rel_tol=1e-4)


def test_a_search_that_takes_all_leaves_nothing():
    assert beside_any(1.0, DELTA, DELTA / 2, 1.0) == 0.0


def test_contenders_are_given_the_same_units_and_the_same_count():
    documents = [Document(f"day {n}", f"u{n}") for n in range(40)]
    counts = set()
    for seed in (1, 1, 2, 3, 4):
        search = FixedSearch.of(CountedRetriever(GivenDocuments(documents)), seed)
        search = search.within(0.01, Adjacency.ADD_OR_REMOVE_ONE)
        found = search.search("?").choose()
        assert len(found.units) == len(documents)
        counts.add((seed, found.count.value))
    assert {seed for seed, _ in counts} == {1, 2, 3, 4}
    assert len(counts) == 4  # the same seed twice, the same noise
    assert len({value for _, value in counts}) > 1
    assert search.rho(Adjacency.ADD_OR_REMOVE_ONE) > 0


def test_a_kept_reply_is_asked_once_and_counted_each_time(tmp_path):
    asked = []

    def replies(prompts):
        asked.extend(prompts)
        return [prompt.upper() for prompt in prompts]

    file = tmp_path / "notes.jsonl"
    kept = KeptReplies(replies, "one", len, file)
    assert kept.replies(["a", "bc", "a"]) == ["A", "BC", "A"]
    assert KeptReplies(replies, "one", len, file).ask("bc") == "BC"
    assert KeptReplies(replies, "another", len, file).ask("bc") == "BC"
    assert asked == ["a", "bc", "bc"]
    used = kept.used.plus(Used(1, 2, 3))
    assert (used.calls, used.tokens_in, used.tokens_out) == (4, 6, 7)


def test_an_excerpt_has_the_sentence_that_answers_and_few_others():
    draw = random.Random(0)
    found = {excerpt_of(PASSAGE, ["Ulm"], draw) for _ in range(100)}
    assert "The tower is in Ulm." in found
    assert all("in Ulm." in one for one in found)
    assert PASSAGE.removesuffix(" They pay.") in found
    assert PASSAGE not in found


def test_an_answer_is_right_in_canonical_form_too():
    case = Case("when?", ("May 18, 2018", "two days"), str)
    assert case.right("It was on May 18, 2018")
    assert case.right("18 May, 2018")
    assert case.right("After 2 days")
    assert not case.right("May 1, 2018")


def test_notes_state_the_disease_in_every_phrasing():
    notes = stated_notes("Zing Fever", 200, 0)
    assert {note.replace("Zing Fever", "{}") for note in notes} == set(NOTES)
    assert notes == stated_notes("Zing Fever", 200, 0) != stated_notes("Zing Fever", 200, 1)


def test_what_prompts_begin_with_leaves_two_tokens_of_each():
    assert head_of([(1, 2, 3, 4), (1, 2, 5, 6, 7)]) == (1, 2)
    assert head_of([(1, 2, 3), (1, 2, 3, 4)]) == (1,)
    assert head_of([(1, 2, 3, 4)]) == (1, 2)
