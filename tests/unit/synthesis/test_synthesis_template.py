from __future__ import annotations

import pytest

from dpicl_rag.auditing.worst_models import SyntheticTokenizer
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.synthesis.public_records import matching
from dpicl_rag.synthesis.template import RecordExample, RecordField, RecordTemplate


class Words(SyntheticTokenizer):
    """A word per token, and one that ends."""

    words = ("<end>", " Glum", "fever", ". ", " rash", " and", "\n", ".")

    def __init__(self):
        super().__init__(frozenset({0}))

    def decode(self, token_ids):
        return "".join(self.words[token] for token in token_ids if token)


TEMPLATE = RecordTemplate(
    fields=(RecordField("The patient reports", tokens=3), RecordField("The disease is", tokens=4)),
    instruction="Fill in.",
    request="About {key}.",
    examples=(RecordExample("Tom has a rash.", "rash", "The patient reports a rash."),),
)


WHOLE = "The patient reports rash. The disease is Glumfever."


@pytest.mark.parametrize(
    ("tokens", "parts", "text"),
    [
        ((), [[]], ""),
        ((4,), [[4]], "The patient reports rash."),
        ((4, 5, 4, 1, 2), [[4, 5, 4], [1, 2]], None),
        ((4, 3, 1, 2, 7, 6), [[4, 3], [1, 2, 7, 6]], None),
        (
            (4, 0, 1, 2, 0),
            [[4, 0], [1, 2, 0]],
            "The patient reports rash. The disease is Glumfever.",
        ),
        ((0, 0), [[0], [0]], "The patient reports. The disease is."),
    ],
)
def test_fields_end_where_released_tokens_say(tokens, parts, text):
    assert TEMPLATE.parts(Words(), tokens) == parts
    if text is not None:
        assert TEMPLATE.text(Words(), tokens) == text


def test_a_field_keeps_what_stands_before_its_end():
    field = RecordField("It is", stop=(". ", "\n"))
    assert field.value(Words(), (1, 2, 3)) == " Glumfever"
    assert field.kept(Words(), (1, 2, 3)) == 2
    assert field.kept(Words(), (1, 2)) == 2
    assert field.kept(Words(), (3,)) == 0
    assert field.kept(Words(), (1, 0)) == 1
    assert field.written(Words(), (1, 2, 7, 6)) == "It is Glumfever."  # one full stop


def test_the_prompt_names_the_key_behind_the_document_and_ends_with_the_first_lead():
    prompt = TEMPLATE.prompt(Words(), "fever")
    before, behind = bytes(prompt.prefix).decode(), bytes(prompt.suffix).decode()
    assert "fever" not in before  # so that documents that were read serve every key
    assert "About fever." in behind
    assert behind.endswith("The patient reports")
    assert TEMPLATE.tokens == 7
    assert TEMPLATE.room(Words()) == 7 + len(". The disease is")


TOML = """
instruction = "Fill in."
request = "About {key}."
[[field]]
lead = "The patient reports"
tokens = 3
[[field]]
lead = "The disease is"
tokens = 4
[[example]]
document = "Tom has a rash."
key = "rash"
record = "The patient reports a rash."
"""


def test_a_template_is_read_from_toml(tmp_path):
    file = tmp_path / "record.toml"
    file.write_text(TOML)
    assert RecordTemplate.read(file) == TEMPLATE


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("not toml", "no TOML file"),
        ("instruction = 'x'", "needs a field"),
        ("[[field]]\nlead = 'x'\ntokns = 3", "tokns"),
        ("[[field]]\nlead = 'x'\ntokens = 'many'", "tokens"),
        ("[[field]]\nlead = 'x'\ntokens = 0", "whole number"),
        ("[[field]]\nlead = 'x'\nstop = ['']", "empty"),
    ],
)
def test_what_is_no_template_is_one_sentence(tmp_path, text, told):
    file = tmp_path / "record.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=told) as error:
        RecordTemplate.read(file)
    assert "\n" not in str(error.value)


def test_records_are_kept_by_a_regular_expression():
    keep = matching(r"disease is \w+\.")
    assert keep("The disease is Glumfever.")
    assert not keep("The disease is.")
    with pytest.raises(ConfigurationError, match="not a regular expression"):
        matching("(")
