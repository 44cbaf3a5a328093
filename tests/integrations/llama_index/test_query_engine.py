"""The query engine over retrievers and indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import QueryEngineTool
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.ledger import Ledger
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import (
    UNITS,
    GivenDocuments,
    NoisyThreshold,
    PoissonSampledRetriever,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    Retriever,
    Threshold,
    ThresholdRetriever,
    TopK,
    TopKRetriever,
)
from dpicl_rag.stores.chroma_client import note_unit
from llama_index_dpicl_rag import PrivateLLM, PrivateQueryEngine, PrivateSynthesizer
from llama_index_dpicl_rag.vector_indexes import embedder_of, private_retriever
from tests.integrations.llama_index.support import (
    QUESTION,
    TEXTS,
    HashEmbedding,
    Reader,
    chroma_index,
    nodes_of,
    private_llm,
    simple_index,
)

SENDERS = [{"sender": name} for name in ("ann", "bob", "ann", "bob")]


@pytest.fixture
def index(tmp_path) -> VectorStoreIndex:
    return chroma_index(tmp_path, nodes_of(TEXTS, SENDERS))


def test_class_is_a_llama_index_query_engine(tiny_model, index) -> None:
    assert isinstance(PrivateQueryEngine(private_llm(tiny_model), index), BaseQueryEngine)


def test_response_holds_the_answer_and_public_numbers(tiny_model, index) -> None:
    retriever = ThresholdRetriever(
        Corpus.from_collection(
            index.vector_store.client,
            unit_field="document_id",
            embedder=embedder_of(HashEmbedding()),
        ),
        -1,
    )
    answer = private_llm(tiny_model, seed=5).answer(QUESTION, retriever)
    response = PrivateQueryEngine(private_llm(tiny_model, seed=5), index, threshold=-1).query(
        QUESTION
    )
    assert isinstance(response, Response)
    assert response.response == answer.text
    assert response.source_nodes == []
    assert response.metadata == {
        "kind": "answer",
        "epsilon": 8.0,
        "delta": 1e-5,
        "budget_left": None,
        "question": QUESTION,
        "output_tokens": answer.tokens,
        "stopped_by": answer.stopped_by,
        "supported": False,
        "from_memory": False,
        "by": "tokens",
        "agreeing": None,
        "agreeing_within": None,
        "parts": [],
    }


async def test_sync_async_and_streams_agree(tiny_model, index) -> None:
    def engine(**options: Any) -> PrivateQueryEngine:
        return PrivateQueryEngine(private_llm(tiny_model, seed=5), index, threshold=-1, **options)

    response = engine().query(QUESTION)
    assert await engine().aquery(QueryBundle(QUESTION)) == response
    stream = engine(streaming=True).query(QUESTION)
    assert isinstance(stream, StreamingResponse)
    pieces = list(stream.response_gen)
    assert "".join(pieces).strip() == response.response
    assert stream.source_nodes == []
    assert stream.metadata == response.metadata
    astream = await engine(streaming=True).aquery(QUESTION)
    assert isinstance(astream, AsyncStreamingResponse)
    assert [piece async for piece in astream.async_response_gen()] == pieces
    assert astream.source_nodes == []
    assert astream.metadata == response.metadata


@pytest.mark.parametrize("streams", ["sync", "async"])
async def test_a_stream_has_no_numbers_before_its_end(tiny_model, index, streams: str) -> None:
    engine = PrivateQueryEngine(
        private_llm(tiny_model, seed=5), index, threshold=-1, streaming=True
    )
    if streams == "sync":
        response = engine.query(QUESTION)
        next(response.response_gen)
        assert response.metadata == {}
        response.response_gen.close()
    else:
        response = await engine.aquery(QUESTION)
        await anext(response.response_gen)
        assert response.metadata == {}
        await response.response_gen.aclose()
    assert response.metadata == {}


@pytest.mark.parametrize("store", ["chroma", "simple"])
def test_each_source_document_is_a_unit(tiny_model, tmp_path, store: str) -> None:
    nodes = nodes_of(TEXTS, SENDERS)
    index = chroma_index(tmp_path, nodes) if store == "chroma" else simple_index(nodes)
    model = Reader(tiny_model)
    PrivateQueryEngine(private_llm(model), index, threshold=-1).query(QUESTION)
    assert model.documents == sorted(TEXTS)


@pytest.mark.parametrize("store", ["chroma", "simple"])
def test_a_metadata_field_is_the_unit(tiny_model, tmp_path, store: str) -> None:
    nodes = nodes_of(TEXTS, SENDERS)
    index = chroma_index(tmp_path, nodes) if store == "chroma" else simple_index(nodes)
    model = Reader(tiny_model)
    engine = PrivateQueryEngine(private_llm(model), index, unit_field="sender", threshold=-1)
    engine.query(QUESTION)
    first, second = model.documents
    assert {text in first for text in TEXTS} == {True, False}
    assert all((text in first) != (text in second) for text in TEXTS)
    assert all((TEXTS[n] in first) == (TEXTS[n + 2] in first) for n in (0, 1))


def test_settings_may_name_the_unit_of_the_index_too(tiny_model, index) -> None:
    model = Reader(tiny_model)
    llm = private_llm(model, privacy_unit="sender")
    PrivateQueryEngine(llm, index, unit_field="sender", threshold=-1).query(QUESTION)
    assert len(model.documents) == 2


@pytest.mark.parametrize("store", ["chroma", "simple"])
def test_metadata_is_never_read_by_the_model(tiny_model, tmp_path, store: str) -> None:
    nodes = nodes_of(TEXTS, [{"diagnosis": "quillon"}] * len(TEXTS))
    index = chroma_index(tmp_path, nodes) if store == "chroma" else simple_index(nodes)
    model = Reader(tiny_model)
    PrivateQueryEngine(private_llm(model), index, threshold=-1).query(QUESTION)
    assert len(model.rows) == len(TEXTS) + 1
    assert not [row for row in model.rows if "quillon" in row]


@pytest.mark.parametrize("store", ["chroma", "simple"])
def test_threshold_and_top_k_scan_exactly(tiny_model, tmp_path, store: str) -> None:
    import numpy as np

    nodes = nodes_of(TEXTS)
    index = chroma_index(tmp_path, nodes) if store == "chroma" else simple_index(nodes)
    embed = HashEmbedding()
    question = np.array(embed.get_query_embedding(QUESTION))
    vectors = np.array([embed.get_text_embedding(text) for text in TEXTS])
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(question)
    scores = dict(zip(TEXTS, vectors @ question / lengths, strict=True))
    ranked = sorted(TEXTS, key=scores.__getitem__, reverse=True)

    model = Reader(tiny_model)
    between = (scores[ranked[1]] + scores[ranked[2]]) / 2
    PrivateQueryEngine(private_llm(model), index, threshold=between).query(QUESTION)
    assert model.documents == sorted(ranked[:2])
    model = Reader(tiny_model)
    PrivateQueryEngine(private_llm(model), index, top_k=3).query(QUESTION)
    assert model.documents == sorted(ranked[:3])


def test_changes_of_the_index_are_seen(tiny_model, index) -> None:
    model = Reader(tiny_model)
    engine = PrivateQueryEngine(private_llm(model), index, threshold=-1)
    engine.query(QUESTION)
    index.insert_nodes(nodes_of([*TEXTS, "The office is gone."])[-1:])
    model.rows.clear()
    engine.query(QUESTION)
    assert "The office is gone." in model.documents


def test_where_filters_before_scoring(tiny_model, index) -> None:
    model = Reader(tiny_model)
    engine = PrivateQueryEngine(private_llm(model), index, threshold=-1, where={"sender": "ann"})
    engine.query(QUESTION)
    assert model.documents == sorted([TEXTS[0], TEXTS[2]])


def test_zero_nodes_take_the_ordinary_path(tiny_model, index) -> None:
    public = private_llm(tiny_model, seed=5).answer(QUESTION, []).text
    response = PrivateQueryEngine(private_llm(tiny_model, seed=5), index, threshold=1).query(
        QUESTION
    )
    assert response.response == public
    assert response.metadata["output_tokens"] > 0
    stream = PrivateQueryEngine(
        private_llm(tiny_model, seed=5), index, threshold=1, streaming=True
    ).query(QUESTION)
    assert "".join(stream.response_gen).strip() == public


def test_retriever_of_the_library_is_used_as_it_is(tiny_model) -> None:
    model = Reader(tiny_model)
    retriever = GivenDocuments([Document("Elm", "a"), Document("Oak", "b")])
    PrivateQueryEngine(private_llm(model), retriever).query(QUESTION)
    assert model.documents == ["Elm", "Oak"]
    for options in ({"threshold": 0.1}, {"top_k": 2}, {"where": {}}, {"unit_field": "document"}):
        with pytest.raises(ConfigurationError, match="belong to the retriever"):
            PrivateQueryEngine(private_llm(model), retriever, **options)


def test_about_as_many_units_as_the_settings_say(tiny_model) -> None:
    model, index = Reader(tiny_model), simple_index(nodes_of(TEXTS))
    retriever = private_retriever(index, units=60)
    assert (retriever.bar, retriever.thin_to) == (NoisyThreshold(60), None)
    PrivateQueryEngine(private_llm(model, units=60), index).query(TEXTS[0])
    assert TEXTS[0] in model.documents  # its cosine with itself passes every threshold


def test_corpus_of_the_library_is_used_as_it_is(tiny_model, index) -> None:
    corpus = Corpus.from_collection(
        index.vector_store.client, unit_field="sender", embedder=embedder_of(HashEmbedding())
    )
    model = Reader(tiny_model)
    PrivateQueryEngine(private_llm(model), corpus, threshold=-1).query(QUESTION)
    assert len(model.documents) == 2
    assert private_retriever(corpus).bar == NoisyThreshold(UNITS)
    assert private_retriever(corpus, where={"sender": "ann"}).where == {"sender": "ann"}
    with pytest.raises(ConfigurationError, match="a corpus knows its units"):
        PrivateQueryEngine(private_llm(model), corpus, unit_field="sender")


RETRIEVERS: dict[str, Callable[[Corpus], Retriever]] = {
    "threshold": lambda corpus: ThresholdRetriever(corpus, -1),
    "top-k": lambda corpus: TopKRetriever(corpus, 2),
    "private threshold": lambda corpus: PrivateThresholdRetriever(
        corpus, 2, thresholds=(0.5, 0.0, -1.0)
    ),
    "private top-k": lambda corpus: PrivateTopKRetriever(
        corpus, 4, sigma=3, thresholds=(0.0, -0.1, -1.0)
    ),
    "sampled": lambda corpus: PoissonSampledRetriever(ThresholdRetriever(corpus, -1), 0.5),
    "sampled private": lambda corpus: PoissonSampledRetriever(
        PrivateThresholdRetriever(corpus, 2, sigma=3.0, thresholds=(0.0, -1.0)), 0.5
    ),
    "given": lambda corpus: GivenDocuments(TEXTS),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", RETRIEVERS)
def test_every_retriever_of_the_library_is_taken(tiny_model, tmp_path, name: str) -> None:
    """By the three doors alike: same documents, same answer, same charge as the library's."""
    corpus = Corpus.from_collection(
        chroma_index(tmp_path, nodes_of(TEXTS)).vector_store.client,
        unit_field="document_id",
        embedder=embedder_of(HashEmbedding()),
    )
    doors: list[Callable[[PrivateContextLLM, Retriever], str]] = [
        lambda llm, retriever: llm.answer(QUESTION, retriever).text,
        lambda llm, retriever: PrivateQueryEngine(llm, retriever).query(QUESTION).response,
        lambda llm, retriever: llm.as_query_engine(retriever).query(QUESTION).response,
        lambda llm, retriever: PrivateLLM(llm).complete(QUESTION, documents=retriever).text,
    ]
    seen = []
    for number, door in enumerate(doors):
        model = Reader(tiny_model)
        with Ledger(tmp_path / f"{number}.db") as ledger:
            ledger.set_budget(corpus="mail", rho=100.0)
            llm = private_llm(model, seed=8, ledger=ledger, corpus="mail")
            text = door(llm, RETRIEVERS[name](corpus))
            seen.append((text, model.documents, llm.budget_left()))
    text, read, left = seen[0]
    assert text
    assert set(read) <= set(TEXTS)
    assert read
    assert left < 100
    assert seen == [seen[0]] * len(doors)


