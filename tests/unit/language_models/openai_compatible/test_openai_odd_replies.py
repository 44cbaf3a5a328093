"""Whatever a server says of one document: that expert alone says nothing, and no answer ends."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.language_models.openai_compatible.completions import understood
from dpicl_rag.language_models.openai_compatible.server_rows import expert_rows, public_row
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import LogProb, LogRatio, Sufficient, Surplus, Vote

INPUTS = [(1,), (2,), (3,), (4,)]
ODD = 3  # the first token of the document that is answered oddly


def vllm(value, token="token_id:1"):
    return {"top_logprobs": [{"token_id:5": -1.0, token: value}]}


def llama(*pairs):
    return {"content": [{"top_logprobs": [{"id": id, "logprob": value} for id, value in pairs]}]}


NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    -1e308,
    1e308,
    0.5,
    -(10**400),
    None,
    True,
    "-1.0",
    [],
    {},
]
SILENT = [
    *map(vllm, NUMBERS),
    *(llama((5, -1.0), (1, value)) for value in NUMBERS),
    vllm(-1.0, token="a word"),
    vllm(-1.0, token="token_id:"),
    vllm(-1.0, token="token_id:05"),  # the same token twice
    llama((5, -1.0), (5, -2.0)),
    *(llama((5, -1.0), (token, -2.0)) for token in (math.inf, math.nan, None, [], "x")),
    *([{"top_logprobs": found} for found in (None, [], [None], [{}], [[]], 7, {})]),
    *([{"content": found} for found in (None, [], [{}], [{"top_logprobs": []}], [7], "x")]),
    *(None, [], {}, "logprobs", 7),
]
"""What one choice may show instead of log-probabilities."""

SPOKEN = [
    llama((5, 0), (6, 0), (7, 0)),  # probabilities of sum 3
    llama((10**40, -0.1), (-7, -2.0)),  # tokens beyond the vocabulary
    vllm(-9999.0),
]
"""Odd, but numbers that a row can hold."""

UTILITIES = (Surplus(), Sufficient(Surplus(), 10.0, 5.0), LogProb(), LogRatio(), Vote())


def step(connected):
    return connected.read((9,), INPUTS, room=3).extend((5,))


@pytest.fixture
def oddly(serve):
    """A step of a server that shows one document's row otherwise."""
    fake, connected = serve()
    choices = fake.choices

    def ask(logprobs, finish_reason="length", patience=2.0):
        type(connected._completions.server).patience = patience

        def odd(body):
            for choice, prompt in zip(choices(body), body["prompt"], strict=True):
                if prompt[1] == ODD:
                    choice |= {"logprobs": logprobs, "finish_reason": finish_reason}
                yield choice

        fake.choices, fake.bodies[:] = odd, []
        return step(connected)

    yield ask
    fake.choices = choices


@pytest.fixture
def others(serve):
    """What is said of the other documents."""
    found = step(serve()[1])
    return DenseStep(found.public, found.experts[[0, 2]])


@pytest.mark.one_in(12)
@pytest.mark.parametrize("logprobs", SILENT, ids=repr)
def test_an_odd_reply_silences_its_expert_alone(oddly, others, logprobs):
    found = oddly(logprobs)
    assert found.experts[1].isnan().all()
    assert torch.equal(found.public, others.public)
    assert torch.equal(found.experts[[0, 2]], others.experts)
    for utility in UTILITIES:
        assert float(found.ranges(utility, 1.0)[1]) == 0
        assert torch.equal(found.weighted_sum(utility, 1.0), others.weighted_sum(utility, 1.0))


@pytest.mark.parametrize("logprobs", SPOKEN, ids=repr)
def test_numbers_that_a_row_can_hold_are_within_the_charge(oddly, others, logprobs):
    found = oddly(logprobs)
    assert found.experts[1].isfinite().all()
    assert torch.equal(found.experts[[0, 2]], others.experts)
    for utility in UTILITIES:
        assert 0 <= float(found.ranges(utility, 1.0)[1]) <= utility.range


@pytest.mark.one_in(2)
@pytest.mark.parametrize("why", ["abort", "error", None, "tool_calls"])
def test_a_choice_that_is_never_finished_silences_its_expert_alone(oddly, others, why):
    """A public prompt is finished beside it, so what is wrong is this one's own."""
    found = oddly(None, finish_reason=why, patience=0.2)
    assert found.experts[1].isnan().all()
    assert torch.equal(found.public, others.public)
    assert torch.equal(found.experts[[0, 2]], others.experts)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["content", "top_logprobs", "id", "logprob"]), inner)
    ),
    max_leaves=9,
)
NUMBERED = st.dictionaries(
    st.integers(-9, 999).map("token_id:{}".format), st.floats() | ANYTHING, max_size=4
)
LOGPROBS = ANYTHING | NUMBERED.map(lambda named: {"top_logprobs": [named]})


@pytest.mark.heavy
@settings(max_examples=80, derandomize=True, deadline=None)
@given(LOGPROBS, LOGPROBS)
def test_no_reply_moves_another(one, other):
    """Rows of two documents, the second of which is answered by anything in turn."""
    size = 300
    fine = {"top_logprobs": [{"token_id:7": -0.5, "token_id:8": -2.0}]}
    public = public_row({3: -1.0, 7: -2.0}, size)
    rows = []
    for last in (one, other):
        choices = [
            {"index": at, "finish_reason": "stop", "logprobs": found}
            for at, found in enumerate((fine, last))
        ]
        shown = understood({"choices": choices}, {"prompt": [(1,), (2,)]})
        rows.append(expert_rows(shown, public))
        ranges = DenseStep(public, rows[-1]).ranges(Surplus(), 1.0)
        assert 0 <= float(ranges[1]) <= 1
    assert torch.equal(rows[0][0], rows[1][0])
