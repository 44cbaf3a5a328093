"""A made-up model that says whole sentences, so that a page has something to show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dpicl_rag.auditing.worst_models import SyntheticModel, SyntheticTokenizer

_END = 0


class ScriptedModel(SyntheticModel):
    """Says what a document's word stands for, a word at a time, and then ends.

    Args:
        answers: By a word in a document: the sentence that the document then leads to. The last
            one is said where no word is found, as the public row finds none.
    """

    def __init__(self, answers: Mapping[str, str]) -> None:
        sentences = {word: re.findall(r"\s*\S+", said) for word, said in answers.items()}
        every = sorted({piece for pieces in sentences.values() for piece in pieces})
        tokens = {piece: number for number, piece in enumerate(every, start=1)}
        scripts = {
            word: [*(tokens[piece] for piece in pieces), _END] for word, pieces in sentences.items()
        }

        def speech(text: str, history: tuple[int, ...]) -> Sequence[float]:
            found = [script for word, script in scripts.items() if word in text]
            script = found[0] if found else list(scripts.values())[-1]
            sure = script[min(len(history), len(script) - 1)]
            return [0.0 if token == sure else -12.0 for token in range(len(every) + 1)]

        super().__init__(len(every) + 1, speech, frozenset({_END}))
        self.tokenizer = _Words(["", *every])


class _Words(SyntheticTokenizer):
    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(frozenset({_END}))
        self._words = words
        self._numbers = {word.strip(): number for number, word in enumerate(words) if word}

    def encode(self, text: str) -> list[int]:
        """Of a sentence that it can say the words, of other text the bytes, beyond the words."""
        words = text.split()
        if words and all(word in self._numbers for word in words):
            return [self._numbers[word] for word in words]
        return [len(self._words) + byte for byte in super().encode(text)]

    def decode(self, token_ids: Sequence[int]) -> str:
        said = b"".join(
            self._words[token].encode()
            if token < len(self._words)
            else bytes([token - len(self._words)])
            for token in token_ids
        )
        return said.decode(errors="replace")
