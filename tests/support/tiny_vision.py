"""A vision-language model with random weights, and a processor built beside it."""

from __future__ import annotations

import torch
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from tests.support.tiny_model import build_tiny_tokenizer

_SIDE, _PATCH = 16, 8

_CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def build_tiny_vision(chat: bool = True, **overrides) -> tuple:
    """A random LLaVA of two layers and its processor; predictions depend on pictures.

    Args:
        chat: Whether the processor has a chat template.
        **overrides: Fields of its ``LlamaConfig``.
    """
    tokenizer = build_tiny_tokenizer(chat=False)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    size = {"height": _SIDE, "width": _SIDE}
    processor = LlavaProcessor(
        CLIPImageProcessorPil(size={"shortest_edge": _SIDE}, crop_size=size),
        tokenizer,
        patch_size=_PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_CHAT if chat else None,
    )
    shape = {"intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "max_position_embeddings": 1024,
        "pad_token_id": tokenizer.eos_token_id,
        **shape,
    }
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=24, image_size=_SIDE, patch_size=_PATCH, **shape
        ),
        text_config=LlamaConfig(**text | overrides),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="default",
        vision_feature_layer=-2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = LlavaForConditionalGeneration(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 2:
                    weight.normal_(0, 0.25)
    return model, processor
