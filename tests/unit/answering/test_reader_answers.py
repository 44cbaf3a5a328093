"""Answers from a reader's notes: with no language model at all, and with one that writes."""

import asyncio
from pathlib import Path

import pytest

from dpicl_rag import (
    ConfigurationError,
    Document,
    EngineUnavailableError,
    Ledger,
    PrivateContextLLM,
    TopKRetriever,
)
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.language_models.readers.no_writer import NoWriter, WordNumbers
from dpicl_rag.language_models.readers.notes import choices, notes
from dpicl_rag.language_models.readers.reply_cache import ReplyCache
from dpicl_rag.prompts import PromptTemplate
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scored_units import ScoredUnits
from tests.support.scripted_reader import ScriptedReader, document_of

QUESTION = "When is the shuttle?"
SOURCE = ScoredUnits({"a": [0.9]})


def shuttles(leaves=30, others=4):
    said = [Document(f"The shuttle leaves at 6:40 on day {n}.", f"a{n}") for n in range(leaves)]
    return said + [Document(f"Lunch is at noon on day {n}.", f"b{n}") for n in range(others)]


def reply(prompt):
    document = document_of(prompt)
    return "The shuttle leaves at 6:40." if "shuttle" in document else "NOTHING"


@pytest.fixture
def alone():
    """A reader and no language model."""

    def make(reply=reply, **settings):
        reader = ScriptedReader(reply)
        settings = {"epsilon": 8.0, "agreement": "only", **settings}
        return reader, PrivateContextLLM(reader=reader, **settings)

    return make


def test_what_notes_agree_on_is_the_answer_and_no_model_is_loaded(alone, monkeypatch):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)
    reader, llm = alone()
    answer = llm.answer(QUESTION, shuttles())
    assert "6:40." in answer.text
    assert (answer.by, answer.supported, answer.stopped_by) == ("agreement", True, "end")
    assert answer.rho < epsilon_to_rho(8.0, 1e-5)
    assert len(reader.asked) == 34
    assert "6:40." in asyncio.run(llm.aanswer(QUESTION, shuttles())).text


def test_each_call_sees_one_unit_and_the_question(alone):
    reader, llm = alone()
    llm.answer(QUESTION, [Document(f"secret {n}", f"u{n // 2}") for n in range(6)])
    seen = sorted(document_of(prompt) for prompt in reader.asked)
    assert seen == ["secret 0\n\nsecret 1", "secret 2\n\nsecret 3", "secret 4\n\nsecret 5"]
    assert all(QUESTION in prompt for prompt in reader.asked)


def test_units_that_say_nothing_pay_nothing(tmp_path):
    documents = shuttles(leaves=0, others=60)
    with Ledger(tmp_path / "ledger") as ledger:
        # A unit can pay for one answer, and hardly for a second.
        ledger.set_budget(corpus="mail", epsilon=40.0, unit_epsilon=2.5)
        given = {"epsilon": 2.0, "agreement": "only", "ledger": ledger, "corpus": "mail"}
        silent = PrivateContextLLM(reader=ScriptedReader(lambda _: "NOTHING"), **given)
        for _ in range(6):
            assert not silent.answer("Where?", documents).supported
        speaks = PrivateContextLLM(reader=ScriptedReader(lambda _: "It is at noon."), **given)
        assert "noon" in speaks.answer("When?", documents).text.lower()


def test_few_notes_are_no_answer(alone):
    _, llm = alone(epsilon=1.0)
    assert not llm.answer(QUESTION, shuttles(2)).supported


def test_with_a_model_that_writes_tokens_are_drawn_where_notes_differ(tiny_model):
    reader = ScriptedReader(lambda prompt: f"It is {document_of(prompt)[-3:]}")
    llm = PrivateContextLLM(tiny_model, reader=reader, epsilon=8.0, max_tokens=3)
    answer = llm.answer(QUESTION, shuttles(6))
    assert answer.by == "tokens"
    assert len(reader.asked) == 10


def test_a_reader_that_does_not_answer_ends_the_answer(alone):
    def down(prompt):
        raise EngineUnavailableError

    _, llm = alone(down)
    with pytest.raises(EngineUnavailableError):
        llm.answer(QUESTION, shuttles(3))


