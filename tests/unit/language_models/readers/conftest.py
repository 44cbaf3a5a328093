from __future__ import annotations

import pytest

from dpicl_rag.language_models.readers import concurrent_reader
from tests.support.swift_clock import SwiftClock


@pytest.fixture
def swift(monkeypatch):
    """No test waits for a deadline."""
    monkeypatch.setattr(concurrent_reader, "time", SwiftClock())
