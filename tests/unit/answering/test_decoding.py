import random
import warnings

import pytest
import torch

from dpicl_rag import PrivateContextLLM
from dpicl_rag.answering.decoding import GreedyDraft, decode
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.utilities import Likeliest, LogRatio, Surplus
from dpicl_rag.prompts import Prompt
from tests.support.tiny_model import build_tiny_model

DOCUMENTS = ["(none)", "the code is 4471", "the code is 4471, says Ida", "lunch is at noon"]
SUFFIX = tuple(b"? code: ")
TOKENS = 24


class Guess:
    """Proposes by a rule of its own: right, wrong, or both in turn."""

    def __init__(self, rule):
        self.rule = rule
        self.asked = []

    def propose(self, tokens, most):
        self.asked.append((tuple(tokens), most))
        return self.rule(list(tokens), most)


def wrong(tokens, most):
    return [5] * min(3, most)


def coins(tokens, most):
    coin = random.Random(len(tokens))
    return [coin.randrange(250) for _ in range(min(coin.randrange(5), most))]


def answer(model, seed, draft=None, utility=None, individual=False, top_k=None, rho=1e9):
    """What the loop draws, without any question."""
    utility = utility or Surplus()
    utility = utility if top_k is None else Likeliest(utility, top_k)
    prompt = Prompt(tuple(b"head "), SUFFIX, no_document=DOCUMENTS[0])
    inputs = [model.digest((text,), 60) for text in DOCUMENTS[1:]]
    rows = read(model, prompt, inputs, room=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        randomness = SeededRandomness(seed)
    charge = (
        IndividualFilter(torch.full((3,), rho, dtype=torch.float64), bound=rho, worst=0.1)
        if individual
        else FixedFilter(rho, 0.1)
    )
    tokens = list(
        decode(
            rows,
            SUFFIX,
            ExponentialMechanism(utility, 3.0),
            charge,
            randomness,
            max_tokens=TOKENS,
            stop_tokens=model.tokenizer.stop_tokens,
            draft=draft(model) if callable(draft) else draft,
        )
    )
    return tokens, charge.rho


def right(drawn):
    """Proposes what the plain loop draws."""
    known = [*SUFFIX, *drawn]
    return Guess(lambda tokens, most: known[len(tokens) :][: min(4, most)])


@pytest.mark.one_in(18)
@pytest.mark.parametrize("individual", [False, True])
@pytest.mark.parametrize("top_k", [None, 20])
@pytest.mark.parametrize("utility", [Surplus(), LogRatio(0.5)])
def test_blocks_release_what_the_plain_loop_releases(tiny_model, individual, top_k, utility):
    # One uniform number per token in both, so equal seeds must give equal answers.
    settings = {"individual": individual, "top_k": top_k, "utility": utility, "rho": 2.0}
    for seed in range(2):
        plain = answer(tiny_model, seed, **settings)
        for draft in (right(plain[0]), Guess(wrong), Guess(coins)):
            found = answer(tiny_model, seed, draft, **settings)
            assert found[0] == plain[0]
            assert found[1] == pytest.approx(plain[1], rel=1e-4)


def test_a_good_draft_saves_passes_and_a_bad_one_costs_none_of_the_answer(tiny_model):
    guess = right(answer(tiny_model, 1)[0])
    tokens, _ = answer(tiny_model, 1, guess)
    assert len(tokens) == TOKENS
    assert len(guess.asked) == -(-TOKENS // 5)  # four proposed and one drawn after them
    assert guess.asked[-1][1] == TOKENS - 5 * (len(guess.asked) - 1) - 1


def test_a_block_never_passes_what_can_be_paid(tiny_model):
    for rho in (0.1, 0.35, 1.05):
        plain = answer(tiny_model, 3, rho=rho)
        found = answer(tiny_model, 3, right(answer(tiny_model, 3)[0]), rho=rho)
        assert found == plain
        assert len(found[0]) == int(rho / 0.1 + 1e-9)


def test_the_greedy_draft_proposes_the_public_rows_likeliest_tokens():
    model = build_tiny_model(scale=60.0)
    document = model.tokenizer.encode("(none)")

    def greedy(tokens, count):
        found = []
        for _ in range(count):
            ids = [*document, *tokens, *found]
            with torch.inference_mode():
                found.append(int(model._model(torch.tensor([ids])).logits[0, -1].argmax()))
        return found

    draft = GreedyDraft(model.read([], [tuple(document)], room=60), 4, confidence=1e-9)
    tokens = list(SUFFIX)
    for more in ([9], [11, 12, 13], greedy([*SUFFIX, 9, 11, 12, 13], 3), [1]):
        assert draft.propose(tokens, 10) == greedy(tokens, 4)
        assert draft.propose(tokens, 2) == greedy(tokens, 2)
        assert draft.propose(tokens, 0) == []
        tokens += more


def test_the_greedy_draft_stops_where_the_public_model_is_unsure():
    model = build_tiny_model(scale=60.0)
    document = model.tokenizer.encode("(none)")

    def propose(confidence):
        rows = model.read([], [tuple(document)], room=60)
        return GreedyDraft(rows, 20, confidence).propose(list(SUFFIX), 20)

    lengths = [len(propose(confidence)) for confidence in (1e-30, 0.1, 0.5, 1.0)]
    assert lengths[0] == 20
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] == 0
    assert 0 < lengths[1] < 20


@pytest.mark.heavy
def test_the_setting_changes_no_answer():
    model = build_tiny_model(scale=60.0)
    documents = ["the code is 4471", "the code is 4471 as always", "lunch"]

    def ask(block_tokens, **settings):
        with pytest.warns(NotPrivateWarning):
            llm = PrivateContextLLM(
                model, seed=5, max_tokens=20, block_tokens=block_tokens, **settings
            )
        return llm.answer("code?", documents)

    for settings in ({}, {"public_top_k": 8}, {"utility": "log_ratio", "accounting": "fixed"}):
        plain = ask(0, **settings)
        assert ask(4, **settings) == plain


def test_a_draft_reads_nothing_private(monkeypatch):
    model = build_tiny_model(scale=60.0)
    seen = []
    original = GreedyDraft.propose

    def spied(self, tokens, most):
        found = original(self, tokens, most)
        seen.append((len(self._rows.extend([1]).experts), list(tokens), found))
        self._rows.rewind(1)
        return found

    monkeypatch.setattr(GreedyDraft, "propose", spied)

    def proposals(documents):
        seen.clear()
        with pytest.warns(NotPrivateWarning):
            llm = PrivateContextLLM(model, seed=5, max_tokens=8, block_tokens=4)
        llm.answer("code?", documents)
        return list(seen)

    one, other = proposals(["the code is 4471"] * 3), proposals([])
    assert {experts for experts, _, _ in (*one, *other)} == {0}
    shared = {tuple(tokens): found for _, tokens, found in other}
    both = [found == shared[tuple(t)] for _, t, found in one if tuple(t) in shared]
    assert both
    assert all(both)
