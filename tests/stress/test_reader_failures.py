"""A reader whose server fails and dies at random: no expert lost, no charge lost, none hung."""

import os
import time
from collections import Counter
from itertools import count

import pytest

from dpicl_rag import EngineUnavailableError, Ledger, PrivateContextLLM
from dpicl_rag.accounting import Adjacency
from dpicl_rag.language_models.readers.as_reader import as_reader
from dpicl_rag.retrieval import PrivateThresholdRetriever
from tests.support.failing_chat import LINE, FailingChat
from tests.support.scored_units import ScoredUnits

ANSWERS, UNITS = int(os.environ.get("DPICL_RAG_KILLS", "100")), 24
DEADLINE, PATIENCE = 4.0, 30.0

pytestmark = pytest.mark.stress


class Watched:
    """A reader whose replies are compared with those that its prompts have."""

    def __init__(self, reader):
        self._reader = reader
        self.fingerprint = reader.fingerprint
        self.read, self.outcomes = [], Counter()

    def replies(self, prompts, on_progress=None):
        expected = ["yes" if "labels" in prompt else LINE for prompt in prompts]
        try:
            found = self._reader.replies(prompts, on_progress)
        except EngineUnavailableError:
            self.outcomes["unavailable"] += 1
            raise
        self.outcomes["whole" if found == expected else "other"] += 1
        self.read.append(len(found))
        return found


@pytest.mark.guard
def test_no_expert_and_no_charge_is_lost_and_no_answer_hangs(tmp_path, capsys):
    search = PrivateThresholdRetriever(
        ScoredUnits({f"unit {n}": [0.78] for n in range(UNITS)}), 2 * UNITS, sigma=1.0
    )
    price = search.rho(Adjacency.ADD_OR_REMOVE_ONE)
    spent, longest, said = 0.0, 0.0, Counter()
    with (
        FailingChat(up=2.0, down=1.0, long=DEADLINE + 1) as server,
        Ledger(tmp_path / "ledger") as ledger,
    ):
        ledger.set_budget(corpus="mail", rho=1e6)
        reader = Watched(as_reader(server.address(deadline=DEADLINE)))
        llm = PrivateContextLLM(
            reader=reader, epsilon=8.0, agreement="only", ledger=ledger, corpus="mail"
        )
        for number in count():
            if number >= ANSWERS and server.kills:
                break
            start = time.monotonic()
            try:
                if number % 2:
                    found = llm.count(f"Is it before {number}?", search)
                else:
                    found = llm.answer(f"When, asks {number}?", search)
                    said[found.text] += 1
                spent += found.rho
            except EngineUnavailableError:
                spent += price  # of the search, and nothing else
            longest = max(longest, time.monotonic() - start)
            (status,) = (one for one in ledger.status() if one.kind == "corpus")
            assert status.spent == pytest.approx(spent, rel=1e-6)
            assert status.reserved == 0
    with capsys.disabled():
        print(  # noqa: T201 - the suite prints its figures
            f"\n{server.kills} kills, {number} answers and counts: {dict(reader.outcomes)}; the "
            f"longest took {longest:.1f} s; said: {dict(said)}"
        )
    assert sum(reader.outcomes.values()) == number
    assert reader.outcomes["other"] == 0
    assert reader.outcomes["whole"] > number / 4
    assert set(reader.read) == {UNITS}
    # The deadline is each prompt's own.
    assert longest < DEADLINE * (UNITS + 1) + PATIENCE
