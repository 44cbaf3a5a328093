from __future__ import annotations

from pathlib import Path

import pytest

from dpicl_rag.knowledge import AnswerMemory
from tests.support.bucket_embedder import BucketEmbedder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memory.sqlite"


@pytest.fixture
def open_memory(path: Path):
    """Open the memory of ``mail``; all are closed at the end."""
    opened: list[AnswerMemory] = []

    def open_(corpus: str = "mail", **options) -> AnswerMemory:
        opened.append(AnswerMemory(path, corpus, **{"embedder": BucketEmbedder(), **options}))
        return opened[-1]

    yield open_
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory) -> AnswerMemory:
    return open_memory()
