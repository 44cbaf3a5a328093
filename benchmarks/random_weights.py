"""Random weights in 16 bits of the shapes of named models, made on the device: no download."""

from __future__ import annotations

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from dpicl_rag.language_models.transformers import TransformersModel

# Of Qwen/Qwen2.5-1.5B-Instruct and Qwen/Qwen2.5-7B-Instruct, which `small` and `large` name.
SHAPES: dict[str, dict[str, int | bool]] = {
    "tiny": {
        "vocab_size": 320,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "small": {
        "vocab_size": 151_936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "large": {
        "vocab_size": 152_064,
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
    },
}


def random_model(shape: str, device: torch.device) -> TransformersModel:
    """A model of a shape that has learnt nothing; its documents are kept nowhere."""
    config = transformers.Qwen2Config(**SHAPES[shape], max_position_embeddings=32_768)
    with torch.random.fork_rng([]), device:
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return TransformersModel(model, byte_tokenizer())


def byte_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """One token per byte, and an end token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: place for place, symbol in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    end = "<|end|>"
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end)
