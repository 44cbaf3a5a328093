"""Fixtures of the frameworks' tests."""

from __future__ import annotations

import pytest

from dpicl_rag.answering import follow_ups


@pytest.fixture(scope="module", autouse=True)
def short_rewrites():
    """A random model writes of a follow-up what is of no use, at any length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow_ups, "_TOKENS", 4)
        yield
