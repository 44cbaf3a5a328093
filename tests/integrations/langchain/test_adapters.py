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
from dpicl_rag import Document as OwnDocument
from dpicl_rag.corpora import Corpus
from dpicl_rag.loaders.framework_documents import as_library_documents
from dpicl_rag.retrieval import (
    UNITS,
    GivenDocuments,
    NoisyThreshold,
    PoissonSampledRetriever,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    Threshold,
    ThresholdRetriever,
    TopK,
    TopKRetriever,
)
from dpicl_rag.retrieval.stored_record import NO_UNIT
from dpicl_rag.stores.chroma_client import note_unit
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateLLM,
    PrivateRetrievalChain,
)
from langchain_dpicl_rag.conversations import SealedDocuments, read
from langchain_dpicl_rag.vector_stores import private_retriever
from tests.integrations.langchain.support import (
    QUESTION,
    WordEmbeddings,
    chroma_store,
    make_llm,
)
from tests.integrations.leak_probe import SpyModel
from tests.support.bucket_embedder import BucketEmbedder

TEXTS = ["Ann has zingpocket disease.", "Bob has a cold.", "Eve has zingpocket disease too."]


@pytest.fixture
def llm(tiny_model):
    return make_llm(SpyModel(tiny_model))


@pytest.fixture
def memory():
    metadata = [{"patient": name} for name in ("ann", "bob", "ann")]
    return InMemoryVectorStore.from_texts(TEXTS, WordEmbeddings(), metadata)


# Each finds all units there are, two of them; 99 are never too many for a private threshold.
RETRIEVERS = {
    "threshold": lambda vectors: ThresholdRetriever(vectors, -1),
    "top-k": lambda vectors: TopKRetriever(vectors, 2),
    "private threshold": lambda vectors: PrivateThresholdRetriever(
        vectors, 99, sigma=3.0, thresholds=(-1,)
    ),
    "private top-k": lambda vectors: PrivateTopKRetriever(vectors, 2, sigma=7.5, thresholds=(-1,)),
    "sampled": lambda vectors: PoissonSampledRetriever(ThresholdRetriever(vectors, -1), 1.0),
    "sampled private": lambda vectors: PoissonSampledRetriever(
        PrivateThresholdRetriever(vectors, 99, sigma=3.0, thresholds=(-1,)), 1.0
    ),
}

MODELS = [PrivateLLM, ChatPrivateContext]


@pytest.mark.parametrize("model", MODELS)
class TestModels:
    def test_no_documents(self, model, llm):
        with pytest.raises(MissingDocumentsError, match="allow_public"):
            model(llm).invoke(QUESTION)
        assert model(llm, allow_public=True).invoke(QUESTION)

    def test_empty_list_is_a_list(self, model, llm):
        assert model(llm).invoke(QUESTION, documents=[])

    @pytest.mark.parametrize("cache", [True, None])
    def test_cache(self, model, llm, cache):
        with pytest.raises(ValueError, match="takes no cache"):
            model(llm, cache=cache)

    def test_arguments_of_other_models(self, model, llm):
        with pytest.raises(ConfigurationError, match="temperature"):
            model(llm).invoke(QUESTION, documents=TEXTS, temperature=0)

    def test_tokens_are_counted_by_the_model(self, model, llm):
        ids = llm.model.tokenizer.encode(QUESTION)
        assert model(llm).get_token_ids(QUESTION) == ids
        assert model(llm).get_num_tokens(QUESTION) == len(ids)
        assert model(llm, custom_get_token_ids=lambda text: [7]).get_token_ids(QUESTION) == [7]

    def test_settings_make_an_llm(self, model, tiny_model):
        made = model(model=tiny_model, epsilon=2.0, max_tokens=4)
        assert made.llm.config.epsilon == 2.0
        with pytest.raises(ConfigurationError, match="temperature"):
            model(model=tiny_model, temperature=0.5)

    def test_settings_beside_an_llm(self, model, llm):
        with pytest.raises(ConfigurationError, match="epsilon"):
            model(llm, epsilon=1.0)

    def test_adapters_share_an_llm(self, model, llm):
        assert model(PrivateLLM(llm)).llm is llm

    def test_stop(self, model, llm, monkeypatch):
        used = []
        begin = type(llm).begin

        def spy(self, request, *args, **kwargs):
            used.append(request.stop)
            return begin(self, request, *args, **kwargs)

        monkeypatch.setattr(type(llm), "begin", spy)
        model(llm).invoke(QUESTION, documents=TEXTS, stop=["\n", "."])
        assert used == [("\n", ".")]
        assert llm.config.stop == ()

    def test_public_fields_may_be_configured(self, model, llm):
        field = ConfigurableField(id="public")
        chosen = model(llm).configurable_fields(allow_public=field)
        assert chosen.invoke(QUESTION, {"configurable": {"public": True}})

    def test_a_retriever_as_documents(self, model, llm, memory):
        retriever = private_retriever(memory, unit_field="patient", threshold=-1)
        assert model(llm).invoke(QUESTION, documents=retriever)
        assert _was_read(llm, TEXTS[1])


