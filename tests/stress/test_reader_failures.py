"""A reader whose server fails at random: no expert lost, no charge lost, no answer hung."""

import os
import random
import threading
from collections import Counter

import pytest

from dpicl_rag import Document, EngineUnavailableError, Ledger, PrivateContextLLM
from dpicl_rag.accounting import epsilon_to_rho
from tests.support.fake_chat import FakeChat
from tests.support.scripted_reader import document_of

ANSWERS, UNITS = int(os.environ.get("DPICL_RAG_KILLS", "100")), 8
FAILURES = (429, 500, 503, "reset", "no json")

pytestmark = pytest.mark.stress


class Failing:
    """Fails one call in three; for some answers all of them."""

    def __init__(self):
        self._random, self._lock = random.Random(7), threading.Lock()
        self.down = False
        self.read = Counter()

    def __call__(self, prompt):
        if "Document:" not in prompt:
            return "OK"
        with self._lock:
            if self.down or self._random.random() < 1 / 3:
                return self._random.choice(FAILURES[:4])
            self.read[document_of(prompt)] += 1
        return "yes"


def test_no_expert_and_no_charge_is_lost(tmp_path):
    documents = [Document(f"paper {n}", f"u{n}") for n in range(UNITS)]
    coins, failing = random.Random(3), Failing()
    price = epsilon_to_rho(1.0, 1e-5)
    with FakeChat(failing) as server, Ledger(tmp_path / "ledger") as ledger:
        ledger.set_budget(corpus="mail", rho=1e6)
        llm = PrivateContextLLM(
            reader=server.address(deadline=3),
            epsilon=1.0,
            accounting="fixed",
            agreement="only",
            ledger=ledger,
            corpus="mail",
        )
        counted = 0
        for number in range(ANSWERS):
            failing.down, failing.read = coins.random() < 0.05, Counter()
            try:
                llm.count(f"Is it paper {number}?", documents)
            except EngineUnavailableError:
                continue  # nothing was released
            counted += 1
            assert set(failing.read) == {one.text for one in documents}
        assert ANSWERS / 2 < counted <= ANSWERS
        spent = next(one.spent for one in ledger.status() if one.kind == "corpus")
        assert spent == pytest.approx(counted * price)
