"""The radius search at its extremes, exactly; and a look at every token of a text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from dpicl_rag.accounting import Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.points import GRID, LARGEST
from dpicl_rag.synthesis.examples_plan import examples_plan
from dpicl_research.published_settings import published_constants
from dpicl_research.radius_search import extremes, measure, radius_without_noise
from dpicl_research.synthetic_examples import settings_for
from dpicl_research.synthetic_shots import Arm
from tests.support.tiny_model import build_tiny_model


def adaptive(epsilon, experts=20, constants=None):
    """DBpedia, as docs/synthesis.md has it."""
    return examples_plan(
        "adaptive",
        4,
        epsilon=epsilon,
        delta=1e-5,
        texts_per_label=1,
        max_tokens=40,
        experts=experts,
        per_expert=1,
        rate=20 / 357,
        candidates=100,
        adjacency=Adjacency.ADD_OR_REMOVE_ONE,
        labels_per_unit=1,
        adaptive=constants,
    ).mechanism


def show(*words):
    print(*words)  # noqa: T201 - the table, with pytest -s


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("epsilon", "apart", "told"),
    [
        (1, (0.30, 0.20), 0.61),
        (2, (0.35, 0.20), 0.67),
        (4, (0.41, 0.20), 0.74),
        (8, (0.48, 0.19), 0.81),
    ],
)
def test_one_radius_hardly_tells_experts_that_agree_from_those_that_do_not(epsilon, apart, told):
    """The table of docs/synthesis.md: exact, so any other figure is a change of the search."""
    agreeing, found, chance = extremes(adaptive(epsilon))
    show(epsilon, agreeing, found, chance)
    # Where all agree L is t, and noise alone decides: the same at every epsilon.
    assert agreeing == pytest.approx((0.20, 0.18), abs=0.006)
    assert found == pytest.approx(apart, abs=0.006)
    assert chance == pytest.approx(told, abs=0.006)


@pytest.mark.parametrize(
    ("task", "experts", "claimed", "told"),
    [("agnews", 10, 1, 0.61), ("agnews", 10, 8, 0.61), ("dbpedia", 10, 1, 0.61),
     ("trec", 20, 1, 0.63), ("mitd", 40, 1, 0.79), ("mitg", 40, 1, 0.83), ("mitg", 40, 2, 0.90)],
)  # fmt: skip
def test_published_noise_tells_them_apart_with_40_experts_alone(task, experts, claimed, told):
    found = extremes(adaptive(50.0, experts, published_constants(task, claimed)))[-1]
    show(task, claimed, found)
    assert found == pytest.approx(told, abs=0.006)


@pytest.mark.heavy
def test_a_search_without_noise_does_tell_them_apart():
    """The plant: what is found above is the noise's doing, not the table's."""
    quiet = adaptive(1.0)
    quiet = replace(quiet, noises=replace(quiet.noises, radius=1e-6))
    agreeing, apart, chance = extremes(quiet)
    assert agreeing[0] < 0.2 < 0.6 < apart[0]
    assert chance > 0.98


def test_the_radius_without_noise():
    own = (torch.tensor([[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]]).double() * GRID).long()
    assert radius_without_noise(own, 2) == pytest.approx(0.2 * math.sqrt(2), abs=2e-3)
    assert radius_without_noise(own, 4) == pytest.approx(LARGEST)


@pytest.mark.heavy
def test_every_token_of_every_text_is_seen(task):
    model = build_tiny_model()
    given = {
        **{"seeds": 1, "shots": 2, "queries": 0, "delta": 1e-2, "max_tokens": 2, "experts": 2},
        **{"candidates": 10, "text_tokens": 12},
    }
    settings, told = settings_for(task, model, 0.5, **given), []
    report = measure(model, task, settings, [Arm("adaptive", 2.0)], lambda *at: told.append(at))
    (line,) = report.radii
    assert line.tokens == 4
    assert 0 <= line.true <= LARGEST
    assert 0 < line.last <= LARGEST
    assert told[-1] == (2, 2)
    assert [len(table.rows) for table in report.tables()] == [1, 1]
    assert report.summary()["radii"][0]["tokens"] == 4
    for wrong, radius in (("difference", None), ("adaptive", 0.3)):
        with pytest.raises(ConfigurationError, match="searches for a radius"):
            measure(model, task, replace(settings, radius=radius), [Arm(wrong, 2.0)])