class Undeclared:
    """A retriever that does not say how stable it is."""

    def retrieve(self, question):
        raise AssertionError


@pytest.mark.parametrize("kind", RETRIEVERS)
class TestRetrievers:
    """Every retriever of the library, wherever one is taken."""

    @pytest.fixture
    def retriever(self, kind, memory):
        return RETRIEVERS[kind](private_retriever(memory, unit_field="patient").source)

    @pytest.mark.one_in(5)
    @pytest.mark.parametrize("model", MODELS)
    def test_as_documents(self, model, llm, retriever):
        assert model(llm).invoke(QUESTION, documents=retriever)
        assert all(_was_read(llm, text) for text in TEXTS)

    @pytest.mark.one_in(4)
    def test_in_a_chain(self, llm, retriever):
        chain = PrivateRetrievalChain(retriever, llm=llm)
        assert chain.retriever is retriever
        assert chain.invoke(QUESTION)
        assert all(_was_read(llm, text) for text in TEXTS)
        assert list(chain.stream(QUESTION))

    @pytest.mark.one_in(3)
    async def test_in_an_async_chain(self, llm, retriever):
        chain = PrivateRetrievalChain(retriever, llm=llm)
        assert await chain.ainvoke(QUESTION)
        assert [piece async for piece in chain.astream(QUESTION)]
        assert all(_was_read(llm, text) for text in TEXTS)

    def test_in_a_tool(self, llm, retriever):
        tool = PrivateRetrievalChain(retriever, llm=llm).as_tool()
        assert tool.invoke({"question": QUESTION})
        assert all(_was_read(llm, text) for text in TEXTS)

    def test_to_combine(self, llm, retriever):
        combine = PrivateCombineDocuments(llm)
        assert combine.invoke({"input": QUESTION, "context": retriever})
        assert all(_was_read(llm, text) for text in TEXTS)


class TestUnitOfTheSettings:
    """What a privacy_unit does beside documents, and beside a retriever that knows its units."""

    CHUNKS = [Document(text, metadata={"source": s}) for text, s in zip(TEXTS, "aba", strict=True)]  # noqa: RUF012

    @pytest.fixture
    def llm(self, tiny_model):
        return make_llm(SpyModel(tiny_model), privacy_unit="source")

    @pytest.mark.parametrize("way", ["invoke", "stream"])
    def test_chunks_of_one_file_are_combined_to_one_unit(self, llm, way):
        asked = {"input": QUESTION, "context": self.CHUNKS}
        combine = PrivateCombineDocuments(llm, stability=Stability(0, 2))
        assert list(getattr(combine, way)(asked))
        assert _was_read(llm, f"{TEXTS[0]}\n\n{TEXTS[2]}")
        assert not any(TEXTS[0] in prompt and TEXTS[1] in prompt for prompt in llm.model.prompts)

    async def test_chunks_of_one_file_are_combined_to_one_unit_async(self, llm):
        combine = PrivateCombineDocuments(llm, stability=Stability(0, 2))
        asked = {"input": QUESTION, "context": self.CHUNKS}
        assert await combine.ainvoke(asked)
        assert [piece async for piece in combine.astream(asked)]
        assert _was_read(llm, f"{TEXTS[0]}\n\n{TEXTS[2]}")

    def test_retriever_in_the_place_of_documents(self, llm):
        asked = {"input": QUESTION, "context": GivenDocuments(TEXTS)}
        with pytest.raises(ConfigurationError, match="leave privacy_unit"):
            PrivateCombineDocuments(llm, stability=Stability(0, 2)).invoke(asked)

    def test_chain_over_a_retriever(self, llm):
        with pytest.raises(ConfigurationError, match="leave out privacy_unit"):
            PrivateRetrievalChain(GivenDocuments(TEXTS), llm=llm)

    def test_chain_is_not_a_model_to_share(self, llm, memory):
        with pytest.raises(ConfigurationError, match="not PrivateRetrievalChain"):
            PrivateLLM(PrivateRetrievalChain(memory, llm=llm))


