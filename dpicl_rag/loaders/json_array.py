"""Elements of a JSON array, cut at its commas, so that what is damaged in one costs that one."""

from __future__ import annotations

import re

# A quote by itself is one that nobody closed.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)
_PAIRS = {b"]": b"[", b"}": b"{"}


def split_array(raw: bytes) -> list[bytes] | None:
    """The elements of an array that fills a file; None where it does not.

    Only brackets, commas and strings are looked at: what stands between them is its reader's.

    Args:
        raw: The bytes, in a superset of ASCII.
    """
    elements: list[bytes] = []
    open_brackets: list[bytes] = []
    start = 0
    for found in _TOKEN.finditer(raw):
        token = found[0]
        if token == b'"':
            return None
        if token[:1] == b'"':
            continue
        if not open_brackets and (elements or token != b"[" or raw[: found.start()].strip()):
            return None
        if token in (b"[", b"{"):
            if not open_brackets:
                start = found.end()
            open_brackets.append(token)
            continue
        if len(open_brackets) == 1 and token in (b",", b"]"):
            elements.append(raw[start : found.start()])
            start = found.end()
        if token == b",":
            continue
        if open_brackets.pop() != _PAIRS[token]:
            return None
        if not open_brackets:
            if raw[found.end() :].strip():
                return None
            # An empty array has one element of blanks, and so has a comma before its end.
            return elements if elements[-1].strip() else elements[:-1]
    return None


def is_one_object(raw: bytes) -> bool:
    """Whether bytes are one JSON object that stands in several lines, as programs write it."""
    # In a file of an object per line, a damaged first line alone must not look like one.
    if raw.lstrip().partition(b"\n")[0].strip() != b"{":
        return False
    return len(split_array(b"[" + raw + b"]") or ()) == 1
