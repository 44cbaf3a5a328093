"""``demo``: the email assistant on a made-up mailbox."""

from __future__ import annotations

import importlib
import importlib.util

from dpicl_rag.cli import console
from dpicl_rag.errors import ConfigurationError

_MODULE = "demos.email_assistant"


@console.reported()
def demo() -> None:
    """Answer questions from a made-up mailbox: without documents, by ordinary RAG, privately."""
    try:
        found = importlib.util.find_spec(_MODULE) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise ConfigurationError(
            "the demo is part of the source, not of the installed package; run `make demo` in a "
            "checkout"
        )
    importlib.import_module(_MODULE).main()
