from __future__ import annotations

import json

import pytest

from dpicl_research.tasks import Item, Task, Template

WORDS = ("red", "blue", "salt", "iron", "wind", "rain", "moss", "fern", "lark", "hare")


@pytest.fixture
def rows():
    """Ten rows of two labels."""
    return [
        {"text": f"{word} thing", "label": "Plus" if n % 2 else "Zero"}
        for n, word in enumerate(WORDS)
    ]


@pytest.fixture
def write(tmp_path):
    """Write rows as JSON Lines."""

    def to(rows, name="task.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return to


@pytest.fixture
def task(rows):
    """Six examples, four queries."""
    items = [Item(row["text"], row["label"], row["label"]) for row in rows]
    template = Template("Say Plus or Zero.\n\n", "Text:", "Label:")
    return Task("words", template, ("Plus", "Zero"), tuple(items[:6]), tuple(items[6:]))
