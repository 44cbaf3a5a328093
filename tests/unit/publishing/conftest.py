"""A corpus of a canteen's mails, with a secret in each, and a model that says what they say."""

from __future__ import annotations

import pytest

from dpicl_rag import Corpus, Document, Ledger, PrivateContextLLM, Request
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scripted_model import ScriptedModel

QUESTION = "When does the canteen open?"
TOLD = "The canteen opens at noon."
SECRET = "xyzzy"
REQUESTS = [
    Request.of("survey", vocabulary=("canteen", "noon", "mail", "sauna")),
    Request.of("tally", question="", labels=("canteen", "sauna"), by="vectors"),
    Request.of("answer", question=QUESTION),
]


@pytest.fixture
def corpus(tmp_path):
    with Corpus.create("mail", tmp_path / "store", embedder=BucketEmbedder()) as found:
        texts = [f"when does the canteen open at noon {SECRET}{n}" for n in range(60)]
        found.add([Document(text, f"{SECRET}-{n}") for n, text in enumerate(texts)], no_ledger=True)
        yield found


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as found:
        found.set_budget(corpus="mail", epsilon=8.0)
        yield found


@pytest.fixture
def make_llm():
    """Make the private path over these mails; without a ledger where none is given."""

    def make(ledger=None, **options):
        model = ScriptedModel({"canteen": TOLD, "": "I cannot know that."})
        given = {"max_tokens": 8} | options
        return PrivateContextLLM(model, ledger=ledger, **given)

    return make
