"""Qwen2.5-VL and InternVL with random weights, as folders that a user might have downloaded."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import (
    InternVLConfig,
    InternVLForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.support.tiny_model import build_tiny_tokenizer

_PATCH, _MERGE = 8, 2
_SIDE = 32  # pixels that the processor makes of every picture
_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
_NAMED = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}


def _chat(picture: str) -> str:
    return (
        "{% for message in messages %}<|{{ message['role'] }}|>"
        "{% for part in message['content'] %}"
        f"{{% if part['type'] == 'image' %}}{picture}"
        "{% else %}{{ part['text'] }}{% endif %}"
        "{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )


def save_tiny_qwen(folder: Path) -> Path:
    """Model, tokenizer and processors of pictures and of videos, with the names of their classes.

    It has a chat template, two layers of text and two of vision: one reads windows of a picture,
    the other all of it.
    """
    tokenizer = build_tiny_tokenizer(chat=False)
    tokenizer.add_special_tokens({"additional_special_tokens": list(_TOKENS)})
    start, end, image, video = tokenizer.convert_tokens_to_ids(list(_TOKENS))
    shape = {"hidden_size": 32, "intermediate_size": 48}
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 1024,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [2, 3, 3],
            },
            "pad_token_id": tokenizer.eos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": None,
            **shape,
        },
        vision_config={
            "depth": 2,
            "num_heads": 2,
            "patch_size": _PATCH,
            "spatial_merge_size": _MERGE,
            "window_size": _PATCH * _MERGE,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
            **shape,
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    model = _random(Qwen2_5_VLForConditionalGeneration, config)
    pictures = Qwen2VLImageProcessorPil(
        patch_size=_PATCH,
        merge_size=_MERGE,
        size={"shortest_edge": _SIDE**2, "longest_edge": _SIDE**2},
    )
    for part in (model, tokenizer, pictures):
        part.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(
        _chat("<|vision_start|><|image_pad|><|vision_end|>")
    )
    videos = {"video_processor_type": "Qwen2VLVideoProcessor", "patch_size": _PATCH}
    (folder / "video_preprocessor_config.json").write_text(json.dumps(videos))
    return folder


def save_tiny_internvl(folder: Path) -> Path:
    """Model, tokenizer and the processor of pictures. Nothing of videos is in it."""
    tokenizer = build_tiny_tokenizer(chat=False)
    tokenizer.add_special_tokens({"additional_special_tokens": list(_NAMED.values())})
    shape = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = InternVLConfig(
        vision_config={"image_size": [16, 16], "patch_size": [8, 8], **shape},
        text_config={
            "model_type": "qwen2",
            "vocab_size": len(tokenizer),
            "num_key_value_heads": 1,
            "max_position_embeddings": 1024,
            "pad_token_id": tokenizer.eos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": None,
            **shape,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=1,
        downsample_ratio=0.5,
    )
    model = _random(InternVLForConditionalGeneration, config)
    for part in (model, tokenizer, GotOcr2ImageProcessorPil(size={"height": 16, "width": 16})):
        part.save_pretrained(folder)
    processor = {"processor_class": "InternVLProcessor", "image_seq_length": 1}
    (folder / "processor_config.json").write_text(json.dumps(processor))
    (folder / "chat_template.jinja").write_text(_chat("<IMG_CONTEXT>"))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("additional_special_tokens", None)
    settings["extra_special_tokens"] = _NAMED
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def _random(kind, config):
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = kind(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() == 2:
                    weight.normal_(0, 0.25)
    return model
