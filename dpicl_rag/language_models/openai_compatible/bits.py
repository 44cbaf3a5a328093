"""A test on random tokens that a server's answer to a prompt follows from the prompt alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from dpicl_rag.language_models.openai_compatible.completions import Shown, Tokens

Ask = Callable[[Sequence[Tokens], str], list[Shown]]
"""From prompts, and a name for the server's cache, to the tokens shown after each."""

MOVES = (
    "what the server says of a prompt moves with what else it computes: a row is then no function "
    "of one document, and the guarantee does not hold; start vLLM with VLLM_BATCH_INVARIANT=1, or "
    "serve the model in float32 (docs/engines.md)"
)

_CROWDS = (8, 64)
_LENGTH = 70  # spans several blocks of a server's cache, and a part of one


def rows_are_their_own(ask: Ask, vocabulary: int) -> bool:
    """Whether a prompt is answered alike, bit by bit: alone and in company, cold and warm.

    Args:
        ask: Asks the server.
        vocabulary: Token ids lie below it.
    """
    coins = random.Random(0)  # noqa: S311

    def prompt(length: int) -> Tokens:
        return tuple(coins.randrange(vocabulary) for _ in range(length))

    known = prompt(_LENGTH)
    [alone] = ask([known], "alone")
    if not alone or ask([known], "alone") != [alone]:
        return False
    for crowd in _CROWDS:
        place = crowd // 2
        others = [prompt(coins.randint(2, 40)) for _ in range(crowd - 1)]
        # One that begins as it does, for what caches share.
        others[0] = known[: _LENGTH - 6] + prompt(3)
        prompts = [*others[:place], known, *others[place:]]
        for name in (f"among {crowd}", f"among {crowd}", "alone"):
            if ask(prompts, name)[place] != alone:
                return False
    return True
