"""Rows of a server say what the model says here, each by itself, in the order of the experts."""

from __future__ import annotations

import random

import pytest
import torch

from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models.base import BlockRows, Copying, LanguageModel
from dpicl_rag.language_models.openai_compatible.completions import ROWS
from tests.support.row_identity import largest_difference

DOCUMENTS = ["(none)", "abc", "a longer document than the others", "x", "the code is 4471"]
HEAD, SUFFIX = tuple(b"a public prefix: "), tuple(b" and the question?")


def both(tiny_model, connected, room=40, bias=0.0):
    """Rows here and rows of the server, over the same documents."""
    inputs = [tiny_model.digest([text], 99) for text in DOCUMENTS]
    assert [connected.digest([text], 99) for text in DOCUMENTS] == inputs
    models = (tiny_model.copying(bias), connected.copying(bias))
    return [model.read(HEAD, inputs, room=room) for model in models]


def near(one, other):
    return torch.allclose(one.rows, other.rows, atol=2e-5)


def test_it_follows_the_protocols(serve):
    _, connected = serve()
    model: LanguageModel = connected
    assert isinstance(model, Copying)
    assert isinstance(model.read((), [(1,)], room=1), BlockRows)
    assert "127.0.0.1" in repr(model)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("kind", ["vllm", "llama"])
def test_experts_show_twenty_and_the_public_row_all_that_there_is(tiny_model, serve, kind, bias):
    fake, connected = serve(kind=kind)
    here, there = (rows.extend(SUFFIX) for rows in both(tiny_model, connected, bias=bias))
    assert [body["logprobs"] for body in fake.bodies] == [len(here.public), 20]
    assert torch.allclose(here.public, there.public, atol=2e-5)
    if bias:
        return
    shown = here.experts.topk(20)
    assert torch.allclose(there.experts.gather(1, shown.indices), shown.values, atol=2e-5)
    rest = there.experts.scatter(1, shown.indices, -torch.inf)
    assert (rest.amax(dim=1) <= shown.values[:, -1] + 2e-5).all()


@pytest.fixture
def whole(monkeypatch):
    """Experts show their whole vocabulary too."""
    monkeypatch.setattr(
        "dpicl_rag.language_models.openai_compatible.completions.Completions._EXPERT", 1000
    )


@pytest.mark.one_in(4)
@pytest.mark.usefixtures("whole")
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_tokens_blocks_and_forgotten_ones(tiny_model, serve, bias):
    _, connected = serve()
    here, there = both(tiny_model, connected, bias=bias)
    for ids in (SUFFIX, (7,), (9, 11)):
        assert near(here.extend(ids), there.extend(ids))
    pairs = zip(here.extend_each((3, 4, 5, 6), 3), there.extend_each((3, 4, 5, 6), 3), strict=True)
    assert all(near(one, other) for one, other in pairs)
    here.rewind(2)
    there.rewind(2)
    assert near(here.extend((8,)), there.extend((8,)))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("kind", "most", "bias", "names"),
    [
        ("vllm", 50, 0.0, True),
        ("vllm", 1000, 1.0, False),
        ("llama", 1000, 0.0, False),
        ("llama", 1000, 1.0, False),
    ],
)
def test_labels_are_exact(tiny_model, serve, kind, most, bias, names):
    fake, connected = serve(kind=kind, most=most)
    here, there = both(tiny_model, connected, bias=bias)
    here.extend(SUFFIX)
    there.extend(SUFFIX)
    fake.bodies.clear()
    labels = [tuple(b"yes"), tuple(b"no"), tuple(b"yeti"), (5,)]
    assert near(here.score(labels), there.score(labels))
    assert {"logprob_token_ids" in body for body in fake.bodies} == {names}
    # Rows stay as they were.
    token = int(here.extend((4,)).public.argmax())
    assert int(there.extend((4,)).public.argmax()) == token


def test_labels_that_are_not_shown_are_blunt_but_bounded(tiny_model, serve):
    _, connected = serve(kind="llama", most=5)
    _, there = both(tiny_model, connected)
    assert connected._completions.shown == 5
    there.extend(SUFFIX)
    found = there.score([(1,), (2,), (3,)])
    assert found.rows.isfinite().all()
    assert found.rows.double().exp().sum(dim=1).tolist() == pytest.approx([1.0] * len(DOCUMENTS))