def test_retriever_without_a_stability(llm):
    with pytest.raises(ConfigurationError, match="ExactRetriever"):
        PrivateRetrievalChain(Undeclared(), llm=llm)
    with pytest.raises(ConfigurationError, match="ExactRetriever"):
        PrivateLLM(llm).invoke(QUESTION, documents=Undeclared())
    with pytest.raises(ConfigurationError, match="ExactRetriever"):
        PrivateCombineDocuments(llm).invoke({"input": QUESTION, "context": Undeclared()})


class TestChat:
    def test_blocks_are_documents(self, llm):
        blocks = [{"type": "text-plain", "text": text} for text in TEXTS]
        message = HumanMessage(content=[{"type": "text", "text": QUESTION}, *blocks])
        assert ChatPrivateContext(llm).invoke([message]).content
        assert all(_was_read(llm, text) for text in TEXTS)
        assert message.content[1] == blocks[0], "the caller's message was changed"

    def test_blocks_and_documents(self, llm):
        message = HumanMessage(content=[QUESTION, {"type": "text-plain", "text": TEXTS[0]}])
        with pytest.raises(ConfigurationError, match="not both"):
            ChatPrivateContext(llm).invoke([message], documents=TEXTS)

    def test_other_blocks(self, llm):
        message = HumanMessage(content=[{"type": "image", "url": "http://localhost/cat.png"}])
        with pytest.raises(ConfigurationError, match="image"):
            ChatPrivateContext(llm).invoke([message], documents=TEXTS)

    def test_system_message_replaces_the_instruction(self, llm):
        messages = [SystemMessage("Be brief."), HumanMessage(QUESTION)]
        ChatPrivateContext(llm).invoke(messages, documents=TEXTS)
        assert any("Be brief." in prompt for prompt in llm.model.prompts)
        assert llm.template.system == "Answer."

    def test_turns(self):
        said = [HumanMessage("Why?"), AIMessage("So."), HumanMessage("And?")]
        one, two, three = (read(said[: at + 1]) for at in range(3))
        assert (one.question, one.fields) == ("Why?", {"turns": (), "system": None})
        turns = (("User", "Why?"), ("Assistant", "So."))
        assert (three.question, three.fields) == ("And?", {"turns": turns, "system": None})
        assert (two.question, two.fields["turns"]) == ("User: Why?\nAssistant: So.", ())


