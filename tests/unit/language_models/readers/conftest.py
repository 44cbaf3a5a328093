from __future__ import annotations

import pytest

from dpicl_rag.language_models import retries
from tests.support.swift_clock import SwiftClock


@pytest.fixture
def swift(monkeypatch):
    """No test waits for a deadline."""
    monkeypatch.setattr(retries, "time", SwiftClock())
