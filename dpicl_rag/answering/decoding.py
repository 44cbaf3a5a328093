"""The private loop: read, draw, release, token by token. It asks for no question."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache, partial
from itertools import takewhile
from typing import Protocol

from dpicl_rag.answering.experts import Experts
from dpicl_rag.answering.prompt_rows import read, read_public_row
from dpicl_rag.answering.support import Naming, Support
from dpicl_rag.answering.whole_answers import SentenceVotes, WholeAnswer
from dpicl_rag.errors import EngineUnavailableError
from dpicl_rag.language_models.base import (
    BlockRows,
    GrowingRows,
    Input,
    LanguageModel,
    Progress,
    Rows,
)
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.prompts import Prompt


def generate(
    model: LanguageModel,
    prompt: Prompt,
    experts: Experts[Mechanism],
    randomness: Randomness,
    *,
    max_tokens: int,
    block_tokens: int = 0,
    support: Support | None = None,
    whole: WholeAnswer | None = None,
    votes: Callable[[Callable[[], Rows]], SentenceVotes] | None = None,
    naming: Naming | None = None,
    informed: Input | None = None,
    on_progress: Progress | None = None,
) -> Generator[int, None, None]:
    """Read with experts and draw a text from it: what answers and synthesis share.

    Args:
        model: Reads documents.
        prompt: Public text before and after the document.
        experts: The experts, how strong they are, and how they pay.
        randomness: Where the coins come from.
        max_tokens: Most tokens drawn.
        block_tokens: Most tokens proposed to the experts at once; 0 proposes none.
        support: Records every token that is drawn; its proposal is put to the documents first.
        whole: Asks experts for whole sentences before a token is drawn.
        votes: Of experts for sentences, from what reads their rows once; needed for them.
        naming: Which experts name what is proposed, see `Support.confirms`.
        informed: What the public row reads, see `read`.
        on_progress: Called with the part of the documents that is read, 0 to 1.

    Raises:
        EngineUnavailableError: The engine does not answer. What was yielded is paid for, and
            nothing else is.
        ModelError: There is not enough memory.
    """
    proposal = None if support is None else support.proposal
    longer = 0 if proposal is None else max(0, len(proposal.suffix) - len(prompt.suffix))
    reading = partial(read, model, prompt, room=max_tokens + longer, informed=informed)
    with enough_memory():
        rows_of, draft = cache(partial(reading, experts.inputs, on_progress=on_progress)), None
        if whole is None or not whole.only_agreement:
            rows_of()  # an engine that is gone is so before a count is paid for
        if support is not None and proposal is not None and support.confirms(rows_of(), naming):
            yield from proposal.tokens
            return
        if whole is not None and votes is not None:
            yield from whole.speak(votes(rows_of), model.tokenizer)
            if whole.agreed or whole.only_agreement:
                yield from sorted(model.tokenizer.stop_tokens)[:1]
                return
        if block_tokens:
            public = read_public_row(model, prompt, room=max_tokens, informed=informed)
            draft = GreedyDraft(public, block_tokens) if isinstance(public, BlockRows) else None
        yield from decode(
            rows=rows_of(),
            suffix=prompt.suffix,
            mechanism=experts.mechanism,
            spend=experts.spend,
            randomness=randomness,
            max_tokens=max_tokens,
            stop_tokens=model.tokenizer.stop_tokens,
            draft=draft,
            support=support,
        )


def decode(
    rows: GrowingRows,
    suffix: Sequence[int],
    mechanism: Mechanism,
    spend: PrivacyFilter,
    randomness: Randomness,
    *,
    max_tokens: int,
    stop_tokens: frozenset[int],
    draft: Draft | None = None,
    support: Support | None = None,
) -> Iterator[int]:
    """Draw tokens until a stop token (yielded too), ``max_tokens``, or the budget's end.

    A token is yielded only after it was paid for, durably where there is a ledger.

    With a draft, experts read a block of proposed tokens in one pass, and the block is walked
    with the mechanism of the plain loop: draw the next token; where it is the proposed one, the
    experts have read on already and the walk goes on; where it is not, the rest of the block is
    forgotten. The released tokens have the distribution of the plain loop. Proof: let ``q(. | y)``
    be the mechanism's distribution after the released tokens ``y``. A row's scores at a place
    depend on the tokens before it alone, and the walk reaches a place only if the tokens before it
    are the released ones, so each draw is from ``q(. | y)``, with fresh randomness. The proposal
    is a function of public text and ``y`` and only decides whether the scores of the next place
    are there already or are computed next. Hence the probability of ``y_1 ... y_T`` is the product
    of ``q(y_t | y_1 ... y_t-1)`` in both. Payment is per draw, so the charge is the same too; what
    was computed and not reached is never looked at.

    Args:
        rows: The public row and the experts.
        suffix: Tokens between the documents and the answer.
        mechanism: Draws each token.
        spend: Pays for each draw.
        randomness: Where the coins come from.
        max_tokens: Most tokens.
        stop_tokens: Tokens that end the answer.
        draft: Proposes blocks; the rows must be ``BlockRows``.
        support: Records every token, and the step it was drawn from.
    """
    pending: Sequence[int] = suffix
    released: list[int] = []
    while len(released) < max_tokens and spend.can_pay():
        block: list[int] = []
        if draft is not None:
            block = draft.propose((*suffix, *released), max_tokens - len(released) - 1)
        for at, step in enumerate(_steps(rows, pending, block)):
            if at > 0 and not spend.can_pay():
                return
            token = mechanism.draw(step, spend, randomness)
            released.append(token)
            if support is not None:
                try:
                    support.record(step, token)
                except EngineUnavailableError:
                    yield token  # it is paid for
                    raise
            yield token
            if token in stop_tokens:
                return
            if at < len(block) and token != block[at]:
                assert isinstance(rows, BlockRows)
                rows.rewind(len(block) - at)
                break
            del step  # with many experts it is large beside the next one
        pending = (released[-1],)


def _steps(rows: GrowingRows, pending: Sequence[int], block: Sequence[int]) -> Iterator[Step]:
    """Steps after ``pending``, and after each token of a block behind it."""
    if not block:
        yield rows.extend(pending)
        return
    assert isinstance(rows, BlockRows)
    yield from rows.extend_each((*pending, *block), len(block) + 1)


class Draft(Protocol):
    """Guesses how an answer goes on. It must not know anything private."""

    def propose(self, tokens: Sequence[int], most: int) -> list[int]:
        """Tokens that may come next; none is a good guess too.

        Args:
            tokens: Everything behind the public document: suffix, then released tokens.
            most: Most tokens proposed.
        """
        ...


class GreedyDraft:
    """The likeliest tokens of the public row, for as long as they are likely enough.

    The block's length follows the public model's confidence: it ends where the probability of the
    whole block, by the public model, falls below ``confidence``. Under ``p_0^g`` as the base
    measure a token that the public model is sure of is nearly always drawn.

    Args:
        rows: The public row without any expert.
        block_tokens: Most tokens of a block.
        confidence: Least public probability of a block.
    """

    def __init__(self, rows: BlockRows, block_tokens: int, confidence: float = 0.5) -> None:
        self._rows = rows
        self._block_tokens = block_tokens
        self._confidence = confidence
        self._read: list[int] = []

    def propose(self, tokens: Sequence[int], most: int) -> list[int]:
        """Tokens that may come next, as ``Draft.propose`` has them."""
        # The last token is always read anew, for what follows it.
        pairs = zip(self._read, tokens[:-1], strict=False)
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if known < len(self._read):
            self._rows.rewind(len(self._read) - known)
            del self._read[known:]
        step: Sequence[int] = tokens[known:]
        block: list[int] = []
        sure = 0.0
        while len(block) < min(most, self._block_tokens):
            log_prob, token = self._rows.extend(step).public.max(dim=-1)
            self._read += step
            sure += float(log_prob)
            if sure < math.log(self._confidence):
                break
            block.append(int(token))
            step = block[-1:]
        return block
