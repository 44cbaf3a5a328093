"""What the adapters take, refuse and hand to the core."""

from __future__ import annotations

import copy
import pickle

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables import ConfigurableField
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from dpicl_rag import ConfigurationError, CorpusError, MissingDocumentsError, Stability
from dpicl_rag.retrieval import ThresholdRetriever, TopKRetriever
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateContextLLM,
    PrivateRetrievalChain,
)
from langchain_dpicl_rag.conversations import read
from langchain_dpicl_rag.documents import SealedDocuments, core_documents
from langchain_dpicl_rag.stores import private_retriever
from tests.integrations.langchain.support import (
    QUESTION,
    WordEmbeddings,
    chroma_store,
    make_engine,
)
from tests.integrations.leak_probe import SpyModel

TEXTS = ["Ann has zingpocket disease.", "Bob has a cold.", "Eve has zingpocket disease too."]


@pytest.fixture
def engine(tiny_model):
    return make_engine(SpyModel(tiny_model))


@pytest.fixture
def memory():
    metadata = [{"patient": name} for name in ("ann", "bob", "ann")]
    return InMemoryVectorStore.from_texts(TEXTS, WordEmbeddings(), metadata)


MODELS = [PrivateContextLLM, ChatPrivateContext]


@pytest.mark.parametrize("model", MODELS)
class TestModels:
    def test_no_documents(self, model, engine):
        with pytest.raises(MissingDocumentsError, match="allow_public"):
            model(engine).invoke(QUESTION)
        assert model(engine, allow_public=True).invoke(QUESTION)

    def test_empty_list_is_a_list(self, model, engine):
        assert model(engine).invoke(QUESTION, documents=[])

    @pytest.mark.parametrize("cache", [True, None])
    def test_cache(self, model, engine, cache):
        with pytest.raises(ValueError, match="takes no cache"):
            model(engine, cache=cache)

    def test_arguments_of_other_models(self, model, engine):
        with pytest.raises(ConfigurationError, match="temperature"):
            model(engine).invoke(QUESTION, documents=TEXTS, temperature=0)

    def test_settings_make_an_engine(self, model, tiny_model):
        made = model(model=tiny_model, epsilon=2.0, max_tokens=4)
        assert made.engine.config.epsilon == 2.0
        with pytest.raises(ConfigurationError, match="temperature"):
            model(model=tiny_model, temperature=0.5)

    def test_settings_beside_an_engine(self, model, engine):
        with pytest.raises(ConfigurationError, match="epsilon"):
            model(engine, epsilon=1.0)

    def test_adapters_share_an_engine(self, model, engine):
        assert model(PrivateContextLLM(engine)).engine is engine

    def test_stop(self, model, engine, monkeypatch):
        used = []
        answer = type(engine).answer

        def spy(self, *args, **kwargs):
            used.append(self.config.stop)
            return answer(self, *args, **kwargs)

        monkeypatch.setattr(type(engine), "answer", spy)
        model(engine).invoke(QUESTION, documents=TEXTS, stop=["\n", "."])
        assert used == [("\n", ".")]
        assert engine.config.stop == ()

    def test_public_fields_may_be_configured(self, model, engine):
        field = ConfigurableField(id="public")
        chosen = model(engine).configurable_fields(allow_public=field)
        assert chosen.invoke(QUESTION, {"configurable": {"public": True}})

    def test_a_retriever_as_documents(self, model, engine, memory):
        retriever = private_retriever(memory, unit_field="patient", threshold=-1)
        assert model(engine).invoke(QUESTION, documents=retriever)
        assert _was_read(engine, TEXTS[1])


class TestChat:
    def test_blocks_are_documents(self, engine):
        blocks = [{"type": "text-plain", "text": text} for text in TEXTS]
        message = HumanMessage(content=[{"type": "text", "text": QUESTION}, *blocks])
        assert ChatPrivateContext(engine).invoke([message]).content
        assert all(_was_read(engine, text) for text in TEXTS)
        assert message.content[1] == blocks[0], "the caller's message was changed"

    def test_blocks_and_documents(self, engine):
        message = HumanMessage(content=[QUESTION, {"type": "text-plain", "text": TEXTS[0]}])
        with pytest.raises(ValueError, match="not both"):
            ChatPrivateContext(engine).invoke([message], documents=TEXTS)

    def test_other_blocks(self, engine):
        message = HumanMessage(content=[{"type": "image", "url": "http://localhost/cat.png"}])
        with pytest.raises(ConfigurationError, match="image"):
            ChatPrivateContext(engine).invoke([message], documents=TEXTS)

    def test_system_message_replaces_the_instruction(self, engine):
        messages = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
        ChatPrivateContext(engine).invoke(messages, documents=TEXTS)
        assert any("Be brief." in prompt for prompt in engine._model.prompts)
        assert engine.template.system == "Answer."

    def test_turns(self):
        one = [HumanMessage("Why?")]
        assert read(one) == (None, "Why?", [])
        several = [HumanMessage("Why?"), AIMessage("So."), HumanMessage("And?")]
        assert read(several)[1] == "User: Why?\nAssistant: So.\nUser: And?"