class TestChain:
    def test_input(self, llm, memory):
        chain = PrivateRetrievalChain(memory, unit_field="patient", llm=llm)
        assert isinstance(chain.invoke({"input": QUESTION, "chat_history": []}), str)
        with pytest.raises(ConfigurationError, match="'input'"):
            chain.invoke({"query": QUESTION})

    async def test_numbers_beside_the_text(self, llm, memory):
        options = {"unit_field": "patient", "threshold": -1, "llm": llm}
        chain = PrivateRetrievalChain(memory, numbers=True, **options)
        text = PrivateRetrievalChain(memory, **options).invoke(QUESTION)
        whole = chain.invoke(QUESTION)
        assert whole.keys() == {
            "answer",
            "kind",
            "question",
            "epsilon",
            "delta",
            "budget_left",
            "output_tokens",
            "stopped_by",
            "supported",
            "from_memory",
            "by",
            "agreeing",
            "agreeing_within",
            "parts",
        }
        assert isinstance(text, str)
        assert isinstance(whole["answer"], str)
        assert (await chain.ainvoke(QUESTION)).keys() == whole.keys()
        *pieces, end = chain.stream(QUESTION)
        assert all(piece.keys() == {"answer"} for piece in pieces)
        assert end.keys() == whole.keys() - {"answer"}
        *pieces, end = [piece async for piece in chain.astream(QUESTION)]
        assert all(piece.keys() == {"answer"} for piece in pieces)
        assert end["output_tokens"] >= len(pieces) - 1  # the template's beginning is a piece

    def test_numbers_beside_the_text_of_a_list(self, llm):
        chain = PrivateCombineDocuments(llm, unit_field="document", numbers=True)
        found = chain.invoke({"input": QUESTION, "context": [Document("Ann", id="1")]})
        assert found["epsilon"] == 8.0

    def test_unit_must_be_named(self, llm, memory):
        with pytest.raises(ConfigurationError, match="unit_field='source'"):
            PrivateRetrievalChain(memory, llm=llm)

    def test_about_as_many_units_as_the_settings_say(self, tiny_model, memory):
        settings = {"model": tiny_model, "units": 5, "max_tokens": 2}
        chain = PrivateRetrievalChain(memory, unit_field="patient", **settings)
        assert (chain.retriever.bar, chain.retriever.thin_to) == (NoisyThreshold(5), None)
        assert isinstance(chain.invoke(QUESTION), str)

    def test_corpus_of_the_library(self, llm, tmp_path):
        corpus = Corpus.create("notes", tmp_path, embedder=BucketEmbedder())
        corpus.add(OwnDocument(text, name) for text, name in zip(TEXTS, "abc", strict=True))
        chain = PrivateRetrievalChain(corpus, llm=llm)
        assert chain.retriever.source is corpus
        assert chain.retriever.bar == NoisyThreshold(UNITS)
        assert isinstance(chain.invoke(QUESTION), str)
        top = PrivateRetrievalChain(corpus, top_k=2, where={"owner": "ann"}, llm=llm).retriever
        assert (top.bar, top.where) == (TopK(2), {"owner": "ann"})
        with pytest.raises(ConfigurationError, match="a corpus knows its units"):
            PrivateRetrievalChain(corpus, unit_field="patient", llm=llm)

    def test_unit_of_the_settings(self, tiny_model, memory):
        settings = {"model": tiny_model, "privacy_unit": "patient", "max_tokens": 2}
        chain = PrivateRetrievalChain(memory, threshold=-1, **settings)
        assert isinstance(chain.invoke(QUESTION), str)

    def test_unit_of_the_llm(self, tiny_model, memory):
        llm = make_llm(tiny_model, privacy_unit="patient")
        chain = PrivateRetrievalChain(memory, threshold=-1, llm=llm)
        units = {document.unit for document in chain.retriever.retrieve(QUESTION)}
        assert units == {"ann", "bob"}
        assert chain.invoke(QUESTION)
        with pytest.raises(ConfigurationError, match="leave one out"):
            PrivateRetrievalChain(memory, unit_field="source", llm=llm)

    def test_record_without_the_field(self, llm, memory):
        """Left out: an error would tell that it is there."""
        memory.add_texts(["a secret"], [{"source": "x"}])
        chain = PrivateRetrievalChain(memory, unit_field="patient", threshold=-1, llm=llm)
        assert isinstance(chain.invoke(QUESTION), str)
        assert _was_read(llm, TEXTS[0])
        assert not _was_read(llm, "a secret")
        (defect,) = chain.retriever.source.check()
        assert defect.reason == NO_UNIT

    def test_tool(self, llm, memory):
        tool = PrivateRetrievalChain(memory, unit_field="patient", llm=llm).as_tool(
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

    def test_a_collection_keeps_its_privacy_unit(self, tmp_path):
        store = chroma_store(tmp_path, TEXTS, ["ann", "bob", "ann"])
        private_retriever(store, unit_field="document", threshold=0.3)  # puts nothing on record
        note_unit(store._collection, "patient")
        with pytest.raises(CorpusError, match="is the same patient, not one document"):
            private_retriever(store, unit_field="document", threshold=0.3)
        store.add_texts(["Gus has zingpocket disease."], [{"patient": "gus"}])
        assert len(private_retriever(store, unit_field="patient", threshold=-1).retrieve("x")) == 4

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
        assert retriever.bar == TopK(2)
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

    def test_each_search_that_can_be_chosen(self, memory):
        retriever = private_retriever(memory, unit_field="patient")
        assert retriever.bar == NoisyThreshold(UNITS)
        retriever = private_retriever(memory, unit_field="patient", threshold=0.3)
        assert retriever.bar == Threshold(0.3)
        retriever = private_retriever(memory, unit_field="patient", top_k=3)
        assert retriever.bar == TopK(3)

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
            retriever.search(QUESTION)

    def test_settings_beside_a_retriever(self, memory):
        retriever = private_retriever(memory, unit_field="patient")
        with pytest.raises(ConfigurationError, match="threshold"):
            private_retriever(retriever, threshold=0.2)
        with pytest.raises(ConfigurationError, match="unit_field"):
            private_retriever(retriever, unit_field="patient")


class TestCombine:
    CHUNKS = [Document(text, metadata={"source": "a"}) for text in TEXTS]  # noqa: RUF012

    def test_charges_as_top_k_unless_told(self, llm):
        combine = PrivateCombineDocuments(llm, unit_field="document")
        assert combine.stability == Stability(added=0, changed=1)

    @pytest.mark.parametrize("way", ["invoke", "stream"])
    def test_chunks_without_a_unit(self, llm, way):
        """Two chunks of one file would be two experts, each with a charge of its own."""
        asked = {"input": QUESTION, "context": self.CHUNKS}
        with pytest.raises(ConfigurationError, match="unit_field='source'"):
            list(getattr(PrivateCombineDocuments(llm), way)(asked))

    def test_chunks_of_one_file_are_one_expert(self, llm):
        combine = PrivateCombineDocuments(llm, unit_field="source", stability=Stability(0, 2))
        assert isinstance(combine.invoke({"input": QUESTION, "context": self.CHUNKS}), str)
        assert _was_read(llm, "\n\n".join(TEXTS))

    def test_stability_must_be_said_where_a_unit_may_have_several_documents(self, llm):
        with pytest.raises(ConfigurationError, match=r"Stability\(added=0, changed=k\)"):
            PrivateCombineDocuments(llm, unit_field="source")

    def test_unit_of_a_retriever_is_its_own(self, llm):
        combine = PrivateCombineDocuments(llm, unit_field="document")
        with pytest.raises(ConfigurationError, match="a retriever knows its units"):
            combine.invoke({"input": QUESTION, "context": GivenDocuments(TEXTS)})

    def test_reads_all_documents(self, llm):
        documents = [Document(text) for text in TEXTS]
        asked = {"input": QUESTION, "context": documents}
        combine = PrivateCombineDocuments(llm, unit_field="document")
        assert isinstance(combine.invoke(asked), str)
        assert all(_was_read(llm, text) for text in TEXTS)

    @pytest.mark.parametrize("asked", ["why?", {"input": "why?"}, {"input": 1, "context": []}])
    def test_input(self, llm, asked):
        with pytest.raises(ConfigurationError):
            PrivateCombineDocuments(llm).invoke(asked)


class TestDocuments:
    @pytest.mark.parametrize("model", [PrivateLLM, ChatPrivateContext])
    def test_chunks_without_a_unit(self, llm, model):
        chunks = [Document(text, metadata={"source": "a"}) for text in TEXTS]
        with pytest.raises(ConfigurationError, match="privacy_unit='source'"):
            model(llm).invoke(QUESTION, documents=chunks)
        named = model(llm.with_settings(privacy_unit="source"))
        assert named.invoke(QUESTION, documents=chunks)
        assert _was_read(llm, "\n\n".join(TEXTS))

    def test_units(self):
        given = [Document("a", id="1"), Document("b"), Document("b"), Document("b", id="1")]
        units = [document.unit for document in as_library_documents(given, "document")]
        assert units[0] == units[3] == "1"
        assert len(set(units)) == 3

    def test_unit_does_not_depend_on_other_texts(self):
        alone = next(as_library_documents([Document("b")], "document")).unit
        beside = list(as_library_documents([Document("a"), Document("b")], "document"))[1].unit
        assert beside == alone

    def test_sealed(self):
        sealed = SealedDocuments(TEXTS)
        assert repr(sealed) == str(sealed) == "<private documents>"
        assert copy.deepcopy(sealed) is copy.copy(sealed) is sealed
        with pytest.raises(TypeError):
            pickle.dumps(sealed)


def _was_read(llm, text: str) -> bool:
    return any(text in prompt for prompt in llm.model.prompts)
