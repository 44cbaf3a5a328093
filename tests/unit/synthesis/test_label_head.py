"""Label heads: what a unit moves, what is paid, and what a released file is good for."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpicl_rag import PrivateContextLLM
from dpicl_rag.accounting import Adjacency
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.points import GRID
from dpicl_rag.synthesis.label_head import LabelHead, LabelHeadPlan, release_label_head
from dpicl_rag.synthesis.pools import LabelledDocument
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.private_rows import price
from tests.support.scripted_model import ScriptedModel
from tests.support.written_embedder import WrittenEmbedder

LABELS = ("up", "down")
ARRIVAL, REPLACED = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


WRITTEN = WrittenEmbedder({"up": "0 1 0", "down": "0 -1 0"})
TEXTS = ("1 0 0", "-1 0 0", "1 2 2", "-3 1 7", "nan 0 0", "0 0 0", "2e9 1 1")
OWN = [
    (text, label) for text, label in itertools.product(TEXTS, (*LABELS, "aside"))
]  # what a unit may have one of


def unit(name, *own):
    return [LabelledDocument(text, label, name) for text, label in own]


BASE = [*unit("a", ("1 1 0", "up")), *unit("b", ("0 0 3", "down"), ("-1 0 0", "down"))]
UNITS = [
    *(unit("u", one) for one in OWN),
    *(unit("u", *pair) for pair in itertools.product(OWN[:3], OWN[3:9])),
    unit("u", *[OWN[0]] * 5, OWN[1]),
    unit("u", *OWN),
]


def released(examples, **more):
    given = {"epsilon": 1.0, "embedder": WRITTEN, **more}
    return release_label_head(examples, LABELS, **given)


def sums(adjacency):
    def release(examples):
        return [n for row in released(examples, adjacency=adjacency).sums for n in row]

    return release


@pytest.mark.parametrize("base", [[], BASE], ids=["nobody", "two"])
def test_a_unit_that_comes_costs_what_is_paid_and_no_more(base):
    rho = LabelHeadPlan(2, 1.0).rho
    found = [price(sums(ARRIVAL), base, [*base, *own]) for own in UNITS]
    assert max(found) <= rho
    assert max(found) == pytest.approx(rho, rel=1e-6)


def test_a_unit_that_changes_costs_what_is_paid_and_no_more():
    plan = LabelHeadPlan(2, 1.0, adjacency=REPLACED)
    ends = [unit("u", one) for one in OWN[:9]]
    found = [
        price(sums(REPLACED), [*BASE, *one], [*BASE, *other])
        for one, other in itertools.combinations([*ends, UNITS[-1]], 2)
    ]
    assert max(found) <= plan.rho
    assert max(found) == pytest.approx(plan.rho, rel=1e-6)


def test_no_vector_is_longer_than_one_by_rounding():
    made = np.random.default_rng(0).normal(size=(100, 3))
    for row in made:
        own = unit("u", (" ".join(map(str, row)), "up"))
        (moved, _) = exact(own)
        assert 0.999 * GRID**2 < sum(n * n for n in moved) <= GRID**2


def exact(examples):
    from dpicl_rag.synthesis.label_head import exact_sums

    return exact_sums(examples, LABELS, WRITTEN)


def test_every_number_has_noise_of_the_plan(monkeypatch):
    drawn = iter(range(1, 7))
    seen = []
    monkeypatch.setattr(
        "dpicl_rag.mechanisms.discrete_noise.DiscreteGaussian.draw",
        lambda noise, _: seen.append(noise) or next(drawn),
    )
    head = released([])
    assert head.sums == ((1, 2, 3), (4, 5, 6))
    assert set(seen) == {LabelHeadPlan(2, 1.0).noise}
    least = Fraction(GRID) ** 2 / (2 * Fraction(seen[0].sigma) ** 2)
    assert least <= LabelHeadPlan(2, 1.0).rho


def test_texts_have_the_nearest_label_and_names_decide_where_nobody_is():
    many = [one for n in range(200) for one in unit(f"a{n}", ("1 0 0", "up"))]
    many += [one for n in range(200) for one in unit(f"b{n}", ("-1 0 0", "down"))]
    head = released(many, epsilon=8.0)
    assert head.labels_of(["5 0 0", "-0.1 0 0"]) == ["up", "down"]
    nobody = LabelHead(LABELS, ((0, 0, 0), (0, 0, 0)), 1.0, "written", 1.0, 1e-5, 0.0, "", WRITTEN)
    assert nobody.labels_of(["0 1 0", "0 -1 0"]) == ["up", "down"]


def test_a_label_costs_nothing_more_and_tells_what_was_paid(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="notes", epsilon=1.0)
        head = released(BASE, ledger=ledger, corpus="notes")
        spent = ledger.status()[0].spent
        assert spent == pytest.approx(head.rho)
        llm = PrivateContextLLM(ScriptedModel({}), ledger=ledger, corpus="notes")
        label = llm.classify("0 1 0", head)
        assert label.label in LABELS
        assert (label.epsilon, label.delta, label.rho) == (1.0, 1e-5, 0.0)
        assert ledger.status()[0].spent == spent
        with pytest.raises(BudgetExceededError):
            released(BASE, ledger=ledger, corpus="notes")


def test_a_file_has_the_release_alone_and_damage_is_refused(tmp_path):
    head = released(BASE)
    found = json.loads(json.dumps(head.as_dict()))
    again = LabelHead.of_dict(found, WRITTEN)
    assert again == head
    assert again.labels_of(list(TEXTS)) == head.labels_of(list(TEXTS))
    assert set(found) == {
        *("labels", "sums", "sigma", "model", "epsilon", "delta", "rho", "adjacency", "sha256")
    }
    found["sums"][0][0] += 1
    with pytest.raises(ConfigurationError, match="damaged"):
        LabelHead.of_dict(found, WRITTEN)
    with pytest.raises(ConfigurationError, match="embedding model written"):
        LabelHead.of_dict(head.as_dict())
    with pytest.raises(ConfigurationError, match="there is no release"):
        LabelHead.open(tmp_path)


@pytest.mark.parametrize("labels", ["up", ("up",), ("up", "up"), ()])
def test_labels_are_a_public_list_of_two_or_more(labels):
    with pytest.raises(ConfigurationError, match="label"):
        release_label_head(BASE, labels, epsilon=1.0, embedder=WRITTEN)


def test_the_guides_example_runs(capsys):
    guide = (Path(__file__).parents[3] / "docs" / "synthesis.md").read_text("utf-8")
    block = guide.split("## Labels")[1].split("```python\n")[1].split("```")[0]
    private = [LabelledDocument("A penalty decided the match.", "Sports")]
    exec(block, {"private": private, "embedder": BucketEmbedder()})
    assert "0.0296" in capsys.readouterr().out
