"""The end of a sentence that a row says by itself: where it could end, it does.

Greedy sentences differ in their tails: "A refund takes 9 working days", "... to reach your
account", "... once we have booked it". So an expert is taken at its shortest: its sentence ends at
the first place where an end is nearly as likely as what the expert goes on with. But none ends
before it has said a word that the question has not: "The Breezer 2 has been renamed" answers
nothing yet. Nor does it end within a word or a number ("8" of "8:30"), behind a word that asks for
more ("45 EUR per"), or behind an abbreviation. All
that follows from the expert's own row and from public text and numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from dpicl_rag.languages.content_words import content_words
from dpicl_rag.languages.languages import languages
from dpicl_rag.languages.sentences import ends_sentence

if TYPE_CHECKING:
    import torch

NEARLY = 3.0
"""Nats by which an end may be less likely than what is said."""

_DAY = 2  # digits

_MARKS = (".", "!", "?", "\u3002", "\uff01", "\uff1f")
_LINES = ("\n", "\u010a", "<0x0A>")  # as text, in byte-level BPE, in SentencePiece
# The wide marks, as byte-level BPE writes their bytes.
_IN_BYTES = ("\u00e3\u0122\u0124", "\u00ef\u00bc\u0123", "\u00ef\u00bc\u0141")


@dataclass(frozen=True, slots=True, repr=False)
class Continuation:
    """Tokens that one expert says by itself. Private: a function of its own unit, bit for bit.

    Attributes:
        tokens: The likeliest token at every place.
        log_probs: Log-probability of each to the expert.
        ends: Log-probability that the sentence ended there, in place of the token; nothing where
            the engine does not say.
    """

    tokens: tuple[int, ...] = field(repr=False)
    log_probs: tuple[float, ...] = field(repr=False)
    ends: tuple[float, ...] = field(default=(), repr=False)


class SentenceEnd:
    """Tokens that end a sentence. Public.

    Args:
        stop_tokens: Tokens that end an answer.
        vocabulary: Every token and its id; without one only stop tokens end a sentence.
        decode: Text of tokens.
    """

    def __init__(
        self,
        stop_tokens: frozenset[int],
        vocabulary: Mapping[str, int],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self._final = stop_tokens
        self._vocabulary = vocabulary
        self._decode = decode

    @cached_property
    def marks(self) -> frozenset[int]:
        """Tokens that begin with a mark at which a sentence may end: "3." may go on, too."""
        return self._beginning_with(*_MARKS, *_IN_BYTES)

    @cached_property
    def tokens(self) -> frozenset[int]:
        """All tokens at which one ends: marks, line breaks, and the end of an answer."""
        return self.marks | self._beginning_with(*_LINES) | self._final

    @cached_property
    def indices(self) -> torch.Tensor:
        """The same as int64 [n], rising."""
        import torch

        return torch.tensor(sorted(self.tokens), dtype=torch.long)

    def words(self, token_ids: Sequence[int]) -> frozenset[str]:
        """The words of tokens that say something. Of what cannot be read none: nobody is told."""
        try:
            return content_words(self._decode(token_ids))
        except Exception:
            return frozenset()

    def at(self, said: Continuation, known: Set[str] = frozenset()) -> int | None:
        """Number of tokens of the sentence; None where its end is not reached.

        Args:
            said: What an expert says, as far as it is known.
            known: Words that are no news: those of the question.
        """
        return next((at for at in range(len(said.tokens)) if self._ends(said, at, known)), None)

    def _ends(self, said: Continuation, at: int, known: Set[str]) -> bool:
        token = said.tokens[at]
        if token in self.marks and token not in self._final:
            # The mark belongs to the sentence where no space follows: "6.40".
            after = said.tokens[at + 1 : at + 2]
            if not after or after[0] in self._final:
                return bool(after)
            return self._spaced(after[0]) and self._ends_between(said.tokens, at + 1)
        if token in self.tokens:
            return True
        if at == 0 or not said.ends or said.ends[at] + NEARLY < said.log_probs[at]:
            return False
        if not self.words(said.tokens[:at]) - known:
            return False
        return self._spaced(token) and not self._leads_on(said.tokens[:at])

    def _ends_between(self, tokens: Sequence[int], at: int) -> bool:
        before = self._text(tokens[:at])
        return before is None or ends_sentence(before, self._text(tokens[at:]) or "")

    def _leads_on(self, tokens: Sequence[int]) -> bool:
        """True of words that nothing ends with: "on", "per", "the"; "21" is that of "21. May"."""
        words = (self._text(tokens) or "").casefold().split()
        if not words:
            return False
        ordinal = words[-1].isdigit() and len(words[-1]) <= _DAY
        return ordinal or any(one.leads_on(words[-1]) for one in languages())

    def _text(self, tokens: Sequence[int]) -> str | None:
        """What tokens say; None of what cannot be read. Nobody is told."""
        try:
            return self._decode(tokens)
        except Exception:
            return None

    def _spaced(self, token: int) -> bool:
        return self._decode([token])[:1].isspace()

    def _beginning_with(self, *starts: str) -> frozenset[int]:
        return frozenset(id for text, id in self._vocabulary.items() if text.startswith(starts))
