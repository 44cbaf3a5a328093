"""An answer that public knowledge proposes and the documents confirm.

Where the public row has read an answer that was released before, it may know this one by itself.
So it is asked first, alone and for nothing. The documents then read its answer in one pass, and one
noisy count says whether most of them support it. That count is all that the answer costs; where it
falls short, tokens are drawn as usual.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag.filters import Filter
from dpicl_rag.language_models.base import BlockRows, Input, LanguageModel
from dpicl_rag.language_models.memory import enough_memory
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import Prompt
from dpicl_rag.reading import bare_log_probs, read
from dpicl_rag.retrieval.count import NoisyCount
from dpicl_rag.support import Support, Witness, speaks_against

_MOST = 0.5  # of the units found must support a proposal, as far as their number is known


@enough_memory()
def propose(
    model: LanguageModel,
    prompt: Prompt,
    informed: Input,
    *,
    max_tokens: int,
    stop: Sequence[str],
) -> tuple[int, ...]:
    """The likeliest answer of the public row, with the token that ends it. Public.

    Args:
        model: Reads public knowledge.
        prompt: Public text before and after it.
        informed: The knowledge.
        max_tokens: Most tokens.
        stop: Strings that end an answer too.

    Returns:
        Token ids; none where the answer does not end, or says nothing.
    """
    rows = read(model, prompt, [], room=max_tokens, informed=informed)
    tokens: list[int] = []
    pending: Sequence[int] = prompt.suffix
    while len(tokens) < max_tokens:
        tokens.append(int(rows.extend(pending).public.argmax()))
        pending = tokens[-1:]
        text = model.tokenizer.decode([t for t in tokens if t not in model.tokenizer.stop_tokens])
        if tokens[-1] in model.tokenizer.stop_tokens or any(end in text for end in stop):
            return tuple(tokens) if text.strip() else ()
    return ()


class Proposal:
    """Asks the documents for their consent, once.

    Args:
        model: Reads the proposed tokens without any knowledge: support is what documents add.
        prompt: Public text before and after the document.
        tokens: What is proposed.
        support: The count, at its highest price.
        found: Released number of units that were found, if any.
        spend: Pays for the count.
        randomness: Where its noise comes from.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Prompt,
        tokens: Sequence[int],
        support: Support,
        found: NoisyCount | None,
        spend: Filter,
        randomness: Randomness,
    ) -> None:
        self.tokens = tuple(tokens)
        self.confirmed = False
        self._suffix = prompt.suffix
        self._bare = bare_log_probs(model, prompt, tokens)
        # Those who support something else may be many too.
        self._line = 2 * support.line if found is None else _MOST * found.low
        self._support = support if found is None else support.up_to(self._line)
        self._spend = spend
        self._randomness = randomness

    def __repr__(self) -> str:
        return "Proposal()"

    def ask(self, rows: BlockRows) -> bool:
        """Whether the documents confirm it. Rows that do not stand where they stood before.

        Args:
            rows: The public row and the experts, nothing appended yet.
        """
        read_ahead = (*self._suffix, *self.tokens[:-1])
        witness = Witness()
        steps = rows.extend_each(read_ahead, len(self.tokens))
        for step, token in zip(steps, self.tokens, strict=True):
            witness.hear(step, token)
        agreeing = witness.agreeing(sum(self._bare))
        # Where an answer ends is no matter of fact.
        for step, token, bare in list(zip(steps, self.tokens, self._bare, strict=True))[:-1]:
            agreeing &= ~speaks_against(step, token, bare)
        self.confirmed = self._support.decide(
            agreeing, self._spend, self._randomness, line=self._line
        )
        if not self.confirmed:
            rows.rewind(len(read_ahead))
        return self.confirmed
