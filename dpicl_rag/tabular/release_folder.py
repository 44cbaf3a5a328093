"""A release on disk: drawn and paid once, read as often as one likes.

The order is: charge, write, show. A kill between the charge and the writing loses one release that
nobody saw; at any other instant nothing is lost, and nothing is drawn or paid twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import alone_in, write_whole

_FILE = "release.json"


def kept_release(
    folder: Path,
    settings: Mapping[str, Any],
    draw: Callable[[], dict[str, Any]],
    check: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """The release of a folder; drawn now if there is none.

    Args:
        folder: Where it is kept. All of it is public.
        settings: What the release depends on, as JSON has it.
        draw: Pays and draws what JSON can hold.
        check: Refuses what can be refused before anything is drawn; then no folder is made. Nor is
            one left where ``draw`` refuses.

    Raises:
        ConfigurationError: The folder holds a release of other settings or a damaged one, or
            another process is at it.
    """
    file = folder / _FILE
    if not file.exists():
        check()
    with alone_in(folder, "another release is under way there"):
        if not file.exists():
            made = {"settings": dict(settings), "release": draw()}
            write_whole(file, (json.dumps(made, allow_nan=False) + "\n").encode())
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        before, release = found["settings"], found["release"]
    except (OSError, ValueError, TypeError, KeyError):
        raise ConfigurationError(f"{file} is damaged; restore it, or give another --out") from None
    differing = sorted(k for k in {*before, *settings} if before.get(k) != settings.get(k))
    if differing:
        raise ConfigurationError(
            f"{folder}: holds a release with other settings ({', '.join(differing)}); give another "
            "--out, or the same settings to read it"
        )
    return dict(release)