def test_either_language_model_can_be_given(tiny_model, index) -> None:
    llm = private_llm(tiny_model, seed=5)
    retriever = GivenDocuments([Document("Elm", "a")])
    answer = private_llm(tiny_model, seed=5).answer(QUESTION, retriever).text
    assert PrivateQueryEngine(PrivateLLM(llm), retriever).query(QUESTION).response == answer
    with pytest.raises(ConfigurationError, match="object"):
        PrivateQueryEngine(object(), retriever)  # type: ignore[arg-type]


class OtherStore(BasePydanticVectorStore):
    """A vector store that this library does not know."""

    stores_text: bool = True

    @property
    def client(self) -> None:
        return None

    def add(self, nodes, **kwargs):
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id, **kwargs):
        return None

    def query(self, query, **kwargs):
        raise AssertionError("not to be searched")


def test_approximate_search_is_refused(tiny_model, index) -> None:
    llm = private_llm(tiny_model)
    other = VectorStoreIndex.from_vector_store(OtherStore(), embed_model=HashEmbedding())
    for source in [index.as_retriever(), index.vector_store, other]:
        with pytest.raises(ConfigurationError, match="approximate"):
            PrivateQueryEngine(llm, source)


class Undeclared:
    """A retriever that does not say how stable it is."""

    def retrieve(self, question):
        raise AssertionError


