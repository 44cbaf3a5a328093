"""Experts behind a server go on by themselves: one request for each, each from its own prompt."""

from __future__ import annotations

import pytest

from dpicl_rag import PrivateContextLLM
from dpicl_rag.language_models.openai_compatible import completions
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.results import UNSUPPORTED
from tests.support.tiny_model import build_tiny_model

SUFFIX, MOST = (7, 8, 9), 5
OWN = [(11, 12), (40, 41, 42, 43), (90,)]
ALL = [True] * 3


def read(model, own=OWN):
    return model.read((1, 2, 3), [(4, 5), *own], room=len(SUFFIX) + MOST)


@pytest.mark.parametrize("kind", ["vllm", "llama"])
def test_each_says_what_it_says_here(serve, kind):
    _, model = serve(kind=kind)
    said = read(model).continue_each(SUFFIX, MOST, ALL)
    here = read(build_tiny_model()).continue_each(SUFFIX, MOST, ALL)
    end = min(model.tokenizer.stop_tokens)
    for one, other in zip(said, here, strict=True):
        # Here a sentence that has ended is read no further; a server may say twice that one has.
        places = len(other.tokens)
        assert one.tokens[:places] == other.tokens
        assert one.log_probs[:places] == pytest.approx(other.log_probs, abs=1e-3)
        assert one.tokens[places:] in ((), (end,)) or places < MOST


def test_one_round_of_requests_for_a_whole_sentence(serve):
    server, model = serve()
    rows = read(model)
    before = len(server.bodies)
    rows.continue_each(SUFFIX, MOST, ALL)
    (body,) = server.bodies[before:]
    assert body["max_tokens"] == MOST
    assert len(body["prompt"]) == len(OWN)


def test_company_moves_nothing(serve):
    _, model = serve()
    together = read(model).continue_each(SUFFIX, MOST, ALL)
    alone = [read(model, [own]).continue_each(SUFFIX, MOST, [True])[0] for own in OWN]
    assert together == alone


def test_who_is_not_asked_is_no_prompt(serve):
    server, model = serve()
    together = read(model).continue_each(SUFFIX, MOST, ALL)
    before = len(server.bodies)
    said = read(model).continue_each(SUFFIX, MOST, [False, True, False])
    assert said == [Continuation((), ()), together[1], Continuation((), ())]
    assert len(server.bodies[-1]["prompt"]) == 1
    assert len(server.bodies) == before + 1


def choice(**changed):
    found = {
        "index": 0,
        "finish_reason": "length",
        "logprobs": {"top_logprobs": [{"token_id:3": -0.5}, {"token_id:4": -0.1}]},
    }
    return {**found, **changed}


BODY = {"prompt": [[1]], "max_tokens": 2}


def test_a_choice_is_read():
    found = completions.continuations({"choices": [choice()]}, BODY)
    assert found == [([{3: -0.5}, {4: -0.1}], False)]
    ended = choice(finish_reason="stop", logprobs={"top_logprobs": [{"token_id:3": -0.5}]})
    assert completions.continuations({"choices": [ended]}, BODY) == [([{3: -0.5}], True)]


@pytest.mark.parametrize(
    "odd",
    [
        {"finish_reason": "content_filter"},
        {"logprobs": None},
        {"logprobs": {}},
        {"logprobs": {"top_logprobs": []}},
        {"logprobs": {"top_logprobs": [{"token_id:3": -0.5}]}},
        {"logprobs": {"top_logprobs": [{"token_id:3": -0.5}] * 3}},
        {"logprobs": {"top_logprobs": [{"token_id:3": -0.5}, {}]}},
        {"logprobs": {"top_logprobs": [{"token_id:3": -0.5}, {"word": -0.5}]}},
        {"logprobs": {"top_logprobs": [{"token_id:3": -0.5}, {"token_id:x": -0.5}]}},
        {"logprobs": {"top_logprobs": [{"token_id:3": -0.5}, {"token_id:4": None}]}},
        {"logprobs": {"top_logprobs": [{"token_id:3": -0.5}, {"token_id:4": 2.0}]}},
        {"logprobs": {"content": [{}, {}]}},
    ],
)
def test_what_is_odd_in_one_choice_is_silence_and_no_error(odd):
    found = completions.continuations({"choices": [choice(**odd)]}, BODY)
    assert found == [((), False)]


@pytest.mark.parametrize("broken", [{"finish_reason": "error"}, {"index": 1}])
def test_what_is_no_answer_is_an_error(broken):
    with pytest.raises(ValueError, match=r"^$"):
        completions.continuations({"choices": [choice(**broken)]}, BODY)


def test_a_token_outside_the_vocabulary_is_silence(serve):
    _, model = serve()
    rows = read(model)
    assert rows._continuation(([{10**6: -0.1}], False)) == Continuation((), ())


def test_an_answer_by_agreement_is_asked_for_once(serve):
    server, model = serve()
    llm = PrivateContextLLM(model, agreement="only", max_tokens=4)
    before = len(server.bodies)
    assert llm.answer("Which note?", ["one note", "another note"]).text == UNSUPPORTED
    assert [body["max_tokens"] for body in server.bodies[before:]].count(4) == 1
