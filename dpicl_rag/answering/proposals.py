"""An answer that public knowledge proposes and the documents confirm.

Where the public row has read an answer that was released before, it may know this one by itself.
So it is asked first, alone and free of charge. The documents then read its answer in one pass, and
one noisy count says whether most of them support it. That count is all that the answer costs; where
it falls short, tokens are drawn as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dpicl_rag.answering.privacy_filters import Filter
from dpicl_rag.answering.prompt_rows import bare_log_probs, read
from dpicl_rag.answering.support import Support, Witness, speaks_against
from dpicl_rag.language_models.base import BlockRows, Input, LanguageModel
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.prompts import Prompt
from dpicl_rag.retrieval.count import NoisyCount

_MOST = 0.5  # of the units found must support a proposal, as far as their number is known
_PLACES = 16  # are read at once: what many experts say at many places is large


@dataclass(frozen=True, slots=True)
class Proposal:
    """A whole answer of the public row. Public.

    Attributes:
        tokens: Its tokens, with the one that ends it.
        bare: Log-probability of each to the public row that reads no knowledge: support is what
            documents add to that.
    """

    tokens: tuple[int, ...]
    bare: tuple[float, ...]


def propose(
    model: LanguageModel,
    informed_model: LanguageModel,
    prompt: Prompt,
    informed: Input,
    *,
    max_tokens: int,
    stop: Sequence[str],
) -> Proposal | None:
    """The likeliest answer of the public row; None where it does not end, or says nothing.

    Args:
        model: Reads no knowledge.
        informed_model: The same model, as it reads public knowledge.
        prompt: Public text before and after it.
        informed: The knowledge.
        max_tokens: Most tokens.
        stop: Strings that end an answer too.
    """
    tokens = _likeliest(informed_model, prompt, informed, max_tokens, stop)
    if not tokens:
        return None
    return Proposal(tokens, tuple(bare_log_probs(model, prompt, tokens)))


@enough_memory()
def _likeliest(
    model: LanguageModel, prompt: Prompt, informed: Input, max_tokens: int, stop: Sequence[str]
) -> tuple[int, ...]:
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


class Consent:
    """Asks the documents whether they confirm a proposal, once.

    Args:
        proposal: What is proposed.
        suffix: Tokens between the documents and the answer.
        support: The count, at its highest price.
        found: Released number of units that were found, if any.
        spend: Pays for the count.
        randomness: Where its noise comes from.
    """

    def __init__(
        self,
        proposal: Proposal,
        suffix: Sequence[int],
        support: Support,
        found: NoisyCount | None,
        spend: Filter,
        randomness: Randomness,
    ) -> None:
        self.proposal = proposal
        self.given = False
        self._suffix = suffix
        # Those who support something else may be many too.
        self._line = 2 * support.line if found is None else _MOST * found.low
        self._support = support if found is None else support.up_to(self._line)
        self._spend = spend
        self._randomness = randomness

    def __repr__(self) -> str:
        return "Consent()"

    def ask(self, rows: BlockRows) -> bool:
        """Whether the documents confirm it; if not, rows stand where they stood before.

        Args:
            rows: The public row and the experts, nothing appended yet.
        """
        agreeing = self._agreeing(rows)
        spend, randomness = self._spend, self._randomness
        self.given = self._support.decide(agreeing, spend, randomness, line=self._line)
        if not self.given:
            rows.rewind(len(self._suffix) + len(self.proposal.tokens) - 1)
        return self.given

    def _agreeing(self, rows: BlockRows) -> torch.Tensor:
        """Experts that support every word of it: bool [n]."""
        tokens, bare = self.proposal.tokens, self.proposal.bare
        witness, against = Witness(), torch.zeros(1, dtype=torch.bool)
        for start in range(0, len(tokens), _PLACES):
            places = range(start, min(start + _PLACES, len(tokens)))
            before = self._suffix if start == 0 else tokens[start - 1 : start]
            steps = rows.extend_each((*before, *tokens[start : places[-1]]), len(places))
            for step, at in zip(steps, places, strict=True):
                witness.hear(step, tokens[at])
                # Where an answer ends is no matter of fact.
                if at + 1 < len(tokens):
                    against = against | speaks_against(step, tokens[at], bare[at])
        return witness.agreeing(sum(bare)) & ~against
