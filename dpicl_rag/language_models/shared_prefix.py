"""Attention over tokens that every row begins with, kept once, and over each row's own tokens.

A prompt's public part is the same in every row. Repeating its keys and values would cost memory
and time in each row; here all rows read one copy (Juravsky et al. 2024, "Hydragen"). The result is
ordinary attention over ``shared | own``: one softmax over both parts.

Many tokens a row spend their time on their own products, which torch's fused attention does
better; there the copy is made, layer by layer, and forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dpicl_rag.language_models.key_value_cache import Layers

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IMPLEMENTATION = "dpicl_rag_shared_prefix"
"""Name under which transformers finds the attention below."""

# Tokens of a row from which the copy costs less than it gains.
_WIDE = 64


class SharedPrefix:
    """Keys and values of the shared tokens.

    Attributes:
        layers: Per layer keys and values, each [heads, shared tokens, head size].
        reads: How often attention has read it; tells whether a model hands it on to its layers.
    """

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self.reads = 0


def install(model: PreTrainedModel) -> bool:
    """Give a model this attention. Without a shared prefix it stays the one of torch (SDPA).

    Returns:
        Whether the model can take it.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    if model.config._attn_implementation == IMPLEMENTATION:
        return True
    if model.config._attn_implementation != "sdpa":
        return False
    AttentionMaskInterface.register(IMPLEMENTATION, _mask)
    AttentionInterface.register(IMPLEMENTATION, attention)
    model.set_attn_implementation(IMPLEMENTATION)
    return bool(model.config._attn_implementation == IMPLEMENTATION)


def _mask(*sizes: Any, **options: Any) -> torch.Tensor | None:
    """The mask of torch's attention, always written out.

    None may stand for "causal" there, which says nothing about two parts.
    """
    from transformers.masking_utils import sdpa_mask

    mask: torch.Tensor | None = sdpa_mask(*sizes, **{**options, "allow_is_causal_skip": False})
    return mask


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    shared_prefix: SharedPrefix | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention in the signature of transformers.

    Args:
        module: The attention layer.
        query: [rows, query heads, width, head size].
        key: Own keys [rows, heads, slots, head size].
        value: Own values, the same shape.
        attention_mask: True where a query may look, [rows, 1, width, slots], or None for all.
        scaling: Factor on the products; the usual one by default.
        shared_prefix: What all rows begin with.
        **options: Handed to torch's attention where there is no shared prefix.

    Returns:
        [rows, width, query heads, head size], and None in place of weights.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    rows, heads, width, size = query.shape
    if shared_prefix is not None:
        shared_prefix.reads += 1
        layer = shared_prefix.layers[int(module.layer_idx)]  # type: ignore[arg-type]
        if width < _WIDE:
            scale = size**-0.5 if scaling is None else scaling
            # Query heads that share a key head stand beside each other: they fold into its width.
            folded = (query * scale).reshape(rows, key.shape[1], -1, size)
            output = _attend(folded, key, value, attention_mask, *layer)
            return output.view(rows, heads, width, size).transpose(1, 2).contiguous(), None
        shared = layer[0].shape[1]
        key, value = (
            torch.cat([one.expand(rows, -1, -1, -1), own], dim=2)
            for one, own in zip(layer, (key, value), strict=True)
        )
        if attention_mask is not None:
            attention_mask = torch.nn.functional.pad(attention_mask, (shared, 0), value=True)
        options["is_causal"] = False
    found: tuple[torch.Tensor, None] = sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, **options
    )
    return found


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    shared_key: torch.Tensor,
    shared_value: torch.Tensor,
) -> torch.Tensor:
    """One softmax over both parts.

    Args:
        query: [rows, heads, group * width, head size], scaled.
        key: [rows, heads, slots, head size].
        value: As ``key``.
        mask: [rows, 1, width, slots] or None.
        shared_key: [heads, shared, head size].
        shared_value: As ``shared_key``.

    Returns:
        [rows, heads, group * width, head size].
    """
    rows, heads, folded, size = query.shape
    shared = shared_key.shape[1]
    scores = query.new_empty(rows, heads, folded, shared + key.shape[2])
    # All rows meet the shared keys in one product.
    flat = query.transpose(0, 1).reshape(heads, rows * folded, size)
    scores[..., :shared] = (
        (flat @ shared_key.transpose(1, 2)).view(heads, rows, folded, shared).transpose(0, 1)
    )
    own = query @ key.transpose(2, 3)
    if mask is not None:
        width = mask.shape[2]
        by_query = own.view(rows, heads, folded // width, width, -1)
        by_query.masked_fill_(~mask[:, :, None], -torch.inf)
    scores[..., shared:] = own
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    output = weights[..., shared:] @ value
    flat = weights[..., :shared].transpose(0, 1).reshape(heads, rows * folded, shared)
    output += (flat @ shared_value).view(heads, rows, folded, size).transpose(0, 1)
    return output
