"""Chroma's telemetry and traces are not told how many records a question reads."""

from __future__ import annotations

import logging

import chromadb
import pytest
from chromadb.api.rust import RustBindingsAPI
from chromadb.config import Settings
from chromadb.telemetry import opentelemetry
from chromadb.telemetry.product import ProductTelemetryClient, ProductTelemetryEvent
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from overrides import override

from dpicl_rag import CorpusError, Ledger, PrivateContextLLM, ThresholdRetriever
from dpicl_rag.stores.chroma import ChromaCollection
from dpicl_rag.stores.chroma_client import guarded
from tests.support.bucket_embedder import BucketEmbedder

EVENTS: list[str] = []


class Telemetry(ProductTelemetryClient):
    """Remembers every event."""

    @override
    def capture(self, event: ProductTelemetryEvent) -> None:
        EVENTS.append(f"{event.name} {event.properties}")


@pytest.fixture
def traced(monkeypatch):
    """Chroma's tracer at its finest; gives a function that names the spans so far."""

    def trace(**options):
        exporter = InMemorySpanExporter()
        provider = TracerProvider(**options)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        finest = opentelemetry.OpenTelemetryGranularity.ALL
        # Chroma's clients for servers have spans; the one for folders gets some here.
        wrapped = opentelemetry.trace_method("get", finest)(RustBindingsAPI._get)
        monkeypatch.setattr(RustBindingsAPI, "_get", wrapped)
        monkeypatch.setattr(opentelemetry, "tracer", provider.get_tracer("chromadb"))
        monkeypatch.setattr(opentelemetry, "granularity", finest)
        return lambda: [span.name for span in exporter.get_finished_spans()]

    return trace


def filled(folder, units: int) -> str:
    """A collection of notes, each a unit; its address."""
    texts = [f"note {number}" for number in range(units)]
    folder.mkdir(exist_ok=True)
    with chromadb.PersistentClient(str(folder)) as client:
        made = client.create_collection("notes", embedding_function=None)
        fields = [{"kind": "note"}] * units
        made.add(texts, embeddings=BucketEmbedder().embed(texts), documents=texts, metadatas=fields)
    return f"chroma:{folder}#notes?unit=document"


def test_the_tracer_is_awake(tmp_path, traced):
    told = traced()
    with chromadb.PersistentClient(str(tmp_path)) as client:
        client.create_collection("notes").get()
    assert told() == ["get"]


def test_no_span_and_no_event_of_a_question(tmp_path, traced, tiny_model, monkeypatch):
    told = traced()
    impl = f"{__name__}.{Telemetry.__name__}"
    address = filled(tmp_path / "store", 5)
    monkeypatch.setenv("CHROMA_PRODUCT_TELEMETRY_IMPL", impl)
    EVENTS.clear()
    monkeypatch.setattr("dpicl_rag.stores.chroma._PAGE", 2)
    before = told()
    corpus = ChromaCollection.open(address, embedder=BucketEmbedder())
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        llm = PrivateContextLLM(tiny_model, ledger=ledger, max_tokens=1)
        llm.answer("note?", ThresholdRetriever(corpus, -1, where={"kind": "note"}))
    assert corpus.records()
    corpus.close()
    assert (told(), EVENTS) == (before, [])


def test_a_tracer_that_cannot_be_silenced_is_refused(tmp_path, traced):
    address = filled(tmp_path / "store", 2)
    traced(sampler=ALWAYS_ON)
    with pytest.raises(CorpusError, match="parentbased_always_on"):
        ChromaCollection.open(address, embedder=BucketEmbedder())


def test_a_client_with_telemetry_of_its_own_is_refused(tmp_path):
    impl = f"{__name__}.{Telemetry.__name__}"
    settings = Settings(chroma_product_telemetry_impl=impl)
    with (
        chromadb.PersistentClient(tmp_path, settings) as client,
        pytest.raises(CorpusError, match="chroma_product_telemetry_impl"),
    ):
        ChromaCollection(client.create_collection("notes"), unit_field="document")


def test_the_http_client_logs_nothing_of_a_read(caplog):
    logger = logging.getLogger("httpx")
    with caplog.at_level(logging.DEBUG, logger="httpx"):
        with guarded():
            logger.info("HTTP Request: POST")
        logger.info("another request")
    assert [r.message for r in caplog.records if r.name == "httpx"] == ["another request"]