@pytest.mark.parametrize("found", [[], ["yes"], None])
def test_a_reader_of_ones_own_that_fails_quotes_nothing(found):
    class Fails(ScriptedReader):
        def replies(self, prompts, on_progress=None):
            if found is None:
                raise KeyError(prompts)
            return found

    llm = PrivateContextLLM(reader=Fails(None), agreement="only")
    with pytest.raises(EngineUnavailableError) as caught:
        llm.answer(QUESTION, [Document("secret", "u1"), Document("secret", "u2")])
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_reply_that_is_no_text_is_nothing():
    assert notes(ScriptedReader(lambda _: 7), "q?")([("d",)], None) == [()]


def test_labels_are_said_in_words(alone):
    _, llm = alone(lambda prompt: "Travel." if "shuttle" in document_of(prompt) else "food")
    assert llm.classify("What is it about?", shuttles(), ["food", "travel"]).label == "travel"
    found = llm.tally("What is it about?", ["food", "travel"], shuttles())
    assert found.counts["travel"].low <= 30 <= found.counts["travel"].high
    votes = llm.classify("What?", shuttles(), ["food", "travel"], method="votes")
    assert votes.label == "travel"
    with pytest.raises(ConfigurationError, match="such as votes"):
        llm.classify("What?", shuttles(), ["food", "travel"], method="poe-prior")


def test_units_that_say_yes_are_counted(alone):
    _, llm = alone(lambda prompt: "Yes" if "6:40" in prompt else "No.")
    found = llm.count("Does it leave?", shuttles())
    assert found.yes.low <= 30 <= found.yes.high


def test_a_limit_of_calls_is_kept_to_about(alone):
    reader, llm = alone(lambda prompt: "yes", epsilon=8.0, max_calls=100)
    many = [Document(f"letter {n}", f"u{n}") for n in range(1000)]
    assert llm.answer("Which?", many).supported
    assert 60 < len(reader.asked) < 140
    reader.asked.clear()
    found = llm.count("Is it?", many).yes
    assert 60 < len(reader.asked) < 140
    assert found.low <= 1000 <= found.high
    assert found.high - found.low > 20  # for its coins it knows less than by noise alone
    reader.asked.clear()
    assert llm.tally("Is it?", ["yes", "no"], many, sample=0.5).counts["yes"].high > 1000
    assert 25 < len(reader.asked) < 80


def test_a_count_that_the_memory_has_is_one_of_the_same_limit(alone, tmp_path):
    with AnswerMemory(tmp_path / "memory", "mail", embedder=BucketEmbedder()) as memory:
        _, llm = alone(lambda prompt: "yes", corpus="mail", knowledge=memory, max_calls=20)
        assert not llm.count("Is it?", shuttles()).from_memory
        assert llm.count("Is it?", shuttles()).from_memory
        assert not llm.with_settings(max_calls=10).count("Is it?", shuttles()).from_memory


def test_a_plan_says_how_many_calls(alone, tiny_model):
    _, llm = alone(max_calls=12)
    plan = llm.plan(shuttles())
    assert plan.calls == 12
    assert "about 12 calls to the reader" in str(plan)
    assert llm.with_settings(max_calls=None).plan(shuttles()).calls is None  # documents alone tell
    assert PrivateContextLLM(tiny_model).plan(TopKRetriever(SOURCE, 3)).calls is None


def test_the_same_question_reads_what_is_new(alone):
    asked = []

    def read(prompt):
        asked.append(prompt)
        return reply(prompt) if "Document:" in prompt else "OK"

    llm = PrivateContextLLM(reader=read, agreement="only", epsilon=8.0)
    llm.answer(QUESTION, shuttles(20))
    asked.clear()
    llm.answer(QUESTION, shuttles(22))
    assert sum("Document:" in prompt for prompt in asked) == 2


