"""What transformers' tokenizers put before a text, and how much of a text is read."""

import logging
import warnings
from functools import partial

import pytest
from transformers import ByT5Tokenizer

from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer
from tests.support.at_once import Meeting, at_once
from tests.support.tiny_model import build_tiny_model, build_tiny_tokenizer
from tests.support.tiny_tokenizers import KINDS, adding, build_tokenizer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [("", "", []), ("<s>", "", ["<s>"]), ("", "</s>", []), ("<s>", "</s>", ["<s>"])],
)
def test_start_tokens_are_what_the_tokenizer_puts_first(kind, start, end, expected):
    raw = adding(build_tokenizer(kind), start, end)
    tokenizer = HuggingFaceTokenizer(raw)
    assert list(tokenizer.start_tokens) == raw.convert_tokens_to_ids(expected)
    # Neither a text nor a template has them by itself.
    for read in (tokenizer.encode, tokenizer.encode_template):
        assert not {raw.bos_token_id, raw.eos_token_id} & set(read("a b"))


def test_a_tokenizer_in_python_that_adds_an_end_starts_with_nothing():
    assert HuggingFaceTokenizer(ByT5Tokenizer()).start_tokens == ()


@pytest.fixture
def log():
    """Everything that transformers logs; its loggers do not hand it on."""
    seen = []

    class Seen(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    handler, logger = Seen(logging.DEBUG), logging.getLogger("transformers")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield seen
    logger.removeHandler(handler)
    logger.setLevel(before)


PATHOLOGICAL = [
    "a" * 100_000,
    " " * 100_000,
    "\0" * 10_000,
    "\ud800" * 10_000,
    "e\u0301" * 10_000,
    "\U0010fffd" * 10_000,
    "<think>" * 10_000,
]


@pytest.mark.parametrize("raw", [build_tiny_tokenizer, ByT5Tokenizer])
@pytest.mark.parametrize("text", PATHOLOGICAL)
def test_no_document_is_worth_a_log_line_a_warning_or_an_error(raw, text, log):
    tokenizer = HuggingFaceTokenizer(raw(model_max_length=16) if raw is ByT5Tokenizer else raw())
    tokenizer._tokenizer.model_max_length = 16
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tokenizer.encode(text)) >= 10_000
        assert len(tokenizer.encode_start(text, 99)) == 99
    assert log == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_s_first_tokens_are_those_of_the_whole(kind):
    tokenizer = HuggingFaceTokenizer(build_tokenizer(kind))
    text = "Dear all, the gate pass costs 35 crowns. Best, Lou\n\n" * 400
    whole = tokenizer.encode(text)
    for most in (0, 1, 7, 256):
        assert tokenizer.encode_start(text, most) == whole[:most]


def test_what_comes_long_after_them_is_not_read(monkeypatch):
    model = build_tiny_model()
    longest = []
    original = model.tokenizer._read

    def read(text):
        longest.append(len(text))
        return original(text)

    monkeypatch.setattr(model.tokenizer, "_read", read)
    found = model.digest(["a" * 1_000_000, "b" * 1_000_000], 99)
    assert found == tuple(original("a" * 99))
    assert max(longest) <= 99 * 64


def test_a_tokenizer_in_python_reads_for_one_thread_at_a_time():
    """Some hold the text that they read, as MeCab does."""
    meeting = Meeting()

    class Holding(ByT5Tokenizer):
        def _tokenize(self, text):
            self.held = text
            meeting.wait()
            return super()._tokenize(self.held)

    tokenizer, plain = HuggingFaceTokenizer(Holding()), ByT5Tokenizer()
    texts = ["ab", "cd", "ef"]
    alone = [plain.encode(text, add_special_tokens=False) for text in texts]
    for read in (tokenizer.encode, tokenizer.encode_template):
        meeting = Meeting()
        assert at_once([partial(read, text) for text in texts]) == alone
