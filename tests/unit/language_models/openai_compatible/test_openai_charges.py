"""Answers over a server cost what they are charged, exactly; a server whose rows move is seen."""

from __future__ import annotations

import pytest

from dpicl_rag import Document
from dpicl_rag.auditing import Subject
from dpicl_rag.auditing.neighbours import audit_neighbours
from dpicl_rag.configuration import UtilityName
from dpicl_rag.language_models.openai_compatible.server_rows import ServerRows

CORPUS = [Document("The code is 4471.", "Ida"), Document("It is 4471, says Jon.", "Jon")]
ADDED = ("no, the code is 9, 9, 9", "zzzzzzzzzzzz")

OTHERS = [utility for utility in UtilityName.__args__ if utility != "surplus"]


def audit(model, **settings):
    labels = settings.pop("labels", ())
    subject = Subject(
        model, "What is the code?", {"max_tokens": 3, **settings}, labels=tuple(labels)
    )
    return audit_neighbours(subject, CORPUS, tokens=3, additions=ADDED, expansions=3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("utility", "most"),
    [
        *((utility, 5) for utility in UtilityName.__args__),
        ("surplus", 1000),
        *(pytest.param(utility, 1000, marks=pytest.mark.heavy) for utility in OTHERS),
    ],
)
def test_neighbours_are_as_near_as_they_pay_for(serve, utility, most):
    _, model = serve(most=most)
    for accounting in ("individual", "fixed"):
        found = audit(model, utility=utility, accounting=accounting, unsupported="ignore")
        assert found.holds
        assert found.usage > 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["vllm", "llama"])
def test_labels_of_neighbours_are_as_near_as_they_pay_for(serve, kind):
    _, model = serve(kind=kind, most=50)
    assert audit(model, labels=["4471", "9", "none"]).holds


@pytest.mark.filterwarnings("ignore::dpicl_rag.NotPrivateWarning")
def test_rows_that_move_with_their_company_are_seen(serve):
    _, model = serve(moves=3.0)
    found = audit(model, utility="log_ratio", accounting="individual", unsupported="ignore")
    assert not found.holds


def test_a_public_row_that_hears_of_the_documents_is_seen(serve, monkeypatch):
    """Planted: what is not shown in public is asked afterwards, where an expert names it."""
    places = ServerRows._places

    def curious(self, ends, fields):
        for rows in places(self, ends, fields):
            rows[0, rows[1:].topk(5).indices.unique()] += 1.0
            yield rows

    _, model = serve(most=5)
    settings = {"accounting": "fixed", "strength": 0.05, "unsupported": "ignore"}
    assert audit(model, **settings).holds
    monkeypatch.setattr(ServerRows, "_places", curious)
    assert not audit(model, **settings).holds
