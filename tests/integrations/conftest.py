"""Fixtures of the frameworks' tests."""

from __future__ import annotations

import math

import pytest

from dpicl_rag import Ledger, PrivateContextLLM
from dpicl_rag.answering import follow_ups
from tests.integrations.charges import FIXED, Drawn
from tests.integrations.langchain.support import make_llm


@pytest.fixture(scope="module", autouse=True)
def short_rewrites():
    """A random model writes of a follow-up what is of no use, at any length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow_ups, "_TOKENS", 4)
        yield


@pytest.fixture
def ledger(tmp_path):
    """A ledger that pays for all."""
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=math.inf)
        yield ledger


@pytest.fixture
def drawn(monkeypatch):
    """Counts the tokens drawn."""
    return Drawn(monkeypatch)


@pytest.fixture
def endless(tiny_model, monkeypatch):
    """A model whose answers are as long as they may be."""
    monkeypatch.setattr(tiny_model.tokenizer, "stop_tokens", frozenset())
    return tiny_model


@pytest.fixture
def short_llm(endless, ledger):
    """Answers of six tokens, each at the same price."""
    return make_llm(endless, ledger=ledger, max_tokens=6, **FIXED)


@pytest.fixture
def long_llm(endless, ledger):
    """Closed after a few pieces: some tokens are but half a letter, and come with later ones."""
    return make_llm(endless, ledger=ledger, max_tokens=24, **FIXED)


@pytest.fixture
def begun(monkeypatch):
    """Every answer that was begun."""
    found, begin = [], PrivateContextLLM.begin

    def stream(*args, **kwargs):
        found.append(begin(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(PrivateContextLLM, "begin", stream)
    return found