def test_a_cache_on_disk_serves_another_process_s_reader(tmp_path):
    asked = []

    def read(prompt):
        asked.append(prompt)
        return reply(prompt) if "Document:" in prompt else "OK"

    read.fingerprint = "mine"
    for _ in range(2):
        cache = ReplyCache(file=tmp_path / "replies")
        llm = PrivateContextLLM(reader=read, reply_cache=cache, agreement="only", epsilon=8.0)
        llm.answer(QUESTION, shuttles(20, 0))
        cache.close()
    assert sum("Document:" in prompt for prompt in asked) == 20


def test_a_reader_of_ones_own_keeps_its_replies_itself():
    with pytest.raises(ConfigurationError, match="leave reply_cache out"):
        PrivateContextLLM(reader=ScriptedReader(reply), reply_cache=ReplyCache(), agreement="only")


def test_the_prompt_of_a_note_is_one_s_own(alone):
    note = "Q: {question}? Document:\n{document}"
    with pytest.raises(ConfigurationError, match="the note of a prompt template"):
        PromptTemplate(note=note)
    template = PromptTemplate(
        note="Say it in French.\nDocument:\n{document}\n\nQuestion: {question}"
    )
    reader, llm = alone(template=template)
    llm.answer(QUESTION, shuttles(5, 0))
    assert all(prompt.startswith("Say it in French.") for prompt in reader.asked)


def test_another_reader_may_take_its_place(alone):
    first, llm = alone()
    second = ScriptedReader(reply)
    assert llm.with_settings(reader=second).answer(QUESTION, shuttles()).supported
    assert not first.asked
    assert second.asked


def test_nothing_is_read_beforehand_for_a_reader(alone):
    _, llm = alone()
    with pytest.raises(ConfigurationError, match="when a question is asked"):
        llm.warm(shuttles())


def test_public_knowledge_is_not_sought_for_labels_that_a_reader_says(alone, monkeypatch):
    _, llm = alone(lambda prompt: "food")
    monkeypatch.setattr(llm._knowledge, "recall", None)
    assert llm.classify("What?", shuttles(), ["food", "travel"]).label == "food"


def test_without_a_writer_no_token_is_drawn():
    with pytest.raises(ConfigurationError, match="give a local model that writes"):
        NoWriter().read((), [()], room=1).extend((1,))


@pytest.mark.parametrize("text", ["", "a", " two  words \n", "\x00 zero", "é ü 漢字"])
def test_words_are_numbers_and_back(text):
    tokens = WordNumbers().encode(text)
    assert WordNumbers().decode([*tokens, 0]) == text
    assert 0 not in tokens


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("  It is 6:40.\nMore.", ("It is 6:40.",)),
        ("NOTHING", ()),
        ("Nothing.", ()),
        ("", ()),
        ("\n \n", ()),
        ("word " * 500, (("word " * 64).strip(),)),
    ],
)
def test_a_note_is_one_line(said, kept):
    assert notes(ScriptedReader(lambda _: said), "q?")([("d",)], None) == [kept]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Late delivery", ("late delivery",)),
        ("refund, late delivery", ("refund", "late delivery")),
        ("deliver", ()),
        ("I think: REFUND!", ("refund",)),
        ("none of these", ()),
        ("late delivery refused", ("late delivery refused",)),
    ],
)
def test_labels_are_found_in_a_reply(said, kept):
    labels = ["late delivery", "late delivery refused", "refund"]
    reading = choices(ScriptedReader(lambda _: said), "q?", labels, 2)
    assert reading([("d",)], None) == [kept]


def test_a_document_spells_no_field_of_the_prompt():
    reader = ScriptedReader(lambda _: "x")
    notes(reader, "the {document}?")([("{question} {labels}",)], None)
    (asked,) = reader.asked
    assert document_of(asked) == "{question} {labels}"
    assert asked.endswith("Question: the {document}?")


def test_the_guide_s_lines_answer(monkeypatch, capsys):
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    guide = Path(__file__).parents[3] / "docs" / "readers.md"
    code = guide.read_text("utf-8").split("```python\n")[1].split("```")[0]
    made = lambda model: FakeListChatModel(responses=["A refund takes 9 days."])  # noqa: E731
    monkeypatch.setattr("langchain_openai.ChatOpenAI", made)
    exec(code, {"documents": [Document(f"day {n}", f"u{n}") for n in range(40)]})
    assert "9 days." in capsys.readouterr().out