def test_nothing_is_scored_before_the_question(serve):
    _, connected = serve()
    with pytest.raises(ConfigurationError, match="extend"):
        connected.read((), [(1,)], room=3).score([(1,), (2,)])


@pytest.mark.heavy
def test_a_row_has_its_own_bits_in_any_company(serve):
    _, connected = serve()
    connected.context_length = 300
    connected.with_cache = lambda cache: connected
    assert largest_difference(connected, rounds=1, seed=1) == 0.0


@pytest.mark.usefixtures("whole")
def test_choices_that_come_in_another_order_are_put_right(tiny_model, serve):
    fake, connected = serve()
    here, there = both(tiny_model, connected)
    coins = random.Random(3)
    fake.order = lambda choices: coins.sample(choices, len(choices))
    assert near(here.extend(SUFFIX), there.extend(SUFFIX))


def test_requests_have_a_public_size_and_the_public_row_one_of_its_own(serve):
    fake, connected = serve()
    inputs = [(1, 2), *((3, 4, at % 250) for at in range(2 * ROWS + 5))]
    connected.read((9,), inputs, room=3).extend((5, 6))
    sizes = [len(body["prompt"]) for body in fake.bodies]
    assert sizes[0] == 1
    assert sorted(sizes[1:]) == [5, ROWS, ROWS]
    assert fake.bodies[0]["prompt"] == [[9, 1, 2, 5, 6]]
    assert {body["max_tokens"] for body in fake.bodies} == {1}
    assert {body["temperature"] for body in fake.bodies} == {0}
    # One salt, of this model alone.
    assert len({body["cache_salt"] for body in fake.bodies}) == 1


def test_a_lone_public_row_asks_for_nothing_else(serve):
    fake, connected = serve()
    step = connected.read((9,), [(1,)], room=3).extend((5,))
    assert len(fake.bodies) == 1
    assert step.experts.shape == (0, len(step.public))


def test_progress_is_told_at_once_and_nothing_is_sent(serve):
    fake, connected = serve()
    told = []
    connected.read((9,), [(1,), (2,)], room=3, on_progress=lambda *at: told.append(at))
    assert told == [(1.0, 1.0)]
    assert fake.bodies == []


def test_what_does_not_fit_is_not_sent(serve):
    fake, connected = serve()
    assert fake.context == 2048
    with pytest.raises(ContextLengthError, match="2047"):
        connected.read((1,) * 1999, [(1,) * 30, (2,) * 40], room=9)
    rows = connected.read((1,) * 1999, [(1,) * 30, (2,) * 40], room=8)
    with pytest.raises(ContextLengthError, match="room"):
        rows.extend((1,) * 9)
    with pytest.raises(ConfigurationError, match="at least one token"):
        connected.read((1,), [(1,), ()], room=1)
    assert fake.bodies == []
    # The longest row that is allowed is one that the server takes.
    rows.extend((1,) * 7)
    rows.extend((1,))


def test_a_row_of_no_numbers_is_silent_and_harms_no_other(serve):
    fake, connected = serve()
    inputs = [(1,), (2,), (3,), (4,)]
    expected = connected.read((9,), inputs, room=3).extend((5,))
    row = fake.row

    def broken(prompt):
        found = row(prompt)
        return [(found[0][0], float("nan")), *found[1:]] if prompt[1] == 3 else found

    fake.row = broken
    found = connected.read((9,), inputs, room=3).extend((5,))
    assert found.experts[1].isnan().all()
    assert torch.equal(found.public, expected.public)
    assert torch.equal(found.experts[[0, 2]], expected.experts[[0, 2]])


def test_a_refusal_of_one_document_silences_its_expert_alone(serve):
    fake, connected = serve()
    choices = fake.choices

    def filtered(body):
        for choice, prompt in zip(choices(body), body["prompt"], strict=True):
            if prompt[1] == 3:
                choice |= {"finish_reason": "content_filter", "logprobs": None}
            yield choice

    fake.choices = filtered
    found = connected.read((9,), [(1,), (2,), (3,), (4,)], room=3).extend((5,))
    assert found.experts[1].isnan().all()
    assert found.experts[[0, 2]].isfinite().all()