class TestChain:
    def test_input(self, engine, memory):
        chain = PrivateRetrievalChain(memory, unit_field="patient", engine=engine)
        assert isinstance(chain.invoke({"input": QUESTION, "chat_history": []}), str)
        with pytest.raises(ConfigurationError, match="'input'"):
            chain.invoke({"query": QUESTION})

    def test_unit_must_be_named(self, engine, memory):
        with pytest.raises(ConfigurationError, match="unit_field='source'"):
            PrivateRetrievalChain(memory, engine=engine)

    def test_unit_of_the_engine(self, tiny_model, memory):
        engine = make_engine(tiny_model, privacy_unit="patient")
        chain = PrivateRetrievalChain(memory, threshold=-1, engine=engine)
        units = {document.unit for document in chain.retriever.retrieve(QUESTION)}
        assert units == {"ann", "bob"}
        with pytest.raises(ConfigurationError, match="leave one out"):
            PrivateRetrievalChain(memory, unit_field="source", engine=engine)

    def test_record_without_the_field(self, engine, memory):
        chain = PrivateRetrievalChain(memory, unit_field="source", engine=engine)
        with pytest.raises(CorpusError, match="'source'"):
            chain.invoke(QUESTION)

    def test_tool(self, engine, memory):
        tool = PrivateRetrievalChain(memory, unit_field="patient", engine=engine).as_tool(
            name="notes", description="Notes."
        )
        assert list(tool.args) == ["question"]
        assert isinstance(tool.invoke({"question": QUESTION}), str)


class TestStores:
    @pytest.mark.parametrize("unit_field", ["document", "patient"])
    def test_in_memory_and_chroma_find_the_same(self, unit_field, memory, tmp_path):
        chroma = chroma_store(tmp_path, TEXTS, ["ann", "bob", "ann"])
        found = [
            sorted(
                document.text
                for document in private_retriever(
                    store, unit_field=unit_field, threshold=0.3
                ).retrieve("zingpocket disease")
            )
            for store in (memory, chroma)
        ]
        assert found[0] == found[1] == [TEXTS[0], TEXTS[2]]

    def test_store_is_read_anew(self, memory):
        retriever = private_retriever(memory, unit_field="document", threshold=-1)
        before = len(retriever.retrieve(QUESTION))
        memory.add_texts(["Gus has zingpocket disease."])
        assert len(retriever.retrieve(QUESTION)) == before + 1

    def test_retriever_brings_its_k_and_filter(self, tmp_path):
        store = chroma_store(tmp_path, TEXTS, ["ann", "bob", "ann"])
        options = {"k": 2, "filter": {"patient": "bob"}}
        retriever = private_retriever(
            store.as_retriever(search_kwargs=options), unit_field="document"
        )
        assert isinstance(retriever, TopKRetriever)
        assert retriever.stability == Stability(added=0, changed=1)
        assert [document.text for document in retriever.retrieve(QUESTION)] == [TEXTS[1]]

    @pytest.mark.parametrize(
        "options",
        [
            {"search_type": "mmr"},
            {
                "search_type": "similarity_score_threshold",
                "search_kwargs": {"score_threshold": 0.5},
            },
            {"search_kwargs": {"fetch_k": 9}},
        ],
    )
    def test_search_without_an_exact_counterpart(self, memory, options):
        with pytest.raises(ConfigurationError, match="plain similarity"):
            private_retriever(memory.as_retriever(**options), unit_field="patient")

    def test_threshold_is_the_default(self, memory):
        assert isinstance(private_retriever(memory, unit_field="patient"), ThresholdRetriever)

    def test_approximate_store(self):
        class Approximate(VectorStore):
            from_texts = None

            def similarity_search(self, *args, **kwargs):
                raise AssertionError

        for source in (Approximate(), Approximate().as_retriever()):
            with pytest.raises(ConfigurationError, match="approximate"):
                private_retriever(source, unit_field="patient")

    def test_filter_needs_chroma(self, memory):
        retriever = private_retriever(memory, unit_field="patient", where={"a": "b"})
        with pytest.raises(ConfigurationError, match="Chroma"):
            retriever.retrieve(QUESTION)

    def test_settings_beside_a_retriever(self, memory):
        retriever = private_retriever(memory, unit_field="patient")
        with pytest.raises(ConfigurationError, match="threshold"):
            private_retriever(retriever, unit_field=None, threshold=0.2)


class TestCombine:
    def test_charges_as_top_k_unless_told(self, engine):
        assert PrivateCombineDocuments(engine).stability == Stability(added=0, changed=1)

    def test_reads_all_documents(self, engine):
        documents = [Document(text) for text in TEXTS]
        asked = {"input": QUESTION, "context": documents}
        assert isinstance(PrivateCombineDocuments(engine).invoke(asked), str)
        assert all(_was_read(engine, text) for text in TEXTS)

    @pytest.mark.parametrize("asked", ["why?", {"input": "why?"}, {"input": 1, "context": []}])
    def test_input(self, engine, asked):
        with pytest.raises(ConfigurationError):
            PrivateCombineDocuments(engine).invoke(asked)


class TestDocuments:
    def test_units(self):
        given = [Document("a", id="1"), Document("b"), Document("b"), Document("b", id="1")]
        units = [document.unit for document in core_documents(given)]
        assert units[0] == units[3] == "1"
        assert len(set(units)) == 3

    def test_unit_does_not_depend_on_other_texts(self):
        alone = core_documents([Document("b")])[0].unit
        assert core_documents([Document("a"), Document("b")])[1].unit == alone

    def test_sealed(self):
        sealed = SealedDocuments(TEXTS)
        assert repr(sealed) == str(sealed) == "<private documents>"
        assert copy.deepcopy(sealed) is copy.copy(sealed) is sealed
        with pytest.raises(TypeError):
            pickle.dumps(sealed)


def _was_read(engine, text: str) -> bool:
    return any(text in prompt for prompt in engine._model.prompts)
