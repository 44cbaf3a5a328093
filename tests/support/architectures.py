"""Tiny models with random weights of every kind of architecture that rows may be asked of."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

CONTEXT = 512
"""Most tokens of a row, wherever the configuration lets it be chosen."""

_MOST_PARAMETERS = 5_000_000
_NOT_SET: Any = object()
_ORIGINAL = 64  # documents and their questions lie on both sides of it
_HALF = 8  # half a head's size: so many rotary frequencies
_LONG = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "original_max_position_embeddings": _ORIGINAL,
    "short_factor": [1.0] * _HALF,
    "long_factor": [4.0] * _HALF,
}
_EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "decoder_sparse_step": 1,
}
_LATENT = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "num_key_value_heads": 4,
    "head_dim": _NOT_SET,
}
_PER_LAYER = {"vocab_size_per_layer_input": 260, "hidden_size_per_layer_input": 8}


def _rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10_000.0, **more}}


ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("llama", {}),
    "Llama, tied, one key head": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "Llama, a key head each": ("llama", {"num_key_value_heads": 4}),
    "Llama, linear rope": ("llama", _rope("linear", factor=4.0)),
    "Llama, YaRN": ("llama", _rope("yarn", factor=8.0, original_max_position_embeddings=_ORIGINAL)),
    "Llama, Llama 3 rope": (
        "llama",
        _rope(
            "llama3",
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=_ORIGINAL,
        ),
    ),
    "Llama, dynamic NTK": (
        "llama",
        _rope("dynamic", factor=4.0, original_max_position_embeddings=_ORIGINAL),
    ),
    "Llama, biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "Mistral, sliding": ("mistral", {"sliding_window": 16}),
    "Mistral, full": ("mistral", {"sliding_window": None}),
    "Mixtral": ("mixtral", {**_EXPERTS, "sliding_window": None}),
    "Gemma": ("gemma", {}),
    "Gemma 2, soft caps": (
        "gemma2",
        {"sliding_window": 16, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0},
    ),
    "Gemma 3": ("gemma3_text", {"sliding_window": 16, "num_hidden_layers": 6}),
    "Qwen2": ("qwen2", {}),
    "Qwen2, sliding": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
    ),
    "Qwen3": ("qwen3", {}),
    "Qwen2-MoE": ("qwen2_moe", {**_EXPERTS, "shared_expert_intermediate_size": 64}),
    "Qwen3-MoE": ("qwen3_moe", _EXPERTS),
    "OLMoE": ("olmoe", _EXPERTS),
    "gpt-oss, sinks": ("gpt_oss", {**_EXPERTS, "sliding_window": 16, **_rope("default")}),
    "Llama 4, chunked": (
        "llama4_text",
        {**_EXPERTS, "attention_chunk_size": 16, "intermediate_size_mlp": 128},
    ),
    "Phi-3": ("phi3", {"sliding_window": None}),
    "Phi-3, longrope": (
        "phi3",
        {
            "sliding_window": None,
            "original_max_position_embeddings": _ORIGINAL,
            "rope_parameters": _LONG,
        },
    ),
    "Phi": ("phi", {"partial_rotary_factor": 0.5}),
    "OLMo": ("olmo", {}),
    "OLMo 2": ("olmo2", {}),
    "OLMo 3": ("olmo3", {"sliding_window": 16, "num_hidden_layers": 4}),
    "Cohere": ("cohere", {}),
    "Cohere 2": ("cohere2", {"sliding_window": 16, "num_hidden_layers": 4}),
    "StableLM": ("stablelm", {"partial_rotary_factor": 0.5}),
    "StableLM, parallel": ("stablelm", {"use_parallel_residual": True, "qk_layernorm": True}),
    "Starcoder 2": ("starcoder2", {"sliding_window": None}),
    "Starcoder 2, sliding": ("starcoder2", {"sliding_window": 16}),
    "GPT-2": ("gpt2", {}),
    "GPT-Neo, local": (
        "gpt_neo",
        {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "window_size": 16},
    ),
    "GPT-J": ("gptj", {"rotary_dim": 8}),
    "GPT-NeoX": ("gpt_neox", {}),
    "GPT-NeoX, serial": ("gpt_neox", {"use_parallel_residual": False}),
    "GPT-BigCode": ("gpt_bigcode", {"multi_query": True}),
    "OPT": ("opt", {"ffn_dim": 128, "word_embed_proj_dim": 64}),
    "BioGPT": ("biogpt", {}),
    "XGLM": ("xglm", {"d_model": 64, "ffn_dim": 128, "attention_heads": 4, "num_layers": 2}),
    "Bloom, ALiBi": ("bloom", {}),
    "MPT, ALiBi": ("mpt", {"d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": CONTEXT}),
    "Falcon": ("falcon", {"alibi": False, "head_dim": _NOT_SET}),
    "Falcon, ALiBi": ("falcon", {"alibi": True, "head_dim": _NOT_SET}),
    "Falcon, new": (
        "falcon",
        {"new_decoder_architecture": True, "num_kv_heads": 2, "head_dim": _NOT_SET},
    ),
    "Granite": ("granite", {}),
    "Granite MoE": ("granitemoe", _EXPERTS),
    "SmolLM3": ("smollm3", {}),
    "GLM-4": ("glm4", {}),
    "EXAONE 4": ("exaone4", {"sliding_window": 16, "num_hidden_layers": 4}),
    "Nemotron": ("nemotron", {}),
    "DeepSeek V2": ("deepseek_v2", _LATENT),
    "DeepSeek V3": ("deepseek_v3", _LATENT),
    "MiniCPM 3": ("minicpm3", _LATENT),
    "GLM-4 MoE lite": ("glm4_moe_lite", _LATENT),
    "Gemma 3n": (
        "gemma3n_text",
        {
            **_PER_LAYER,
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_kv_shared_layers": 2,
            "sliding_window": 16,
            "laurel_rank": 4,
            "altup_num_inputs": 2,
            "activation_sparsity_pattern": [0.0] * 4,
        },
    ),
    "Gemma 4": (
        "gemma4_text",
        {
            **_PER_LAYER,
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "num_kv_shared_layers": 2,
            "sliding_window": 16,
        },
    ),
    "GLM": ("glm", {}),
    "CodeGen": ("codegen", {"rotary_dim": 8, "n_ctx": CONTEXT}),
    "JetMoE": ("jetmoe", {**_EXPERTS, "kv_channels": 16}),
    "DiffLlama": ("diffllama", {}),
    "CTRL": ("ctrl", {"dff": 128}),
    "GPT": ("openai-gpt", {}),
    "RoFormer": ("roformer", {"is_decoder": True}),
    "BERT as a decoder": ("bert", {"is_decoder": True}),
    "BERT": ("bert", {}),
    "TrOCR": ("trocr", {"d_model": 64, "decoder_ffn_dim": 128, "decoder_layers": 2}),
    "HRM": ("hrm_text", {}),
    "xLSTM": ("xlstm", {"num_heads": 4}),
    "AXK1": ("axk1", _LATENT),
    "LongCat": ("longcat_flash", _LATENT),
    "Youtu": ("youtu", _LATENT),
    "Persimmon": ("persimmon", {}),
    "Mamba": ("mamba", {"state_size": 4}),
    "Mamba 2": ("mamba2", {"num_heads": 8, "head_dim": 16, "n_groups": 1, "state_size": 8}),
    "Falcon-Mamba": ("falcon_mamba", {"state_size": 4}),
    "RWKV": ("rwkv", {"attention_hidden_size": 64, "context_length": CONTEXT}),
    "RecurrentGemma": ("recurrent_gemma", {"num_hidden_layers": 3, "attention_window_size": 16}),
    "Jamba": ("jamba", {**_EXPERTS, "mamba_dt_rank": 4}),
    "LFM2": ("lfm2", {"layer_types": ["conv", "full_attention"]}),
    "Qwen3-Next": ("qwen3_next", {**_EXPERTS, "num_hidden_layers": 4}),
}


ARCHITECTURES |= {
    kind: (kind, _EXPERTS)
    for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if kind not in {known for known, _ in ARCHITECTURES.values()}
}
"""With every other kind that transformers has, some of which want more to be said of them."""


class NotBuiltError(Exception):
    """No tiny model comes of the usual names, or transformers cannot run it by itself."""


def build_architecture(
    name: str, tokenizer: PreTrainedTokenizerBase, dtype: torch.dtype = torch.float32, seed: int = 0
) -> PreTrainedModel:
    """A tiny model of ``ARCHITECTURES`` whose predictions depend on all that it reads.

    Raises:
        NotBuiltError: There is no such model.
    """
    try:
        model = _build(name, tokenizer, dtype, seed)
        with torch.inference_mode():
            model(torch.tensor([[1, 2, 3, 4]]), use_cache=False)
    except Exception as error:
        reason = str(error).strip().split("\n")[0][:100]
        raise NotBuiltError(f"{name}: {type(error).__name__}, {reason}") from error
    return model


def _build(
    name: str, tokenizer: PreTrainedTokenizerBase, dtype: torch.dtype, seed: int
) -> PreTrainedModel:
    kind, own = ARCHITECTURES[name]
    settings: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": tokenizer.eos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.eos_token_id,
    }
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        given = {key: at for key, at in {**settings, **own}.items() if at is not _NOT_SET}
        config = AutoConfig.for_model(kind, **given)
        with torch.device("meta"):
            size = AutoModelForCausalLM.from_config(config).num_parameters()
        if size > _MOST_PARAMETERS:
            raise ValueError("too large")
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() >= 2:
                    weight.normal_(std=2 / weight.shape[-1] ** 0.5)
                else:
                    weight.add_(0.1 * torch.randn_like(weight))
    return model.eval()
