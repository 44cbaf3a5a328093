"""Made-up language models that say the worst, so that a charge is used to its last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from dpicl_rag.auditing.neighbours import NeighbourAudit, audit_neighbours
from dpicl_rag.auditing.subject import Subject
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import Input, Progress
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.step import DenseStep, Step

Speech = Callable[[str, tuple[int, ...]], Sequence[float]]
"""From a document's text and the released tokens to unnormalised log-probabilities."""

# Enough for a unit under individual accounting to run out of budget with the default strength.
_TOKENS = 16
_EXPANSIONS = 64
_VOCABULARY = 32


class SyntheticModel:
    """A language model whose rows are a function of the document and the released tokens.

    Args:
        size: Number of tokens that can be drawn.
        speech: What each document says about each of them.
        stop_tokens: Tokens that end an answer.
    """

    fingerprint = "synthetic"
    context_length = 1 << 20
    speaks = True

    def __init__(
        self, size: int, speech: Speech, stop_tokens: frozenset[int] = frozenset()
    ) -> None:
        self.size = size
        self.tokenizer = SyntheticTokenizer(stop_tokens)
        self._speech = speech

    def digest(self, passages: Sequence[str], most: int) -> str:
        """The passages' text, cut to ``most`` characters."""
        return "\n\n".join(passages)[:most]

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> SyntheticRows:
        """One row per text."""
        return SyntheticRows([str(text) for text in inputs], self._speech)


class SyntheticTokenizer:
    """Tokens are bytes of the text where they are read, and numbers from 0 where they are drawn."""

    start_tokens = ()

    def __init__(self, stop_tokens: frozenset[int]) -> None:
        self.stop_tokens = stop_tokens

    def encode(self, text: str) -> list[int]:
        """Bytes of ``text``."""
        return list(text.encode())

    encode_template = encode

    def decode(self, token_ids: Sequence[int]) -> str:
        """Letters, from ``a`` on."""
        return "".join(chr(ord("a") + token) for token in token_ids)

    def chat(self, messages: Sequence[dict[str, str]]) -> str | None:
        """No chat template."""
        return None


class SyntheticRows:
    """Rows of a ``SyntheticModel``; the first call of ``extend`` brings the question."""

    def __init__(self, texts: list[str], speech: Speech) -> None:
        self._texts = texts
        self._speech = speech
        self._history: tuple[int, ...] | None = None

    def extend(self, token_ids: Sequence[int]) -> Step:
        """Log-probabilities of the next token, in float32."""
        self._history = () if self._history is None else (*self._history, *token_ids)
        said = self._say(self._history)
        return DenseStep(said[0], said[1:])

    def extend_each(self, token_ids: Sequence[int], keep: int) -> list[Step]:
        """A step after each of the last ``keep`` tokens; of a first call what is before is text."""
        read_on = len(token_ids) - keep + 1
        steps = [self.extend(token_ids[:read_on])]
        return [*steps, *(self.extend([token]) for token in token_ids[read_on:])]

    def rewind(self, tokens: int) -> None:
        """Forget tokens; more than were drawn are the question too."""
        drawn = self._history or ()
        self._history = drawn[: len(drawn) - tokens] if tokens <= len(drawn) else None

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Log-probabilities of labels, normalised over them."""
        # Labels are single letters, as in decode; what stands before one says nothing.
        said = self._say(())[:, [ids[-1] - ord("a") for ids in continuations]]
        said = torch.log_softmax(said.double(), dim=-1)
        return DenseStep(said[0], said[1:])

    def continue_each(
        self, token_ids: Sequence[int], most: int, asked: Sequence[bool]
    ) -> list[Continuation]:
        """Sentences of texts by themselves after what was said to all; see ``SpeakingRows``."""
        before = () if self._history is None else (*self._history, *token_ids)
        each = zip(self._texts[1:], asked, strict=True)
        return [self._go_on(text, before, most if one else 0) for text, one in each]

    def _go_on(self, text: str, before: tuple[int, ...], most: int) -> Continuation:
        said, likely = before, []
        for _ in range(most):
            row = torch.log_softmax(torch.tensor(self._speech(text, said)).float(), dim=-1)
            log_prob, token = row.max(dim=-1)
            likely.append(float(log_prob))
            said = (*said, int(token))
        return Continuation(said[len(before) :], tuple(likely))

    def _say(self, history: tuple[int, ...]) -> torch.Tensor:
        rows = [list(self._speech(text, history)) for text in self._texts]
        return torch.log_softmax(torch.tensor(rows, dtype=torch.float32), dim=-1)


def worst_speech(size: int) -> Speech:
    """Documents that push an answer as far as one expert can.

    ``token N`` is sure of token N; ``turn N`` of token N at the start, then of the next one, and so
    on. Every other document, and the public row, finds all tokens about equally likely. A group
    says what its last passage says, so a newcomer turns it over.

    Args:
        size: Number of tokens.
    """

    def speech(text: str, history: tuple[int, ...]) -> Sequence[float]:
        name, _, number = text.rpartition("\n")[2].partition(" ")
        if name not in ("token", "turn"):
            # Falling a little, so that the likeliest k are the first k.
            return [-1e-3 * token for token in range(size)]
        sure = (int(number) + (len(history) if name == "turn" else 0)) % size
        return [0.0 if token == sure else -40.0 for token in range(size)]

    return speech


def audit_synthetic(subject: Subject, *, on_progress: Progress | None = None) -> NeighbourAudit:
    """The exact audit with the same settings and experts that use their charge to the last bit.

    Searches pairs of neighbours among corpora of such experts. Documents on disk hardly ever come
    near the worst case, so this is where a wrong factor shows.

    Args:
        subject: Its settings, its class and the number of its labels are used.
        on_progress: Called with the part that is done.

    Raises:
        ConfigurationError: As the private path raises.
    """
    size = len(subject.labels) or _VOCABULARY
    made_up = replace(
        subject,
        model=SyntheticModel(size, worst_speech(size)),
        labels=tuple(chr(ord("a") + at) for at in range(len(subject.labels))),
        pipeline=list,
    )
    palette = ("token 0", "token 1", "turn 1", "even")
    around = [Document(name, f"unit-{at}") for at, name in enumerate(("token 1", "even"))]
    return audit_neighbours(
        made_up,
        around,
        tokens=_TOKENS,
        additions=palette,
        expansions=_EXPANSIONS,
        on_progress=on_progress,
    )
