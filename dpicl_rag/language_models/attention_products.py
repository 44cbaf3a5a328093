"""Products of attention, in shapes that follow from a row's own document and public numbers."""

from __future__ import annotations

from typing import Any

import torch

# Kernels for few multiplications, which some processors have in 16 bits, are never asked.
_FEWEST_MULTIPLICATIONS = 1 << 13


def one_document(
    module: torch.nn.Module,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    options: dict[str, Any],
) -> torch.Tensor:
    """[1, length, query heads, head size]."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if options.get("softcap") is None and options.get("s_aux") is None:
        scaling = options.get("scaling")
        found: torch.Tensor = sdpa_attention_forward(
            module, query, keys, values, mask, scaling=scaling, is_causal=False
        )[0]
        return found
    folded = fold(query, keys.shape[1], options)  # torch's attention knows neither of the two
    output = weights_of(folded @ keys.transpose(2, 3), mask, options) @ values
    return output.view(1, query.shape[1], query.shape[2], -1).transpose(1, 2)


def fold(query: torch.Tensor, heads: int, options: dict[str, Any]) -> torch.Tensor:
    """Scaled queries [rows, heads, group * width, head size].

    Query heads that share a key head stand beside each other: they fold into its width.
    """
    scaling = options.get("scaling")
    scale: float = query.shape[-1] ** -0.5 if scaling is None else scaling
    return (query * scale).reshape(len(query), heads, -1, query.shape[-1])


def weights_of(
    scores: torch.Tensor, mask: torch.Tensor | None, options: dict[str, Any]
) -> torch.Tensor:
    """One softmax over everything a query may see.

    Args:
        scores: [rows, heads, group * width, slots].
        mask: True where a query may look [rows, 1, width, slots]; None for everywhere.
        options: ``softcap`` of Gemma 2 and ``s_aux`` (sinks) of gpt-oss count.
    """
    rows, heads, folded, slots = scores.shape
    width = 1 if mask is None else mask.shape[2]
    if options.get("softcap") is not None:
        scores = torch.tanh(scores / options["softcap"]) * options["softcap"]
    by_query = scores.view(rows, heads, folded // width, width, slots)
    if mask is not None:
        by_query.masked_fill_(~mask[:, :, None], -torch.inf)
    sinks = options.get("s_aux")
    if sinks is not None:
        column = sinks.view(1, heads, -1, 1, 1).to(scores.dtype)
        column = column.expand(rows, heads, folded // width, width, 1)
        by_query = torch.cat([by_query, column], dim=-1)
    weights = torch.softmax(by_query, dim=-1, dtype=torch.float32).to(scores.dtype)
    return weights[..., :slots].reshape(scores.shape)


def fewest_rows(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> int:
    """Rows from which on how many there are decides no bit.

    Seen in products of random shapes: one matrix is multiplied by itself, and fewer than there are
    threads are divided among these.

    Args:
        queries: [rows, heads, folded width, head size].
        keys: [rows, heads, slots, head size].
        values: The same, maybe of another head size.
    """
    _, heads, width, _ = queries.shape
    slots, size = keys.shape[2], min(keys.shape[3], values.shape[3])
    least = max(2, torch.get_num_threads(), -(-_FEWEST_MULTIPLICATIONS // (width * slots * size)))
    return -(-least // heads)


def filled(count: int, rows: torch.Tensor) -> torch.Tensor:
    """At least ``count`` rows: the first one again for those that are missing."""
    if len(rows) >= count:
        return rows
    return torch.cat([rows, rows[:1].expand(count - len(rows), *rows.shape[1:])])


def in_tiles(rows: torch.Tensor, shared: torch.Tensor, size: int) -> torch.Tensor:
    """Products of all rows with one matrix for each head, some rows at a time.

    Args:
        rows: [rows, heads, width, inner].
        shared: [heads, inner, outer].
        size: Rows of a product; public.

    Returns:
        [rows, heads, width, outer].
    """
    count, heads, width, inner = rows.shape
    tiles = -(-count * width // size)
    flat = rows.new_zeros(heads, tiles * size, inner)
    flat[:, : count * width] = rows.transpose(0, 1).reshape(heads, count * width, inner)
    found = torch.cat([tile @ shared for tile in torch.split(flat, size, dim=1)], dim=1)
    return found[:, : count * width].view(heads, count, width, -1).transpose(0, 1)
