"""Kinds of files that are converted, and the package that reads each; none is imported here."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

PANDOC_FORMATS = {kind: kind for kind in ("docx", "pptx", "odt", "rtf", "epub")}
"""Names that pandoc has for kinds."""

_PACKAGES = {
    **dict.fromkeys(PANDOC_FORMATS, "pypandoc"),
    "pdf": "pypdf",
    "sheet": "python_calamine",
    "rows": "python_calamine",
    "msg": "olefile",
}


def is_installed(kind: str) -> bool:
    """Whether what reads a kind is installed."""
    if kind in PANDOC_FORMATS:
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
