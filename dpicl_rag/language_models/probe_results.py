"""Results of probes of a model on this machine, so that none is tried again."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import platformdirs


class ProbeResults:
    """Statements that were seen to hold; kept in memory and, with ``folder``, on disk.

    What does not hold is tried again by the next process: the cause may have been the moment.

    Args:
        folder: Where empty files are kept, named by hashes. None keeps nothing on disk.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, bool] = {}
        self._lock = threading.Lock()

    def holds(self, key: str, attempt: Callable[[], bool]) -> bool:
        """Whether it holds, tried at most once.

        Args:
            key: Everything that it depends on.
            attempt: Tries it.
        """
        with self._lock:
            if key not in self._known:
                file = self._folder and self._folder / hashlib.sha256(key.encode()).hexdigest()
                kept = file is not None and file.exists()
                self._known[key] = kept or attempt()
                if file is not None and self._known[key] and not kept:
                    with contextlib.suppress(OSError):  # then it is tried again
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.touch()
            return self._known[key]


def on_this_machine() -> ProbeResults:
    """Those in the user's cache folder."""
    return ProbeResults(platformdirs.user_cache_path("dpicl-rag") / "probes")
