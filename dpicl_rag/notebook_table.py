"""Results as small tables of a notebook. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def notebook_table(text: str, rows: Iterable[tuple[str, str]]) -> str:
    """HTML of a text, and of public numbers under it.

    Args:
        text: In front; one without letters is left out.
        rows: Name and value.
    """
    front = f'<p style="white-space: pre-wrap">{escape(text)}</p>' if text.strip() else ""
    cells = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows
    )
    return f"{front}<table>{cells}</table>"


def privacy_rows(epsilon: float, delta: float, rho: float | None) -> list[tuple[str, str]]:
    """Epsilon, delta and, where there is one, rho."""
    rows = [("epsilon", f"{epsilon:g}"), ("delta", f"{delta:g}")]
    return rows if rho is None else [*rows, ("rho", f"{rho:.4g}")]
