"""A question, and how it is asked."""

import pytest

from dpicl_rag import ConfigurationError, PromptTemplate
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.answering.question import Question
from dpicl_rag.configuration import PrivacyConfig


def test_its_prompt_and_what_experts_read(tiny_model):
    template, config = PromptTemplate(), PrivacyConfig(max_tokens=60, unit_tokens=8)
    question = Question("When do you open?", template, tiny_model, config)
    assert question.prompt == template.cut(tiny_model.tokenizer, "When do you open?")
    assert question.allowance == question.prompt.allowance(tiny_model, 8, 60)


@pytest.mark.parametrize("silent", [True, False])
def test_an_expert_that_may_be_silent_reads_no_signature(tiny_model, silent):
    mail = "Subject: A\nFrom: Ida <ida@elm.example>\n\nWe open at 6.\n\nIda\nElm Court 4"
    read = "Subject: A\nFrom: Ida\n\nWe open at 6." if silent else mail
    question = Question(
        "When?", PromptTemplate(), tiny_model, PrivacyConfig(unit_tokens=200), silent=silent
    )
    assert tiny_model.tokenizer.decode(question.digest([mail])) == read


def test_other_words_have_a_prompt_of_their_own(tiny_model):
    question = Question("When?", PromptTemplate(), tiny_model, PrivacyConfig())
    other = question.worded("Where?")
    assert other.prompt != question.prompt
    assert (other.model, other.config) == (question.model, question.config)


@pytest.mark.parametrize("text", ["", " \n"])
def test_without_words_there_is_none(tiny_model, text):
    with pytest.raises(ConfigurationError, match="empty"):
        Question(text, PromptTemplate(), tiny_model, PrivacyConfig())


@pytest.mark.parametrize("longer", [0, 1, 3])
def test_rows_have_room_for_all_that_experts_say_to_each_wording(tiny_model, monkeypatch, longer):
    """An error told that one of them has much to say, to ": troubleshooting is what?"."""
    bytes_of = type(tiny_model.tokenizer).encode

    def encode(self, text):
        found = bytes_of(self, text)
        return found + found[:1] * (len(": ") + longer) if text.startswith("trouble") else found

    monkeypatch.setattr(type(tiny_model.tokenizer), "encode", encode)
    config = PrivacyConfig(max_tokens=7, unit_tokens=8)
    question = Question(": troubleshooting is what?", PromptTemplate(), tiny_model, config)
    inputs = [question.digest(["a document"])]
    rows = read(tiny_model, question.prompt, inputs, room=config.max_tokens)
    for one in question.phrasings:
        [said] = rows.continue_each(one.suffix, config.max_tokens, [True])
        assert said.tokens
