"""A question, and how it is asked."""

import pytest

from dpicl_rag import ConfigurationError, PromptTemplate
from dpicl_rag.answering.question import Question
from dpicl_rag.configuration import PrivacyConfig


def test_its_prompt_and_what_experts_read(tiny_model):
    template, config = PromptTemplate(), PrivacyConfig(max_tokens=60, unit_tokens=8)
    question = Question("When do you open?", template, tiny_model, config)
    assert question.prompt == template.cut(tiny_model.tokenizer, "When do you open?")
    assert question.allowance == question.prompt.allowance(tiny_model, 8, 60)


def test_other_words_have_a_prompt_of_their_own(tiny_model):
    question = Question("When?", PromptTemplate(), tiny_model, PrivacyConfig())
    other = question.worded("Where?")
    assert other.prompt != question.prompt
    assert (other.model, other.config) == (question.model, question.config)


@pytest.mark.parametrize("text", ["", " \n"])
def test_without_words_there_is_none(tiny_model, text):
    with pytest.raises(ConfigurationError, match="empty"):
        Question(text, PromptTemplate(), tiny_model, PrivacyConfig())
