"""A synthetic corpus of two records, exported for other programs to read."""

from __future__ import annotations

from pathlib import Path

from dpicl_rag.synthesis.released_records import Synthesis, SyntheticRecord
from tests.support.bucket_embedder import BucketEmbedder

FAR, NEAR = "It says the light is red.", "It says betas glow blue at night."
TEXTS = (FAR, NEAR)
QUESTION = "what do betas glow like at night"


def export(folder: Path) -> None:
    """Put the records into the collection ``lights``."""
    records = tuple(
        SyntheticRecord(text, None, key, 7, "end")
        for text, key in zip(TEXTS, ("alpha", "betas"), strict=True)
    )
    made = Synthesis(records, 8.0, 1e-5, 1.23, {"kind": "corpus"})
    made.into_corpus(f"chroma:{folder}#lights", embedder=BucketEmbedder()).close()
