"""A model small enough to enumerate: random weights, one token per byte."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dpicl_rag.language_models.transformers import TransformersModel

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_tiny_tokenizer(chat: bool = True) -> PreTrainedTokenizerFast:
    """One token per byte, an end token, and control tokens for the roles."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: index for index, symbol in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    roles = ["<|system|>", "<|user|>", "<|assistant|>"]
    fast.add_special_tokens({"additional_special_tokens": roles})
    if chat:
        fast.chat_template = CHAT_TEMPLATE
    return fast


def build_tiny_model(
    chat: bool = True, seed: int = 0, scale: float = 8.0, **overrides: object
) -> TransformersModel:
    """A random Llama whose predictions depend on its input.

    Args:
        chat: Whether the tokenizer has a chat template.
        seed: Seed of the weights.
        scale: Factor on the output weights; larger is more decided.
        **overrides: Fields of ``LlamaConfig``.
    """
    tokenizer = build_tiny_tokenizer(chat)
    settings: dict[str, object] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": None,
        "pad_token_id": tokenizer.eos_token_id,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(LlamaConfig(**{**settings, **overrides}))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and "embed" not in name:
                weight.mul_(scale if "lm_head" in name else 3.0)
    return TransformersModel(model, tokenizer)


def save_tiny_model(folder: Path, seed: int = 1, **overrides: object) -> Path:
    """Write another such model as Hugging Face folders have one; see `build_tiny_model`."""
    model = build_tiny_model(seed=seed, **overrides)
    model._model.save_pretrained(folder)
    build_tiny_tokenizer().save_pretrained(folder)
    return folder
