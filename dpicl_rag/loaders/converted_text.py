"""Text of files that are converted, tidied as a passage is read."""

from __future__ import annotations

import os
import re

from dpicl_rag.conversion import Conversions, NotConvertedError
from dpicl_rag.conversion.conversions import REASONS, Outcome, is_installed
from dpicl_rag.loaders.file_kinds import FileFormat
from dpicl_rag.loaders.records import (
    FILE_TOO_LARGE,
    MAX_CONVERTED_BYTES,
    NOT_CONVERTED,
    NOT_HERE,
    Options,
    UnreadableError,
    tidy,
)

NO_TEXT = REASONS[Outcome.NO_TEXT]

_GAP = re.compile(r"(?<=\S) {3,}")
_SHORTEST_RULE = "-----"


def require_conversions(kind: FileFormat, options: Options) -> Conversions:
    """What converts files of a kind here.

    Raises:
        UnreadableError: Nothing does, whatever the file.
    """
    if options.conversions is None or not is_installed(kind):
        raise UnreadableError(NOT_CONVERTED)
    if not hasattr(os, "fork"):
        raise UnreadableError(NOT_HERE)
    return options.conversions


def converted(kind: str, content: bytes, conversions: Conversions) -> bytes:
    """What a file says, as its reader gives it.

    Raises:
        UnreadableError: Nothing of it can be read, or it is too large.
    """
    if len(content) > MAX_CONVERTED_BYTES:
        raise UnreadableError(FILE_TOO_LARGE)
    try:
        return conversions.convert(kind, content)
    except NotConvertedError as error:
        raise UnreadableError(str(error)) from None


def converted_text(kind: str, content: bytes, conversions: Conversions) -> str:
    """The text of a file.

    Raises:
        UnreadableError: As `converted`, or it has none.
    """
    told = converted(kind, content, conversions).decode("utf-8", "replace")
    # Tables come with rules and in columns as wide as their longest cell.
    lines = (_GAP.sub("  ", line) for line in told.splitlines() if not _is_rule(line))
    text = tidy("\n".join(lines))
    if not text:
        raise UnreadableError(NO_TEXT)
    return text


def _is_rule(line: str) -> bool:
    return _SHORTEST_RULE in line and not line.strip(" -")
