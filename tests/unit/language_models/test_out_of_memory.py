"""Memory that ends tells no size: what NumPy says names how many passages there are."""

from __future__ import annotations

import numpy as np
import pytest

from dpicl_rag import Corpus, ModelError, PrivateContextLLM, ThresholdRetriever
from tests.support.bucket_embedder import BucketEmbedder


@pytest.mark.parametrize("accounting", ["individual", "fixed"])
@pytest.mark.parametrize(
    "place",
    [
        "retrieval.vector_rows.rough_scores",
        "retrieval.vector_rows.exact_scores",
        "retrieval.vector_rows.VectorFile.load",
    ],
)
def test_numpy_runs_out_in_a_search(place, accounting, tiny_model, tmp_path, monkeypatch):
    def run_out(*_: object) -> None:
        np.empty((7345, 1 << 40))

    with pytest.raises(MemoryError, match="7345"):
        run_out()
    corpus = Corpus.create("notes", tmp_path, embedder=BucketEmbedder())
    corpus.add(["a note"])
    corpus.close()  # so that the file is read again
    monkeypatch.setattr(f"dpicl_rag.{place}", run_out)
    llm = PrivateContextLLM(tiny_model, accounting=accounting)
    with pytest.raises(ModelError, match="not enough memory") as caught:
        llm.answer("note?", ThresholdRetriever(corpus, -1))
    corpus.close()
    assert "7345" not in str(caught.value)
    assert caught.value.__suppress_context__
