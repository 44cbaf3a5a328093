"""Frames of what goes to the child and comes back: their heads, in the machine's byte order."""

from __future__ import annotations

from struct import Struct

QUESTION = Struct("=BI")
"""Bytes of the name of the kind, and how many files; the name and the files follow."""
SIZE = Struct("=Q")
"""Bytes of a file, which follow."""
ANSWER = Struct("=BQ")
"""An `Outcome`, and bytes of what was converted, which follow; for each file, in their order."""