@pytest.mark.parametrize("source", ["foo", None, [Document("Elm", "a")], Undeclared()])
def test_what_is_no_retriever_is_refused(tiny_model, source) -> None:
    expected = f"ExactRetriever.*VectorStoreIndex, not {type(source).__name__}"
    with pytest.raises(ConfigurationError, match=expected):
        PrivateQueryEngine(private_llm(tiny_model), source)


def test_a_collection_keeps_its_privacy_unit(tiny_model, index) -> None:
    llm = private_llm(tiny_model)
    PrivateQueryEngine(llm, index)  # puts nothing on record
    note_unit(index.vector_store.client, "sender")
    PrivateQueryEngine(llm, index, unit_field="sender")
    with pytest.raises(CorpusError, match="is the same sender, not the same document_id"):
        PrivateQueryEngine(llm, index)


def test_options_that_contradict_are_refused(tiny_model, index) -> None:
    llm = private_llm(tiny_model)
    with pytest.raises(ConfigurationError, match="not both"):
        PrivateQueryEngine(llm, index, threshold=0.2, top_k=2)
    by_sender = private_llm(tiny_model, privacy_unit="sender")
    for source, unit in [(index, None), (index, "document_id"), (GivenDocuments(TEXTS), None)]:
        with pytest.raises(ConfigurationError, match="leave privacy_unit out"):
            PrivateQueryEngine(by_sender, source, unit_field=unit)
    with pytest.raises(ConfigurationError, match="Chroma"):
        PrivateQueryEngine(llm, simple_index(nodes_of(TEXTS)), where={"a": "b"}).query(QUESTION)
    with pytest.raises(ConfigurationError, match="individual"):
        PrivateQueryEngine(private_llm(tiny_model, accounting="individual"), index, top_k=2).query(
            QUESTION
        )


