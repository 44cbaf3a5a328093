"""Frames of what goes to the child and comes back: their heads, in the machine's byte order."""

from __future__ import annotations

from struct import Struct

QUESTION = Struct("=BQ")
"""Bytes of the name of the kind, and of the file; both follow."""
ANSWER = Struct("=BQ")
"""An `Outcome`, and bytes of what was converted, which follow."""
