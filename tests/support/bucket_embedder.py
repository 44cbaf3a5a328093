"""An embedder small enough for tests of whole paths."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


class BucketEmbedder:
    """Words hashed into 16 buckets."""

    dimension = 16
    fingerprint = "buckets"

    def embed(self, texts: Sequence[str], *, query: bool = False):
        vectors = np.full((len(texts), self.dimension), 1e-3, dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, hashlib.sha256(word.encode()).digest()[0] % self.dimension] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
