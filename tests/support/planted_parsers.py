"""Parsers of mail and HTML that misbehave at a message which says how."""

from __future__ import annotations

from dpicl_rag.conversion.child import FileReader
from dpicl_rag.loaders import parsing
from tests.support import planted_readers

_FAULTS = ("spin", "eat", "crash", "exit", "raise")


def _parse(content: bytes) -> bytes:
    last = content.split()[-1].decode("latin-1") if content.split() else ""
    if last in _FAULTS:
        return planted_readers.READERS[last].read(content)
    return parsing.READERS["mail"].read(content)


READERS = {**parsing.READERS, "mail": FileReader(_parse)}
