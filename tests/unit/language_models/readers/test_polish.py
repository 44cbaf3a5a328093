"""A released answer in a reader's words: of public text alone, with what was released beside it."""

import pytest

from dpicl_rag import ConfigurationError, Document, EngineUnavailableError, PrivateContextLLM
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.results import UNSUPPORTED
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scripted_reader import ScriptedReader

QUESTION = "When does the shuttle leave?"
RELEASED = "The shuttle leaves at 6:40."
FLUENT = "You can take the shuttle, which leaves at 6:40."
MAIL = [Document(f"quillon {n}", f"u{n}") for n in range(40)]


def reply(prompt, polished=FLUENT):
    return RELEASED if "Document:" in prompt else polished


@pytest.fixture
def alone():
    def make(reply=reply, **settings):
        reader = ScriptedReader(reply)
        given = {"epsilon": 8.0, "agreement": "only", "polish": True, **settings}
        return reader, PrivateContextLLM(reader=reader, **given)

    return make


def test_the_released_text_stands_beside_the_polished_one(alone):
    _, llm = alone()
    answer = llm.answer(QUESTION, MAIL)
    assert (answer.text, answer.released) == (FLUENT, RELEASED)
    assert answer.supported
    assert "released" in answer._repr_html_()


def test_the_reader_sees_public_text_alone(alone):
    reader, llm = alone()
    llm.answer(QUESTION, MAIL)
    (asked,) = [prompt for prompt in reader.asked if "Document:" not in prompt]
    assert asked.endswith(f"Question: {QUESTION}\n\nAnswer: {RELEASED}")
    assert "quillon" not in asked


def test_a_stream_gives_the_polished_text_alone(alone):
    _, llm = alone()
    with llm.stream(QUESTION, MAIL) as stream:
        assert list(stream) == [FLUENT]


@pytest.mark.parametrize("polished", ["", "NOTHING", RELEASED, "down"])
def test_what_is_no_other_text_leaves_the_released_one(alone, polished):
    def of(prompt):
        if "Document:" not in prompt and polished == "down":
            raise EngineUnavailableError
        return reply(prompt, polished)

    _, llm = alone(of)
    answer = llm.answer(QUESTION, MAIL)
    assert (answer.text[-5:], answer.released, answer.stopped_by) == ("6:40.", None, "end")


def test_neither_silence_nor_a_fixed_sentence_is_polished(alone):
    for settings in ({}, {"unsupported": "refuse"}):
        reader, llm = alone(**settings)
        answer = llm.answer(QUESTION, MAIL[:2])
        assert answer.text in ("", UNSUPPORTED)
        assert all("Document:" in prompt for prompt in reader.asked)


def test_the_memory_keeps_what_was_released(alone, tmp_path):
    embedder = BucketEmbedder()
    with AnswerMemory(tmp_path / "memory", "mail", embedder=embedder) as memory:
        _, llm = alone(corpus="mail", knowledge=memory)
        llm.answer(QUESTION, MAIL)
        assert [entry.answer for entry in memory.entries()] == [RELEASED]
        again = llm.answer(QUESTION, MAIL)
        assert (again.text, again.released) == (FLUENT, RELEASED)
        assert (again.from_memory, again.rho) == (True, 0.0)
        with llm.stream(QUESTION, MAIL) as stream:
            assert list(stream) == [FLUENT]
        plain = llm.with_settings(polish=False).answer(QUESTION, MAIL)
        assert (plain.text, plain.released) == (RELEASED, None)


@pytest.mark.parametrize("setting", [{"polish": True}, {"max_calls": 5}])
def test_it_needs_a_reader(tiny_model, setting):
    with pytest.raises(ConfigurationError, match="is for a reader"):
        PrivateContextLLM(tiny_model, **setting)
    with pytest.raises(ConfigurationError, match="is for a reader"):
        PrivateContextLLM(tiny_model).with_settings(**setting)
