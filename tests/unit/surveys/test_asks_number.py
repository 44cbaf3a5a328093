"""Questions for a number of units are told from those for a fact."""

import pytest

from dpicl_rag.surveys.counts_units import asks_number


@pytest.mark.parametrize(
    "question",
    [
        "How many customers want a refund?",
        "How many tickets are about late delivery?",
        "how many angry customers are there",
        "What share of the threads is about the warehouse?",
        "Which product breaks most often?",
        "What is the most common complaint?",
        "How often do parcels come late?",
    ],
)
def test_a_number_is_asked_for(question):
    assert asks_number(question)


@pytest.mark.parametrize(
    "question",
    [
        "How many days does a refund take?",
        "When does the warehouse open?",
        "How many bytes has a page?",
        "What is the pump cleaned with?",
        "What do most people call the new product?",
    ],
)
def test_a_fact_is_asked_for(question):
    assert not asks_number(question)
