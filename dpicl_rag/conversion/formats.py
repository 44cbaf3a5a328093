"""Kinds of files that are converted, and the package that reads each; none is imported here."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

PANDOC_KINDS = ("docx", "pptx", "odt", "epub")
"""Kinds that pandoc reads, and calls so."""

_PACKAGES = {
    **dict.fromkeys(PANDOC_KINDS, "pypandoc"),
    "pdf": "pypdf",
    "sheet": "python_calamine",
    "rows": "python_calamine",
    "rtf": "striprtf",
    "msg": "olefile",
}


def is_installed(kind: str) -> bool:
    """Whether what reads a kind is installed."""
    if kind in PANDOC_KINDS:
        return pandoc() is not None
    return find_spec(_PACKAGES[kind]) is not None


def pandoc() -> str | None:
    """The pandoc that comes with ``pypandoc_binary``; None without it.

    No other is taken: what a file says must not depend on which one a machine happens to have.
    """
    spec = find_spec("pypandoc")
    if spec is None or spec.origin is None:
        return None
    name = "pandoc.exe" if os.name == "nt" else "pandoc"
    path = Path(spec.origin).parent / "files" / name
    return str(path) if path.is_file() else None
