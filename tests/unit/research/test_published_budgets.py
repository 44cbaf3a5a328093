"""What two published budgets cover: the figures of docs/papers.md, "What is unsound in a paper"."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpicl_rag.accounting import Adjacency, Budget, epsilon_for
from dpicl_rag.methods import make


@pytest.mark.heavy
def test_users_who_share_their_answers_share_no_budget():
    """DP-ICL's noise for one user: ten subsets of four from 8,000 examples, 10,000 answers."""
    method = make("votes-gaussian", rate=40 / 8_000, group_size=4)
    budget = Budget(1.0, 1e-5, queries=10_000)
    event = method.calibrate(budget).event
    found = [epsilon_for(event, replace(budget, queries=10_000 * users)) for users in (2, 10, 100)]
    assert found == pytest.approx([1.46, 3.59, 14.26], abs=0.005)


def test_the_classical_formula_does_not_hold_where_it_is_not_proven():
    """DP-ICL's theorem 2, for replaced examples."""
    method = make("votes-gaussian")
    found = []
    for claimed in (1, 3, 4, 8, 12):
        budget = Budget(claimed, 1e-5, Adjacency.REPLACE_ONE)
        found.append(epsilon_for(method.published(budget).event, budget))
    assert found == pytest.approx([0.75, 2.53, 3.51, 7.91, 13.05], abs=0.005)
