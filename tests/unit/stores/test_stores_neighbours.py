"""What a store holds of one unit moves no other: scores stay, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.retrieval import ThresholdRetriever, TopKRetriever
from dpicl_rag.stores import exact_store
from tests.support.stores import Passages, Store, passages

SEEDS = range(300, 330)


def moved(store: Store, made: Passages, unit: str) -> list[str]:
    """Units other than ``unit`` whose score, or whose being found, depends on its arrival."""
    after, before = store(made), store(made.without(unit))
    found: list[str] = []
    for least in (-1.0, 0.0, 0.3):
        new, old = (
            dict(zip(scan.units, scan.scores.tolist(), strict=True))
            for scan in (source.scan(made.question, least=least) for source in (after, before))
        )
        new.pop(unit, None)
        found += [u for u in new.keys() | old.keys() if new.get(u) != old.get(u)]
    return found


def neighbours() -> list[tuple[Passages, str]]:
    made = (passages(seed) for seed in SEEDS)
    return [
        (p, p.units[seed % len(p.units)]) for seed, p in zip(SEEDS, made, strict=True) if p.rows
    ]


@pytest.mark.one_in(2)
def test_an_arrival_moves_no_score(store: Store) -> None:
    assert [moved(store, *pair) for pair in neighbours()] == [[]] * len(neighbours())


def test_a_score_that_knows_its_company_is_caught(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: last bits that follow from how many rows were scored together."""
    true = exact_store.exact_scores
    monkeypatch.setattr(
        exact_store,
        "exact_scores",
        lambda v, query: np.nextafter(true(v, query), len(v) % 2 * 2 - 1),
    )
    assert any(moved(store, *pair) for pair in neighbours())


def by_unit(documents: list[Document]) -> dict[str, list[str]]:
    return {unit: [d.text for d in texts] for unit, texts in group_by_unit(documents).items()}


@pytest.mark.one_in(2)
def test_a_threshold_adds_one_and_top_k_displaces_at_most_one(store: Store) -> None:
    for made, unit in neighbours():
        after, before = store(made), store(made.without(unit))
        new, old = (by_unit(ThresholdRetriever(s, 0.2).retrieve("q")) for s in (after, before))
        new.pop(unit, None)
        assert new == old
        new, old = (by_unit(TopKRetriever(s, 4).retrieve("q")) for s in (after, before))
        assert len(new.keys() - old.keys()) <= 1
        assert new.keys() - old.keys() <= {unit}
        assert all(new[u] == old[u] for u in new.keys() & old.keys())
