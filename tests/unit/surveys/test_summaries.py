"""Summaries: themes with shares, and what units of the largest agree on. Nothing real reads them."""

import random

import pytest

from dpicl_rag import AnswerMemory, Document, PrivateContextLLM, Rehearsal
from dpicl_rag.answering import private_run
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.ledger import Ledger
from dpicl_rag.requests import Request
from dpicl_rag.surveys import summaries
from tests.support.rehearsed_model import RehearsedModel, knowing

PLANTED = {
    "piano": (60, "Our {0} piano is out of tune, the keys stick and the music sounds wrong."),
    "bakery": (45, "The {0} bread from your bakery was stale and the cake was dry."),
    "garden": (35, "In the {0} garden the flowers wither, nobody waters the plants."),
}
REST = "Please send {0} regards to everyone."
DAYS = ("first", "old", "blue", "other", "small", "next", "long", "warm")


def corpus(seed=0):
    """Themes that were planted, worded by themselves as far as a word does it."""
    coins = random.Random(seed)
    texts = [
        text.format(coins.choice(DAYS)) for many, text in PLANTED.values() for _ in range(many)
    ]
    texts += [REST.format(coins.choice(DAYS)) for _ in range(10)]
    coins.shuffle(texts)
    return [Document(text, f"u{at}") for at, text in enumerate(texts)]


class Reading(RehearsedModel):
    """A model that says of a document what it is about, in its own words, or nothing."""

    def say(self, document, asked, shown, most):
        name = next((one for one in PLANTED if one in document), None)
        text = "NOTHING" if name is None else f"Because of the {name}"
        tokens = [*self.tokenizer.encode(text), 0][:most]
        return Continuation(tuple(tokens), (0.0,) * len(tokens))


@pytest.fixture
def silent(monkeypatch):
    knows = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: knows)
    monkeypatch.setattr(
        summaries, "written_sentence", lambda question, words: f"It is the {words[0]}"
    )


def llm(**settings):
    return PrivateContextLLM(Reading(knowing), **{"epsilon": 4.0, "seed": 7, **settings})


@pytest.mark.usefixtures("silent")
@pytest.mark.filterwarnings("ignore::dpicl_rag.NotPrivateWarning")
def test_planted_themes_are_named_with_their_shares():
    found = llm().summarise("What do people complain about?", corpus())
    largest = found.themes[:3]
    assert [theme.title for theme in largest] == list(PLANTED)
    assert [theme.sentence for theme in largest] == [f"It is the {name}" for name in PLANTED]
    for theme, share, (many, _) in zip(largest, found.shares, PLANTED.values(), strict=False):
        assert abs(share.part - many / 150) < 0.05
        (agreed,) = theme.agreed.values()
        assert agreed.low <= many <= agreed.high
    print(found.text)
