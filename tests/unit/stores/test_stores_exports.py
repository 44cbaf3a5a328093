"""Stores come from one place."""

from __future__ import annotations

import os

import pytest

from dpicl_rag import stores
from dpicl_rag.stores import cached_vectors


def test_every_name_is_there():
    for name in stores.__all__:
        assert getattr(stores, name).__name__ == name
    assert dir(stores) == sorted(stores.__all__)


@pytest.mark.skipif(os.name != "posix", reason="permissions are others there")
def test_the_folder_of_cached_vectors_is_its_owners_alone(tmp_path, monkeypatch):
    """Also one that was made before, for all to see."""
    monkeypatch.setattr(cached_vectors, "user_cache_dir", lambda *_, **__: str(tmp_path))
    (tmp_path / "collections").mkdir(mode=0o755)
    assert cached_vectors.cache_folder().stat().st_mode & 0o777 == 0o700
