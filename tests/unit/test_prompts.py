import pytest

from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer
from dpicl_rag.prompts import Example, PromptTemplate, label_tokens
from tests.support.tiny_model import CHAT_TEMPLATE, build_tiny_model, build_tiny_tokenizer
from tests.support.tiny_tokenizers import adding, build_tokenizer

TEMPLATE = PromptTemplate(
    system="Be short.",
    user="Text: {document} Ask: {question}",
    examples=(Example("d1", "q1", "a1"),),
    answer_prefix="It is",
)


def read(model, prompt, document):
    ids = [*prompt.prefix, *model.tokenizer.encode(document), *prompt.suffix]
    return build_tiny_tokenizer().decode(ids)


def test_the_parts_add_up_to_the_chat_template(tiny_model):
    prompt = TEMPLATE.cut(tiny_model.tokenizer, "who?")
    expected = tiny_model.tokenizer.chat(
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
    text = read(model, TEMPLATE.cut(model.tokenizer, "who?"), "DOC")
    assert text == (
        "Be short.\n\nText: d1 Ask: q1\nAnswer: a1\n\nText: DOC Ask: who?\nAnswer:It is"
    )


@pytest.mark.parametrize("start", ["", "<s>"])
@pytest.mark.parametrize("end", ["", "</s>"])
@pytest.mark.parametrize("template", [None, CHAT_TEMPLATE, "{{ bos_token }}" + CHAT_TEMPLATE])
def test_a_prompt_begins_as_its_tokenizer_begins_a_text_once_and_never_ends(start, end, template):
    raw = adding(build_tokenizer("BPE"), start, end)
    raw.chat_template = template
    prompt = TEMPLATE.cut(HuggingFaceTokenizer(raw), "who?")
    bos, eos = raw.bos_token_id, raw.eos_token_id
    written = start == "<s>" or (template or "").startswith("{{ bos_token }}")
    assert [at for at, token in enumerate(prompt.prefix) if token == bos] == [0] * written
    assert bos not in prompt.suffix
    assert eos not in prompt.prefix + prompt.suffix


def test_the_question_does_not_reach_the_part_before_the_document(tiny_model):
    first, second = (
        TEMPLATE.cut(tiny_model.tokenizer, "who?"),
        TEMPLATE.cut(tiny_model.tokenizer, "what else?"),
    )
    assert first.prefix == second.prefix
    assert first.suffix != second.suffix


def test_control_tokens_in_a_document_or_question_stay_plain_text(tiny_model):
    role = tiny_model.tokenizer.encode_template("<|assistant|>")
    assert len(role) == 1
    assert role[0] not in tiny_model.tokenizer.encode("<|assistant|>")
    prompt = TEMPLATE.cut(tiny_model.tokenizer, "<|assistant|>")
    assert prompt.suffix.count(role[0]) == TEMPLATE.cut(tiny_model.tokenizer, "x").suffix.count(
        role[0]
    )


def test_a_question_that_spells_placeholders_is_not_filled_in(tiny_model):
    prompt = TEMPLATE.cut(tiny_model.tokenizer, "what is {document}?")
    assert "what is {document}?" in read(tiny_model, prompt, "DOC")


def test_lead_is_a_space_unless_the_prompt_ends_in_white_space(tiny_model):
    assert TEMPLATE.cut(tiny_model.tokenizer, "q").lead == " "
    spaced = PromptTemplate(answer_prefix="It is\n")
    assert spaced.cut(tiny_model.tokenizer, "q").lead == ""


@pytest.mark.parametrize(
    "user", ["{question} {document}", "{document}", "{document}{document}{question}", ""]
)
def test_a_template_needs_document_before_question(user):
    with pytest.raises(ConfigurationError, match="once"):
        PromptTemplate(user=user)


def test_the_allowance_is_what_the_context_leaves(tiny_model):
    prompt = TEMPLATE.cut(tiny_model.tokenizer, "who?")
    public = len(prompt.prefix) + len(prompt.suffix)
    assert prompt.allowance(tiny_model, 100, 10) == 100
    assert prompt.allowance(tiny_model, 9999, 10) == 2048 - public - 10
    with pytest.raises(ContextLengthError, match="shorten the question"):
        TEMPLATE.cut(tiny_model.tokenizer, "who?" * 600).allowance(tiny_model, 100, 10)


def test_a_question_leaves_room_for_the_row_that_reads_no_document(tiny_model):
    """That row is read where an expert says something: an error would tell that one does."""
    prompt = TEMPLATE.cut(tiny_model.tokenizer, "who?")
    least = len(tiny_model.digest((TEMPLATE.no_document,), 99))
    most = 2048 - len(prompt.prefix) - len(prompt.suffix) - least
    assert prompt.allowance(tiny_model, 100, most) == least
    with pytest.raises(ContextLengthError, match="shorten the question"):
        prompt.allowance(tiny_model, 100, most + 1)


def test_labels_are_encoded_with_their_lead(tiny_model):
    assert label_tokens(tiny_model.tokenizer, ["yes", "no"], " ") == [
        tiny_model.tokenizer.encode(" yes"),
        tiny_model.tokenizer.encode(" no"),
    ]


def test_nested_labels_all_get_an_end(tiny_model):
    end = min(tiny_model.tokenizer.stop_tokens)
    tokens = label_tokens(tiny_model.tokenizer, ["sport", "sports", "art"], "")
    assert [ids[-1] for ids in tokens] == [end] * 3


@pytest.mark.parametrize("labels", [[], ["one"], ["a", ""], ["a", "  "]])
def test_too_few_or_empty_labels_are_refused(tiny_model, labels):
    with pytest.raises(ConfigurationError, match="at least two"):
        label_tokens(tiny_model.tokenizer, labels, "")


@pytest.mark.parametrize(
    "labels", [[["a"], "b"], ["a", None], ["a", 1], [b"a", "b"], {"a", "b"}, 5]
)
def test_what_is_no_list_of_names_is_refused_in_one_line(tiny_model, labels):
    with pytest.raises(ConfigurationError, match=r"^give the labels as a list of names$"):
        label_tokens(tiny_model.tokenizer, labels, "")


@pytest.mark.parametrize("labels", [["a", "a"], ["a", " a "]])
def test_labels_that_cannot_be_told_apart_are_refused(tiny_model, labels):
    with pytest.raises(ConfigurationError, match="told apart"):
        label_tokens(tiny_model.tokenizer, labels, "")


def test_another_instruction_changes_nothing_else():
    template = PromptTemplate(answer_prefix="Yes")
    assert template.instructed(None) is template
    assert template.instructed("Be brief.") == PromptTemplate("Be brief.", answer_prefix="Yes")
