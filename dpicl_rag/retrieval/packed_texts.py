"""Texts that share forward passes of an embedding model without moving each other's bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dpicl_rag.language_models.attention import DocumentPass, row_attention
from dpicl_rag.language_models.tiles import NotInvariantError, Tiles

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

VERSION = "texts 3"
"""Part of what a verdict hangs on: how texts share passes."""

Features = dict[str, Any]

# Tokens of one forward pass; activations grow with them.
_PASS_TOKENS = 4096
_PASS_TOKENS_GPU = 16384
_TOKENIZED = 64  # texts that are tokenised together: their padding takes memory

_WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "why"]
# Least cosine between a text's vector and what the model gives for it by itself.
_LIKENESS = {torch.float32: 0.99999, torch.bfloat16: 0.99, torch.float16: 0.999}


class PackedTexts:
    """A sentence-transformers model whose texts stand one behind the other in a pass.

    Each text is attended and pooled at its own length, and products go through it in tiles: see
    `dpicl_rag.language_models.tiles`.

    Args:
        model: A model whose first module is a transformer with the attention interface.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        self._model = model

    def embed(self, texts: Sequence[str], prompt: str | None = None) -> torch.Tensor:
        """Unit vectors, float32 [texts, size].

        Args:
            texts: One or more.
            prompt: Public words in front of each.

        Raises:
            NotInvariantError: Texts of this model cannot share a pass.
        """
        features = self._features(texts, prompt)
        most = _PASS_TOKENS if self._model.device.type == "cpu" else _PASS_TOKENS_GPU
        vectors: list[torch.Tensor] = []
        with torch.inference_mode():
            while len(vectors) < len(features):
                first = last = len(vectors)
                tokens = 0
                while last < len(features) and (
                    tokens == 0 or tokens + _length(features[last]) <= most
                ):
                    tokens += _length(features[last])
                    last += 1
                vectors += self._one_pass(features[first:last])
            return torch.cat(vectors).float()

    def keeps_bits(self) -> bool:
        """Test for vectors that are the same in any company, and what the model gives by itself."""
        texts = [" ".join(_WORDS[:n]) for n in (1, 7)]
        company = [" ".join((_WORDS * 4)[n : 3 * n + 1]) for n in range(20)]
        try:
            crowded = self.embed([*company, *texts])[-len(texts) :]
            for text, vector in zip(texts, crowded, strict=True):
                alone = self.embed([text])[0]
                with torch.inference_mode():
                    expected = self._model.encode(text, convert_to_tensor=True).float()
                likeness = torch.cosine_similarity(expected, vector, dim=0)
                if not torch.equal(alone, vector) or likeness < _LIKENESS[self._model.dtype]:
                    return False
        except Exception:
            # A model of another kind can say so by any error. Its texts go one at a time.
            return False
        return True

    def _features(self, texts: Sequence[str], prompt: str | None) -> list[Features]:
        """The tokens of each text by itself, without padding."""
        features: list[Features] = []
        for first in range(0, len(texts), _TOKENIZED):
            batch = self._model.preprocess(list(texts[first : first + _TOKENIZED]), prompt=prompt)
            for row, mask in enumerate(batch["attention_mask"].bool()):
                features.append(
                    {
                        name: value[row : row + 1, mask] if _has_tokens(value, batch) else value
                        for name, value in batch.items()
                    }
                )
        return features

    def _one_pass(self, features: Sequence[Features]) -> list[torch.Tensor]:
        encoder, device = self._model[0].model, self._model.device
        lengths = [_length(one) for one in features]
        reading = DocumentPass([], lengths, device)
        packed = {
            name: torch.cat([one[name] for one in features], dim=1).to(device)
            for name in ("input_ids", "token_type_ids")
            if name in features[0]
        }
        with (
            row_attention(encoder),
            reading.running(),
            Tiles(wide=True),
            torch.autocast(device.type, enabled=False),
        ):
            hidden = encoder(**packed, position_ids=reading.positions).last_hidden_state
        if reading.attended != encoder.config.num_hidden_layers:
            raise NotInvariantError
        parts = torch.split(hidden, lengths, dim=1)
        return [self._pooled(*pair) for pair in zip(features, parts, strict=True)]

    def _pooled(self, features: Features, hidden: torch.Tensor) -> torch.Tensor:
        """The unit vector of one text [1, size], through the model's other modules."""
        features = {
            name: value.to(hidden.device) if isinstance(value, torch.Tensor) else value
            for name, value in features.items()
        }
        # Contiguous: a view would stand at a place of its own.
        features["token_embeddings"] = hidden.contiguous()
        for module in list(self._model)[1:]:
            features = module(features)
        return torch.nn.functional.normalize(features["sentence_embedding"].float(), dim=1)


def _has_tokens(value: Any, batch: Features) -> bool:
    """Test for a number for each token of each text."""
    return isinstance(value, torch.Tensor) and value.shape == batch["input_ids"].shape


def _length(features: Features) -> int:
    return int(features["input_ids"].shape[1])
