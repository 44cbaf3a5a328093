"""Small models of random shapes: one or two key heads, experts, sinks, soft caps, windows."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from dpicl_rag.language_models.transformers import TransformersModel
from tests.support.row_identity import Tokens, difference, random_tokens
from tests.support.tiny_model import build_tiny_tokenizer

KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {"sliding_window": 48},
    "gemma2": {
        "sliding_window": 48,
        "attn_logit_softcapping": 5.0,
        "final_logit_softcapping": 3.0,
        "query_pre_attn_scalar": 32,
    },
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 48,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
    },
}

# Of all public widths, up to those that few documents have.
_LENGTHS = (5, 70, 140, 280, 700)
_PREFIX, _QUESTION = 12, 9


def build_random_model(
    draw: random.Random, dtype: torch.dtype, *, kind: str | None = None, widest: int = 256
) -> tuple[str, TransformersModel]:
    """A model of one or two key heads.

    Args:
        draw: Chooses its shape.
        dtype: Of its weights.
        kind: A key of ``KINDS``; by default any.
        widest: Largest hidden width.

    Returns:
        What it is, and the model.
    """
    kind = kind or draw.choice(list(KINDS))
    tokenizer = build_tiny_tokenizer(chat=False)
    key_heads, group = draw.choice([1, 1, 2]), draw.choice([1, 2, 3, 4, 8])
    heads = key_heads * group
    widths = [width for width in (32, 48, 64, 96, 160, 256, 576, 1024, 2048) if width <= widest]
    whole = math.lcm(heads, 16)  # kernels of transformers ask for it
    hidden = -(-draw.choice(widths) // whole) * whole
    shape = {
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": key_heads,
        "head_dim": draw.choice([8, 16, 32, 64, 80, 128, 160, 256]),
    }
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.eos_token_id)
    given = {"vocab_size": len(tokenizer), "max_position_embeddings": 1024, **ends}
    config = AutoConfig.for_model(kind, **given, **shape, **KINDS[kind])
    with torch.random.fork_rng():
        torch.manual_seed(draw.randrange(1 << 30))
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=dtype)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() >= 2:
                    weight.normal_(std=2 / weight.shape[-1] ** 0.5)
    return f"{kind} {shape}", TransformersModel(model.eval(), tokenizer)


def moved_by_company(model: TransformersModel, draw: random.Random) -> float:
    """How far a row moves when one more joins it in its group: 0.0 where every bit is the same."""
    prefix, public = random_tokens(draw, _PREFIX), random_tokens(draw, 3)
    blocks = [random_tokens(draw, count) for count in (_QUESTION, 1, 1)]

    def steps(inputs: list[Tokens]) -> list[torch.Tensor]:
        rows = model.read(prefix, [public, *inputs], room=20)
        found = [rows.extend(block) for block in blocks]
        found += rows.extend_each(random_tokens(random.Random(0), 4), keep=4)
        return [step.rows for step in found]

    largest = 0.0
    for length in _LENGTHS:
        own, other = random_tokens(draw, length), random_tokens(draw, length + 1)
        for one, joined in zip(steps([own]), steps([other, own, (7,)]), strict=True):
            largest = max(largest, difference(joined[2], one[1]), difference(joined[0], one[0]))
    return largest
