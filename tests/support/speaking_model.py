"""A made-up language model whose rows are a function of a text's last word and the drawn tokens."""

from __future__ import annotations

import torch

from dpicl_rag.mechanisms.step import DenseStep

SURE = 60.0


def says(word: str, drawn: tuple[int, ...], size: int) -> list[float]:
    """Unnormalised log-probabilities.

    ``only-N`` knows token N and no other; ``turn-N`` is sure of N, then of the next one. Everything
    else, the public row too, finds all tokens about equally likely, the first ones a little more.
    """
    name, _, number = word.partition("-")
    if name == "only":
        return [0.0 if token == int(number) else -torch.inf for token in range(size)]
    if name == "turn":
        sure = (int(number) + len(drawn)) % size
        return [0.0 if token == sure else -SURE for token in range(size)]
    return [-1e-3 * token for token in range(size)]


class _Tokenizer:
    start_tokens = ()
    stop_tokens = frozenset()

    def encode(self, text):
        return [1000 + byte for byte in text.encode()]

    encode_template = encode

    def decode(self, token_ids):
        return "".join(chr(ord("a") + token) for token in token_ids if token < 1000)

    def chat(self, messages):
        return None


class _Rows:
    def __init__(self, texts, size):
        self._words = [(text.split() or [""])[-1] for text in texts]
        self._drawn = ()
        self._size = size

    def extend(self, token_ids):
        self._drawn += tuple(token for token in token_ids if token < 1000)
        rows = torch.tensor([says(word, self._drawn, self._size) for word in self._words])
        rows = torch.log_softmax(rows, dim=-1)
        return DenseStep(rows[0], rows[1:])


class SpeakingModel:
    """A ``LanguageModel`` of ``size`` tokens: a, b, and so on. Prompts are made of others."""

    fingerprint = "speaking"
    context_length = 1 << 20

    def __init__(self, size=3):
        self.size = size
        self.tokenizer = _Tokenizer()

    def digest(self, passages, most):
        return "\n\n".join(passages)[:most]

    def read(self, prefix, inputs, *, room, on_progress=None):
        return _Rows(inputs, self.size)
