"""The synthesizer inside and outside a RetrieverQueryEngine."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.response.schema import Response
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import NodeWithScore, QueryBundle

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger import Ledger
from llama_index_dpicl_rag import PrivateLLM, PrivateSynthesizer
from tests.integrations.llama_index.support import (
    FIXED,
    QUESTION,
    TEXTS,
    TOKEN_RHO,
    Reader,
    chroma_index,
    nodes_of,
    private_llm,
)
from tests.integrations.llama_index.test_query_engine import SENDERS

TOP_K = Stability(added=0, changed=1)


def scored(**options: Any) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=0.9) for node in nodes_of(TEXTS, **options)]


@pytest.fixture
def make(tiny_model):
    def made(**options: Any) -> PrivateSynthesizer:
        options = {"unit_field": "document_id", "stability": TOP_K, **options}
        return PrivateSynthesizer(private_llm(tiny_model, seed=5), **options)

    return made


def test_class_is_a_llama_index_synthesizer(make) -> None:
    assert isinstance(make(), BaseSynthesizer)
    assert make().get_prompts() == {}


def test_takes_the_place_of_the_synthesizer_of_an_engine(make, tmp_path) -> None:
    index = chroma_index(tmp_path, nodes_of(TEXTS))
    engine = RetrieverQueryEngine(index.as_retriever(similarity_top_k=4), make())
    response = engine.query(QUESTION)
    assert response.source_nodes == []
    assert set(response.metadata) == {
        "kind",
        "epsilon",
        "delta",
        "budget_left",
        "question",
        "output_tokens",
        "stopped_by",
        "supported",
        "from_memory",
        "by",
        "agreeing",
        "agreeing_within",
    }
    found = index.as_retriever(similarity_top_k=4).retrieve(QUESTION)
    assert response.response == make().synthesize(QUESTION, found).response


async def test_sync_async_and_streams_agree(make) -> None:
    response = make().synthesize(QUESTION, scored())
    assert await make().asynthesize(QueryBundle(QUESTION), scored()) == response
    stream = make(streaming=True).synthesize(QUESTION, scored())
    pieces = list(stream.response_gen)
    assert "".join(pieces).strip() == response.response
    assert stream.source_nodes == []
    astream = await make(streaming=True).asynthesize(QUESTION, scored())
    assert [piece async for piece in astream.async_response_gen()] == pieces
    assert astream.source_nodes == []


def test_each_unit_is_one_expert_and_metadata_is_not_read(tiny_model) -> None:
    model = Reader(tiny_model)
    nodes = scored(fields=SENDERS)
    PrivateSynthesizer(private_llm(model), unit_field="document_id", stability=TOP_K).synthesize(
        QUESTION, nodes
    )
    assert model.documents == sorted(TEXTS)
    assert not [row for row in model.rows if "sender" in row]
    model.rows.clear()
    PrivateSynthesizer(private_llm(model), unit_field="sender", stability=TOP_K).synthesize(
        QUESTION, nodes
    )
    assert model.documents == [
        f"{TEXTS[0]}\n\n{TEXTS[2]}",
        f"{TEXTS[1]}\n\n{TEXTS[3]}",
    ]


def test_unit_field_must_be_named(tiny_model) -> None:
    with pytest.raises(TypeError, match="unit_field"):
        PrivateSynthesizer(private_llm(tiny_model))  # type: ignore[call-arg]


def test_stability_must_be_said_where_a_unit_may_have_several_nodes(tiny_model) -> None:
    with pytest.raises(ConfigurationError, match=r"Stability\(added=0, changed=k\)"):
        PrivateSynthesizer(private_llm(tiny_model), unit_field="document_id")


def test_settings_may_not_name_another_unit(tiny_model) -> None:
    model = Reader(tiny_model)
    llm = private_llm(model, privacy_unit="sender")
    with pytest.raises(ConfigurationError, match="leave privacy_unit out"):
        PrivateSynthesizer(llm, unit_field="document_id")
    synthesizer = PrivateSynthesizer(llm, unit_field="sender", stability=TOP_K)
    assert synthesizer.synthesize(QUESTION, scored(fields=SENDERS)).response
    assert len(model.documents) == 2
    assert synthesizer.get_response(QUESTION, TEXTS)


def test_zero_nodes_take_the_ordinary_path(tiny_model, make) -> None:
    public = private_llm(tiny_model, seed=5).answer(QUESTION, []).text
    assert make().synthesize(QUESTION, []).response == public
    stream = make(streaming=True).synthesize(QUESTION, [])
    assert "".join(stream.response_gen).strip() == public


def test_texts_without_units_are_one_expert(tiny_model) -> None:
    model = Reader(tiny_model)
    synthesizer = PrivateSynthesizer(private_llm(model), unit_field="document_id", stability=TOP_K)
    synthesizer.get_response(QUESTION, TEXTS)
    assert model.documents == ["\n\n".join(TEXTS)]
    model.rows.clear()
    synthesizer.get_response(QUESTION, TEXTS, units=["a", "b", "a", "b"])
    assert len(model.documents) == 2
    with pytest.raises(ConfigurationError, match="one unit per text"):
        synthesizer.get_response(QUESTION, TEXTS, units=["a"])


async def test_get_response_agrees_with_its_twins(make) -> None:
    text = make().get_response(QUESTION, TEXTS)
    assert await make().aget_response(QUESTION, TEXTS) == text
    assert "".join(make(streaming=True).get_response(QUESTION, TEXTS)).strip() == text
    stream = await make(streaming=True).aget_response(QUESTION, TEXTS)
    assert "".join([piece async for piece in stream]).strip() == text


@pytest.mark.parametrize(
    ("options", "factor"),
    [
        ({"unit_field": "document"}, 2),
        ({"unit_field": "document_id", "stability": Stability(1, 0)}, 1),
        ({"unit_field": "document_id", "stability": Stability(0, 2)}, 4),
    ],
)
def test_declared_stability_is_charged(tiny_model, tmp_path, options, factor) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        llm = private_llm(tiny_model, ledger=ledger, **{**FIXED, "strength": 0.1, "max_tokens": 2})
        response = PrivateSynthesizer(llm, **options).synthesize(QUESTION, scored())
        (status,) = [one for one in ledger.status() if one.kind == "corpus"]
    tokens = response.metadata["output_tokens"]
    expected = tokens * TOKEN_RHO * (0.1 / 0.25) ** 2 * factor**2
    # The conversion is exact, a little below the square.
    assert status.spent == pytest.approx(expected, rel=0.02)


def test_further_arguments_are_refused(make) -> None:
    with pytest.raises(ConfigurationError, match="prev_response"):
        make().synthesize(QUESTION, scored(), prev_response="x")
    with pytest.raises(ConfigurationError, match="prev_response"):
        make().get_response(QUESTION, TEXTS, prev_response="x")


def test_node_without_the_unit_is_left_out(tiny_model) -> None:
    """An error would tell that it is there."""
    reader = Reader(tiny_model)
    nodes = scored(fields=[{"patient": "p"}, {}, {"patient": "q"}, {}])
    synthesizer = PrivateSynthesizer(
        private_llm(reader), unit_field="patient", stability=Stability(added=0, changed=1)
    )
    synthesizer.synthesize(QUESTION, nodes)
    assert reader.documents == sorted([TEXTS[0], TEXTS[2]])


def test_inherited_responses_lose_their_nodes(make) -> None:
    response = make()._prepare_response_output("text", scored())
    assert response == Response("text", source_nodes=[], metadata={})


def test_adapter_of_the_language_model_can_be_given(tiny_model, make) -> None:
    llm = PrivateLLM(private_llm(tiny_model, seed=5))
    synthesizer = PrivateSynthesizer(llm, unit_field="document_id", stability=TOP_K)
    expected = make().synthesize(QUESTION, scored()).response
    assert synthesizer.synthesize(QUESTION, scored()).response == expected
