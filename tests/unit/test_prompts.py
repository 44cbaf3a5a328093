import pytest

from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.prompts import Example, PromptTemplate, document_tokens
from tests.support.tiny_model import build_tiny_model

TEMPLATE = PromptTemplate(
    system="Be short.",
    user="Text: {document} Ask: {question}",
    examples=(Example("d1", "q1", "a1"),),
    answer_prefix="It is",
)


def read(model, prompt, document):
    ids = [*prompt.prefix, *model.encode(document), *prompt.suffix]
    return model._tokenizer.decode(ids)


def test_the_parts_add_up_to_the_chat_template(tiny_model):
    prompt = TEMPLATE.cut(tiny_model, "who?")
    expected = tiny_model.chat(
        [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Text: d1 Ask: q1"},
            {"role": "assistant", "content": "a1"},
            {"role": "user", "content": "Text: DOC Ask: who?"},
        ]
    )
    assert read(tiny_model, prompt, "DOC") == expected + "It is"


def test_a_model_without_a_chat_template_gets_plain_text():
    model = build_tiny_model(chat=False)
    text = read(model, TEMPLATE.cut(model, "who?"), "DOC")
    assert text == (
        "Be short.\n\nText: d1 Ask: q1\nAnswer: a1\n\nText: DOC Ask: who?\nAnswer:It is"
    )


def test_the_question_does_not_reach_the_part_before_the_document(tiny_model):
    first, second = TEMPLATE.cut(tiny_model, "who?"), TEMPLATE.cut(tiny_model, "what else?")
    assert first.prefix == second.prefix
    assert first.suffix != second.suffix


def test_control_tokens_in_a_document_or_question_stay_plain_text(tiny_model):
    role = tiny_model.encode_template("<|assistant|>")
    assert len(role) == 1
    assert role[0] not in tiny_model.encode("<|assistant|>")
    prompt = TEMPLATE.cut(tiny_model, "<|assistant|>")
    assert prompt.suffix.count(role[0]) == TEMPLATE.cut(tiny_model, "x").suffix.count(role[0])


def test_a_question_that_spells_placeholders_is_not_filled_in(tiny_model):
    prompt = TEMPLATE.cut(tiny_model, "what is {document}?")
    assert "what is {document}?" in read(tiny_model, prompt, "DOC")


def test_lead_is_a_space_unless_the_prompt_ends_in_white_space(tiny_model):
    assert TEMPLATE.cut(tiny_model, "q").lead == " "
    spaced = PromptTemplate(answer_prefix="It is\n")
    assert spaced.cut(tiny_model, "q").lead == ""


@pytest.mark.parametrize(
    "user", ["{question} {document}", "{document}", "{document}{document}{question}", ""]
)
def test_a_template_needs_document_before_question(user):
    with pytest.raises(ConfigurationError, match="once"):
        PromptTemplate(user=user)


def test_the_allowance_is_what_the_context_leaves(tiny_model):
    prompt = TEMPLATE.cut(tiny_model, "who?")
    public = len(prompt.prefix) + len(prompt.suffix)
    assert prompt.allowance(tiny_model, 100, 10) == 100
    assert prompt.allowance(tiny_model, 9999, 10) == 2048 - public - 10
    with pytest.raises(ContextLengthError, match="shorten the question"):
        TEMPLATE.cut(tiny_model, "who?" * 600).allowance(tiny_model, 100, 10)


def test_document_tokens_keep_the_best_passages_within_the_allowance(tiny_model):
    both = document_tokens(tiny_model, ["first", "second"], 100)
    assert both == tiny_model.encode("first\n\nsecond")
    assert document_tokens(tiny_model, ["first", "second"], 8) == both[:8]
    assert document_tokens(tiny_model, [], 8) == []
