"""The released label's exact distribution, compared between neighbours with its charge.

Coins of groups are enumerated, and the mechanism's distribution is taken in place of a draw. Each
trap is planted, and found.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from dpicl_rag.accounting import Adjacency, Stability
from dpicl_rag.answering import answer_plan
from dpicl_rag.auditing.neighbours import realised_range
from dpicl_rag.documents import Document
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.utilities import LogProb
from dpicl_rag.vision import classify, classify_image
from dpicl_research.vision_prototype import VisionPrototype
from tests.support.images import ColourNetwork, CompanyNetwork, an_image, unreadable

LABELS = ("dax", "blicket", "perpo")
EPSILON, DELTA = 2.0, 1e-2
QUERY = an_image((255, 0, 0))
METHODS = ("poe", "votes", "permute-and-flip", "permute-and-flip-votes")
BOUNDED_RANGE = ("poe", "votes")
EACH = pytest.mark.parametrize("method", METHODS)
# Like the query, less like it, unlike it; and what cannot be read.
UNITS = [
    *(Document(label, "u", image=QUERY) for label in LABELS),
    *(Document(label, "u", image=an_image((255, 70, 0))) for label in LABELS),
    Document("dax", "u", image=an_image((0, 255, 255))),
    Document("dax", "u", image=unreadable()["a bomb"]),
    Document("another", "u", image=QUERY),
]
# Others who agree make the worst case.
AROUND = [[], [3], [5, 5], [0, 6], [5] * 14]
AROUND_GROUPS = [[], [3], [5, 6], [3, 4]]


class Enumerated(Randomness):
    """Coins that were written down, and no draw: its distribution is kept."""

    def __init__(self, coins=()):
        self.coins = list(coins)
        self.log_probs = torch.zeros(0)

    def below(self, bound):
        return self.coins.pop(0)

    def draw(self, scores):
        self.log_probs = torch.log_softmax(scores, dim=0)
        return 0


def make_model(network=None):
    # So cold that one example decides, and another one decides otherwise.
    return VisionPrototype(network or ColourNetwork(), temperature=0.01)


def released(documents, method, groups=None, network=None, **settings):
    """Log-probabilities of the labels, over all coins."""
    coins = itertools.product(range(groups), repeat=len(documents)) if groups else [()]
    found = []
    for own in coins:
        randomness = Enumerated(own)
        classify_image(
            QUERY,
            documents,
            LABELS,
            model=make_model(network() if network else None),
            method=method,
            randomness=randomness,
            **{"epsilon": EPSILON, "delta": DELTA, "groups": groups} | settings,
        )
        found.append(randomness.log_probs)
    return torch.logsumexp(torch.stack(found), dim=0) - math.log(len(found))


def neighbours(around, adjacency):
    """Pairs of corpora, the others first."""
    for places in around:
        others = [replace(UNITS[place], unit=str(at)) for at, place in enumerate(places)]
        if adjacency is Adjacency.REPLACE_ONE:
            for one, other in itertools.combinations(UNITS, 2):
                yield [one, *others], [other, *others]
        else:
            for one in UNITS:
                yield [one, *others], others


def worst(method, groups=None, adjacency=Adjacency.ADD_OR_REMOVE_ONE, **more):
    """Largest log ratio of a label between neighbours, or range of them where that is charged."""
    found = 0.0
    known = {}

    def of(documents):
        key = tuple((d.text, d.image, d.unit) for d in documents)
        if key not in known:
            known[key] = released(documents, method, groups, adjacency=adjacency, **more)
        return known[key]

    for one, other in neighbours(AROUND_GROUPS if groups else AROUND, adjacency):
        found = max(found, float((of(one) - of(other)).abs().max()))
        if method in BOUNDED_RANGE and groups in (None, 1):
            found = max(found, realised_range(of(one), of(other)))
    return found


@pytest.mark.one_in(3)
@EACH
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_unit_moves_the_label_by_its_charge_and_no_less(method, adjacency):
    found = worst(method, adjacency=adjacency)
    assert 0.8 * EPSILON < found <= EPSILON + 1e-9


@pytest.mark.one_in(3)
@EACH
@pytest.mark.parametrize("groups", [1, 2])
def test_a_unit_that_joins_a_group_changes_one_expert(method, groups):
    found = worst(method, groups)
    # Of two groups the coin hides which one was changed.
    assert (0.6 if groups == 1 else 0.2) * EPSILON < found <= EPSILON + 1e-9


def gaussian(documents, **more):
    return released(documents, "votes-gaussian", **more).exp()


@pytest.mark.parametrize("groups", [None, 1])
def test_gaussian_votes_stay_within_epsilon_and_delta(groups):
    for one, other in neighbours(AROUND_GROUPS, Adjacency.ADD_OR_REMOVE_ONE):
        p, q = gaussian(one, groups=groups), gaussian(other, groups=groups)
        for a, b in ((p, q), (q, p)):
            assert float((a - math.exp(EPSILON) * b).clamp(min=0).sum()) <= DELTA


# ---- planted faults ----


@EACH
def test_a_group_that_is_charged_once_is_found(method, monkeypatch):
    monkeypatch.setattr(answer_plan, "RANDOM_GROUPS", Stability(added=1, changed=0))
    assert worst(method, 1) > 1.1 * EPSILON


@pytest.mark.parametrize("method", ["poe", "permute-and-flip"])
def test_utilities_that_are_not_clipped_are_found(method, monkeypatch):
    """A cold temperature makes them as large as it likes."""
    sound = classify.over_documents

    def unclipped(*given):
        mechanism, priors = sound(*given)
        return replace(mechanism, utility=LogProb(1000.0)), priors

    monkeypatch.setattr(classify, "over_documents", unclipped)
    assert worst(method) > 2 * EPSILON


@pytest.mark.heavy
@EACH
def test_features_that_were_computed_in_company_are_found(method):
    assert worst(method, network=CompanyNetwork) > 1.1 * EPSILON


def test_a_row_is_its_own_units_to_the_last_bit():
    documents = [replace(unit, unit=str(at)) for at, unit in enumerate(UNITS)]

    def rows(model, some):
        found = classify.read_rows(
            model, [[one] for one in some], classify.read_picture(QUERY, model.side), LABELS
        )
        return found.experts

    def holds(network):
        whole = rows(make_model(network()), documents)
        alone = [rows(make_model(network()), [one]) for one in documents]
        return torch.equal(whole, torch.cat(alone))

    assert holds(ColourNetwork)
    assert not holds(CompanyNetwork)


# ---- what cannot be read ----


@EACH
@pytest.mark.parametrize("wrong", sorted(unreadable()))
def test_an_image_that_cannot_be_read_is_no_image_at_all(method, wrong):
    others = [replace(UNITS[0], unit="0"), replace(UNITS[4], unit="1")]
    broken = Document("dax", "b", image=unreadable()[wrong])
    assert torch.equal(released([*others, broken], method), released(others, method))
    # Beside a good one of the same unit it changes nothing either.
    mixed = [*others, replace(broken, unit="1")]
    assert torch.equal(released(mixed, method), released(others, method))


def test_a_unit_joins_its_group_by_a_coin():
    """By its rank, whoever comes would move others from group to group."""
    units = {name: [Document("dax", name), Document("blicket", name)] for name in "abc"}
    found = classify.grouped(units, 2, Enumerated([1, 1, 0]))
    assert [[one.unit for one in own] for own in found] == [["c"] * 2, ["a", "a", "b", "b"]]
