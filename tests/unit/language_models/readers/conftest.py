from __future__ import annotations

import threading
import time

import pytest

from dpicl_rag.language_models.readers import concurrent_reader


class SwiftClock(threading.local):
    """Every look at it takes ten seconds, in each thread by itself."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 10.0
        return self.now

    time = staticmethod(time.time)


@pytest.fixture
def swift(monkeypatch):
    """No test waits for a deadline."""
    monkeypatch.setattr(concurrent_reader, "time", SwiftClock())
