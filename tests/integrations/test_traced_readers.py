"""Whoever traces hears the question and the answer, and of a reader's calls nothing at all.

Neighbouring corpora differ in no channel. They differ in how many calls the model gets, and when
(docs/privacy.md, "Threats").
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy  # 13 s in a process of its own

ROOT = Path(__file__).parents[2]

for name in ("httpx", "langchain", "openai"):
    pytest.importorskip(f"opentelemetry.instrumentation.{name}", reason="a dev extra")
for name in ("langchain", "llama_index", "openai"):
    pytest.importorskip(f"openinference.instrumentation.{name}", reason="a dev extra")

READERS = [
    "chain of LangChain",
    "engine of LlamaIndex",
    "address",
    "traced function",
    "traced async function",
]
# A silence that is switched off: where the secret shows, and what differs beside that.
FAULTS = {
    "LangChain is told": ({"callback on_chat_model_start", "stdout"}, {"callback on_llm_end"}),
    "LlamaIndex is told": (
        {"callback llm", "event LLMCompletionStartEvent", "span OpenAILike.complete"},
        set(),
    ),
    "LangSmith is told": ({"LangSmith run"}, set()),
    "spans are sampled": ({"span ask"}, set()),
    "instrumentations go on": (set(), {"metric http.client.duration"}),
    "both": (
        {"span ask", "span openai.chat", "span ChatCompletion"},
        {"span POST", "metric gen_ai.client.operation.duration"},
    ),
    "logs are written": ({"log openai._base_client"}, set()),
}


@pytest.fixture(scope="module")
def found():
    """What `tests.integrations.traced_readers` prints."""
    command = [sys.executable, "-m", "tests.integrations.traced_readers"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("neighbour", ["says nothing", "says its secret"])
@pytest.mark.parametrize("reader", READERS)
def test_neighbours_differ_in_nothing_but_the_calls(found, reader, neighbour):
    told = found[reader][neighbour]
    assert told["differ"] == []
    assert told["show"] == []
    few, more = told["calls"]
    assert more == few + 1
    assert "6:40" in found[reader]["output"]


def test_questions_and_answers_are_told_as_ever(found):
    assert {"LangSmith run", "callback on_chain_end", "span PrivateRetrievalChain"} <= set(
        found["chain of LangChain"]["told"]
    )
    assert {"event QueryEndEvent", "span PrivateQueryEngine.query"} <= set(
        found["engine of LlamaIndex"]["told"]
    )


def test_all_that_listens_hears_other_calls(found):
    """Of a chat model, a model of LlamaIndex and a client that is no reader's."""
    shown = set().union(*(shows for shows, _ in FAULTS.values())) | {"cache key", "cache entry"}
    assert shown <= set(found["aloud"]["show"])
    assert set().union(*(beside for _, beside in FAULTS.values())) <= set(found["aloud"]["told"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_silence_that_is_switched_off_is_seen(found, fault):
    shows, beside = FAULTS[fault]
    assert shows <= set(found[fault]["show"])
    assert shows | beside <= set(found[fault]["differ"])
