"""Tokenizers of every kind, small enough to read, with control tokens of every kind."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL = ["<s>", "</s>", "<unk>"]
ADDED = [
    AddedToken("<think>", special=False),
    AddedToken("<tool_call>", special=False, normalized=True),
    AddedToken("<mask>", special=True, lstrip=True, normalized=True),
    AddedToken("<turn>", special=False, lstrip=True, rstrip=True),
]
CONTROL = [*SPECIAL, *(token.content for token in ADDED)]
_LETTERS = [chr(code) for code in range(33, 127)]


def _model(kind: str) -> models.Model:
    """Control tokens are pieces of the vocabulary too, as in models of SentencePiece."""
    pieces = [*CONTROL, "▁", *_LETTERS]
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    if kind == "Unigram":
        scored = [(piece, 0.0 if piece in CONTROL else -2.0) for piece in pieces]
        return models.Unigram(scored, unk_id=2)
    if kind == "WordPiece":
        vocabulary |= {f"##{letter}": len(pieces) + i for i, letter in enumerate(_LETTERS)}
        return models.WordPiece(vocab=vocabulary, unk_token="<unk>")
    if kind == "WordLevel":
        return models.WordLevel(vocab=vocabulary, unk_token="<unk>")
    merges = [("<", "/"), ("</", "s"), ("</s", ">")] if kind == "BPE with merges" else []
    vocabulary |= {left + right: len(vocabulary) + i for i, (left, right) in enumerate(merges[:2])}
    whole_words = kind == "BPE of whole words"
    return models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", ignore_merges=whole_words)


KINDS = ["BPE", "BPE of whole words", "BPE with merges", "Unigram", "WordPiece", "WordLevel"]


def build_tokenizer(kind: str) -> PreTrainedTokenizerFast:
    """A tokenizer of a kind; ``<think>`` and its like are added but not special."""
    tokenizer = Tokenizer(_model(kind))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    if kind in ("WordPiece", "WordLevel"):
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    fast.add_tokens(ADDED)
    return fast


def adding(tokenizer: PreTrainedTokenizerFast, start: str, end: str) -> PreTrainedTokenizerFast:
    """The tokenizer, which now puts control tokens before and behind every text; "" for none."""
    around = [token for token in (start, "$A", end) if token]
    ids = [(token, tokenizer.convert_tokens_to_ids(token)) for token in around if token != "$A"]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=" ".join(around), special_tokens=ids
    )
    return tokenizer
