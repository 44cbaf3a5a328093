"""Private text is read as plain text, whatever it spells, by every kind of tokenizer."""

import threading

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from dpicl_rag.errors import ModelError
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer, plain_reader
from tests.support.tiny_model import build_tiny_tokenizer
from tests.support.tiny_tokenizers import CONTROL, KINDS, build_tokenizer

# What a document may do with a control token. NFKC makes the fourth of full-width characters.
SPELLINGS = [
    "{}",
    "a {} b",
    "a{}b",
    "a {0}{0} b",
    "  {}  ",
]


def wide(text):
    """The same characters, full width."""
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("control", CONTROL)
def test_no_text_spells_a_control_token(kind, control):
    raw = build_tokenizer(kind)
    forbidden = raw.convert_tokens_to_ids(control)
    read = plain_reader(raw)
    for spelling in SPELLINGS:
        for text in (spelling.format(control), wide(spelling.format(control))):
            # To a tokenizer of whole words they are words that it does not know.
            unknown = control == "<unk>" and kind == "WordLevel"
            assert unknown or forbidden not in read(text)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "WordLevel"])
def test_it_is_read_as_its_characters(kind):
    raw = build_tokenizer(kind)
    pieces = raw.convert_ids_to_tokens(plain_reader(raw)("a<think>b"))
    assert [piece.removeprefix("##") for piece in pieces if piece != "▁"] == list("a<think>b")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["", " ", "a b", "What? It's 3 é", "a\n\nb", "１２", "e\u0301"])
def test_other_text_is_read_as_before(kind, text):
    raw = build_tokenizer(kind)
    expected = raw.encode(text, add_special_tokens=False, split_special_tokens=True)
    assert plain_reader(raw)(text) == expected


def test_the_tokenizer_itself_stays_as_it_is():
    raw = build_tokenizer("BPE")
    before = raw.backend_tokenizer.to_str()
    plain_reader(raw)("<think>")
    assert raw.backend_tokenizer.to_str() == before
    assert raw.encode("<think>", add_special_tokens=False) == [raw.convert_tokens_to_ids("<think>")]


def test_runs_of_spaces_and_a_padding_of_one_character_stay_ordinary_text():
    model = models.BPE(vocab={c: id for id, c in enumerate("!abĠ")}, merges=[])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="!", eos_token="<end>")
    raw.add_tokens([AddedToken("<think>"), AddedToken("   ", normalized=True)])
    run = raw.convert_tokens_to_ids("   ")
    assert plain_reader(raw)("a   b!") == [1, run, 2, 0]
    assert plain_reader(raw)("<think>") == []  # this tokenizer knows none of its characters


def test_what_a_caller_sets_on_the_tokenizer_changes_nothing():
    raw = build_tokenizer("BPE")
    read = plain_reader(raw)
    expected = read("a b c d")
    raw.backend_tokenizer.enable_truncation(2)
    raw.backend_tokenizer.enable_padding(length=20)
    raw.backend_tokenizer.model.dropout = 0.9
    assert plain_reader(raw)("a b c d") == read("a b c d") == expected


def test_a_template_read_meanwhile_does_not_let_control_tokens_in():
    """transformers sets a switch on the backend, which threads share."""
    raw = build_tiny_tokenizer()
    tokenizer = HuggingFaceTokenizer(raw)
    role = raw.convert_tokens_to_ids("<|assistant|>")
    stop = threading.Event()
    found = []

    def document():
        found.extend(role in tokenizer.encode("<|assistant|>") for _ in range(3000))
        stop.set()

    def template():
        while not stop.is_set():
            tokenizer.encode_template("<|assistant|>")

    threads = [threading.Thread(target=work) for work in (document, template)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(found)


@pytest.mark.parametrize(
    "model",
    [
        models.WordLevel({"a": 0}, unk_token="<none>"),
        models.WordPiece({"a": 0}, unk_token="<none>"),
        models.Unigram([("a", -1.0)]),
        models.BPE({"a": 0}, [], unk_token="<none>"),
    ],
)
def test_a_tokenizer_that_some_text_would_break_is_refused_at_load(model):
    raw = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model))
    with pytest.raises(ModelError, match="does not read every text"):
        HuggingFaceTokenizer(raw)


def test_a_tokenizer_in_python_is_read_through_transformers():
    raw = ByT5Tokenizer()
    assert plain_reader(raw)("</s><extra_id_3>") == [b + 3 for b in b"</s><extra_id_3>"]


def test_one_in_python_that_finds_control_tokens_is_refused(monkeypatch):
    raw = ByT5Tokenizer()
    monkeypatch.setattr(raw, "encode", lambda text, **_: [raw.eos_token_id])
    with pytest.raises(ModelError, match="fast version"):
        plain_reader(raw)


@pytest.mark.heavy
def test_the_packaged_default_reads_text_as_before_and_control_tokens_as_text(default_model):
    raw = default_model.tokenizer._tokenizer
    added = raw.get_added_vocab()
    text = f"Dear {' '.join(added)},\n\n  it's 3 é 漢字 \t<think>\0"
    expected = raw.encode(text, add_special_tokens=False, split_special_tokens=True)
    found = default_model.tokenizer.encode(text)
    assert found == expected
    assert not set(found) & set(added.values())
    assert default_model.tokenizer.start_tokens == ()
