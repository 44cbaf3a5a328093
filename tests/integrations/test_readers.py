"""A chain and an engine whose documents a reader reads; whoever listens hears no document."""

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import AIMessage
from llama_index.core.llms import MockLLM

from dpicl_rag import PrivateContextLLM
from langchain_dpicl_rag import PrivateRetrievalChain
from llama_index_dpicl_rag import PrivateQueryEngine
from tests.integrations.langchain.recorders import observed as observed_by_langchain
from tests.integrations.langchain.recorders import recording_handler
from tests.integrations.langchain.support import chroma_store
from tests.integrations.leak_probe import SECRET, LeakProbe
from tests.integrations.llama_index.support import nodes_of, simple_index

QUESTION = "When is the shuttle?"
TEXTS = [f"The shuttle leaves at 6:40, says {SECRET} {n}." for n in range(24)]
ALONE = {"agreement": "only", "epsilon": 8.0}
SAID = "The shuttle leaves at 6:40."


SEEN: list[str] = []
"""Prompts of the chat model, which is copied."""


class Reads(FakeListChatModel):
    """A chat model that says what documents say, and repeats its prompt beside it."""

    def _call(self, messages, *args, **kwargs):
        SEEN.append(messages[-1].content)
        return SAID

    def _generate(self, messages, *args, **kwargs):
        found = super()._generate(messages, *args, **kwargs)
        found.generations[0].message = AIMessage(SAID, additional_kwargs={"echo": str(messages)})
        return found


def test_a_chain_with_a_chat_model_of_langchain_answers_and_tells_nothing(tmp_path):
    probe, reader = LeakProbe(), Reads(responses=["-"])
    reader.callbacks = [recording_handler(probe)]
    with probe.listening(), observed_by_langchain(probe):
        chain = PrivateRetrievalChain(
            chroma_store(tmp_path, TEXTS),
            unit_field="document",
            threshold=-1.0,
            reader=reader,
            **ALONE,
        )
        answer = chain.invoke(QUESTION, config={"callbacks": [recording_handler(probe)]})
        probe.see("output", answer)
    assert "6:40" in str(answer)
    assert sum(SECRET in prompt for prompt in SEEN) == len(TEXTS)
    assert not probe.findings
    assert "output" in probe.places


def test_an_engine_with_an_llm_of_llama_index_answers_and_tells_nothing():
    class Says(MockLLM):
        def complete(self, prompt, formatted=False, **kwargs):
            found = super().complete(prompt, formatted=formatted, **kwargs)
            seen.append(prompt)
            found.text = SAID
            return found

    seen, probe = [], LeakProbe()
    with probe.listening():
        engine = PrivateQueryEngine(
            PrivateContextLLM(reader=Says(), **ALONE), simple_index(nodes_of(TEXTS)), threshold=-1.0
        )
        answer = engine.query(QUESTION)
        probe.see("output", answer)
    assert "6:40" in str(answer)
    assert sum(SECRET in prompt for prompt in seen) == len(TEXTS)
    assert not probe.findings


def test_an_engine_takes_a_reader_of_its_own():
    llm = PrivateContextLLM(reader=lambda prompt: "NOTHING", **ALONE)
    index = simple_index(nodes_of(TEXTS))
    engine = PrivateQueryEngine(llm, index, threshold=-1.0, reader=lambda prompt: SAID)
    assert "6:40" in str(engine.query(QUESTION))
    assert "6:40" not in str(PrivateQueryEngine(llm, index, threshold=-1.0).query(QUESTION))