def test_prompts_of_llama_index_are_refused(tiny_model, index) -> None:
    llm, prompt = private_llm(tiny_model), PromptTemplate("{query_str}")
    synthesizer = PrivateSynthesizer(llm, unit_field="document")
    engine = PrivateQueryEngine(llm, index)
    around = RetrieverQueryEngine(index.as_retriever(), synthesizer)
    name = "response_synthesizer:text_qa_template"
    for asked, names in ((engine, [name, "text_qa_template"]), (around, [name])):
        for one in names:
            with pytest.raises(ConfigurationError, match="template=PromptTemplate"):
                asked.update_prompts({one: prompt})


def test_node_without_the_unit_is_left_out(tiny_model, tmp_path) -> None:
    """An error would tell that it is there."""
    nodes = nodes_of(TEXTS, [{"patient": "p"}, {}, {"patient": "q"}, {}])
    lost = simple_index(nodes)
    lost.docstore.delete_document("node-2")
    for source, read in [
        (chroma_index(tmp_path, nodes), [TEXTS[0], TEXTS[2]]),
        (simple_index(nodes), [TEXTS[0], TEXTS[2]]),
        (lost, [TEXTS[0]]),
    ]:
        reader = Reader(tiny_model)
        retriever = private_retriever(source, unit_field="patient", threshold=-1)
        PrivateQueryEngine(private_llm(reader), retriever).query(QUESTION)
        assert reader.documents == sorted(read)
        assert len(retriever.source.check()) == len(TEXTS) - len(read)


