"""Estimates as bars with their intervals, for notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from dpicl_rag.notebook_table import notebook_table
from dpicl_rag.surveys.estimate import Estimate

_WIDTH = 240  # pixels of the longest interval


def notebook_bars(
    title: str, counts: Mapping[str, Estimate], privacy: Iterable[tuple[str, str]]
) -> str:
    """HTML of bars, the longest first, and of what they cost.

    Args:
        title: Over them.
        counts: By label.
        privacy: Name and value of public numbers.
    """
    longest = max(1, max((count.high for count in counts.values()), default=1))
    rows = []
    for label, count in sorted(counts.items(), key=lambda one: -one[1].units):
        bar, low, high = (
            round(_WIDTH * number / longest) for number in (count.units, count.low, count.high)
        )
        drawn = (
            f'<svg width="{_WIDTH}" height="16" role="img" aria-label="{escape(str(count))}">'
            f'<rect width="{bar}" height="12" y="2" fill="#4c78a8"/>'
            f'<line x1="{low}" x2="{high}" y1="8" y2="8" stroke="#222" stroke-width="2"/></svg>'
        )
        cells = f"<th>{escape(label)}</th><td>{drawn}</td><td>{escape(str(count))}</td>"
        rows.append(f"<tr>{cells}</tr>")
    return f"<p>{escape(title)}</p><table>{''.join(rows)}</table>" + notebook_table("", privacy)
