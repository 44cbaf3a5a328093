"""Whether a model's rows are the same to the last bit in any company, and what they should be."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dpicl_rag.errors import ContextLengthError, ModelError
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from dpicl_rag.mechanisms.step import DenseStep
from tests.support.architectures import build_architecture

Tokens = tuple[int, ...]

# Around windows and chunks of 16, the 64 tokens at which longrope changes, and longer.
_LENGTHS = [1, 5, 16, 17, 31, 48, 65, 180]
_BYTES = 256
_HEAD = 12
_QUESTION = 9
_ROOM = 20
_ROUNDING = 1e-3  # of log-probabilities in float32, by another order of additions


def random_tokens(draw: random.Random, count: int) -> Tokens:
    """Random bytes as tokens."""
    return tuple(draw.randrange(_BYTES) for _ in range(count))


def steps_of(
    model: TransformersModel, head: Tokens, inputs: Sequence[Tokens], draw: random.Random
) -> list[DenseStep]:
    """Every kind of step: the question, tokens, blocks, a block partly forgotten, labels."""
    question, block = random_tokens(draw, _QUESTION), random_tokens(draw, 4)
    a, b, c, d, e, f = random_tokens(draw, 6)
    rows = model.read(head, inputs, room=_ROOM)
    found = [rows.extend(question), rows.extend([a]), rows.extend([b])]
    found += rows.extend_each(block, keep=4)
    rows.rewind(2)
    found += [rows.extend([c]), rows.score([[d], [e, f], [a, b, c]])]
    assert all(isinstance(step, DenseStep) for step in found)
    return found


def largest_difference(model: TransformersModel, rounds: int, seed: int) -> float:
    """How far a company moves any row: 0.0 where every bit is the same.

    Rows read beside one other, read without a cache, are compared with those beside random
    others: more, fewer, longer, in other places; without a cache, with one that is empty, with one
    that is filled by others.

    Raises:
        ModelError: The model refuses to read.
        ContextLengthError: As above.
    """
    draw = random.Random(seed)
    head, public = random_tokens(draw, _HEAD), random_tokens(draw, 3)
    most = model.context_length - _HEAD - _ROOM
    documents = [random_tokens(draw, length) for length in _LENGTHS if length <= most]

    def steps(inputs: Sequence[Tokens], model: TransformersModel) -> list[DenseStep]:
        return steps_of(model, head, inputs, random.Random(seed))

    alone = {own: steps([public, own], model) for own in documents}
    cached = model.with_cache(PrefixCache())
    largest = 0.0
    for _ in range(rounds):
        company = draw.sample(documents, draw.randint(1, len(documents)))
        company += draw.choices(documents, k=draw.choice([0, 5, 40]))
        draw.shuffle(company)
        for one in (model, cached, cached):
            for at, found in enumerate(steps([public, *company], one)):
                for row, own in enumerate(company):
                    pairs = [
                        (found.experts[row], alone[own][at].experts[0]),
                        (found.public, alone[own][at].public),
                    ]
                    largest = max([largest, *(difference(*pair) for pair in pairs)])
    return largest


def distance_from_transformers(model: TransformersModel, plain: PreTrainedModel) -> float:
    """How far rows lie from one pass of the untouched model over all of a row's tokens."""
    largest = 0.0
    most = model.context_length - _HEAD - _ROOM
    for length in (length for length in (5, 30, 40, 180) if length <= most):
        draw = random.Random(length)
        head, own, question = (random_tokens(draw, n) for n in (_HEAD, length, _QUESTION))
        with torch.inference_mode():
            logits = plain(torch.tensor([[*head, *own, *question]]), use_cache=False).logits[0, -1]
        found = model.read(head, [(1, 2, 3), own], room=_QUESTION).extend(question)
        assert isinstance(found, DenseStep)
        expected = torch.log_softmax(logits.float(), dim=-1)
        largest = max(largest, difference(found.experts[0], expected))
    return largest


def verdict(
    name: str, tokenizer: PreTrainedTokenizerBase, dtype: torch.dtype, rounds: int, seed: int
) -> str:
    """What becomes of an architecture.

    Returns:
        ``identical``, ``refused: `` and why, ``different by`` how much in company, or ``wrong by``
        how much in float32 against transformers.

    Raises:
        NotBuiltError: There is no such model.
    """
    plain = build_architecture(name, tokenizer, dtype, seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            model = TransformersModel(build_architecture(name, tokenizer, dtype, seed), tokenizer)
        largest = largest_difference(model, rounds, seed)
        if largest > 0:
            return f"different by {largest:.1e}"
        if dtype == torch.float32:
            largest = distance_from_transformers(model, plain)
            if largest > _ROUNDING:
                return f"wrong by {largest:.1e}"
    except (ModelError, ContextLengthError) as error:
        return f"refused: {error}"
    return "identical"


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """How far two rows are apart; 0.0 where every bit is the same."""
    if torch.equal(found, expected):
        return 0.0
    return float((found.double() - expected.double()).abs().nan_to_num(torch.inf).max())
