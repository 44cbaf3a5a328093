"""Stores come from one place."""

from __future__ import annotations

from dpicl_rag import stores


def test_every_name_is_there():
    for name in stores.__all__:
        assert getattr(stores, name).__name__ == name
    assert dir(stores) == sorted(stores.__all__)