def test_questions_only_are_embedded() -> None:
    embedder = embedder_of(HashEmbedding())
    with pytest.raises(ConfigurationError):
        embedder.embed(TEXTS)


async def test_works_as_a_tool(tiny_model) -> None:
    retriever = GivenDocuments([Document("Elm", "a")])
    text = private_llm(tiny_model, seed=5).answer(QUESTION, retriever).text
    for use in ("call", "acall"):
        engine = PrivateQueryEngine(private_llm(tiny_model, seed=5), retriever)
        tool = QueryEngineTool.from_defaults(engine, name="notes", description="Notes.")
        output = tool.call(QUESTION) if use == "call" else await tool.acall(QUESTION)
        assert output.content == text
        assert output.raw_output.source_nodes == []


def test_a_tool_that_is_called_without_a_question_asks_none(tiny_model, tmp_path) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=10.0)
        llm = private_llm(tiny_model, ledger=ledger)
        tool = llm.as_query_engine(GivenDocuments([Document("Elm", "a")])).as_tool()
        for given in ({}, {"question": QUESTION}):
            with pytest.raises(ValueError, match="input"):
                tool.call(**given)
        assert ledger.status()[0].questions == 0


async def test_works_in_a_workflow_step(tiny_model) -> None:
    retriever = GivenDocuments([Document("Elm", "a")])
    text = private_llm(tiny_model, seed=5).answer(QUESTION, retriever).text

    class Piece(Event):
        text: str

    class Ask(Workflow):
        @step
        async def ask(self, ctx: Context, event: StartEvent) -> StopEvent:
            engine = PrivateQueryEngine(private_llm(tiny_model, seed=5), retriever, streaming=True)
            response = await engine.aquery(event.question)
            async for piece in response.async_response_gen():
                ctx.write_event_to_stream(Piece(text=piece))
            return StopEvent(result=(await response.get_response()).response)

    handler = Ask(timeout=60).run(question=QUESTION)
    pieces = [event.text async for event in handler.stream_events() if isinstance(event, Piece)]
    assert (await handler).strip() == text
    assert "".join(pieces).strip() == text


def test_top_k_costs_twice_a_threshold(tiny_model, index) -> None:
    threshold = private_retriever(index, unit_field="document_id", threshold=0.5)
    assert threshold.bar == Threshold(0.5)
    top_k = private_retriever(index, unit_field="document_id", top_k=2)
    assert top_k.bar == TopK(2)
    assert top_k.stability == Stability(added=0, changed=1)
