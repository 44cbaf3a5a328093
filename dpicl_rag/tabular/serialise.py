"""Rows in words, as examples for prompts. The wording of the packaged schemas is ours.

What is written comes from the schema: bounds hold, and a value that is not listed is ``other``.
That makes nothing private: a private row in words is a private text.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.prompts import Example
from dpicl_rag.tabular.schema import Row, Schema


def serialise_row(row: Row, schema: Schema) -> str:
    """A row in one line: the schema's text with the row's values, without the label."""
    words = {column.name: column.words(row.get(column.name)) for column in schema.columns}
    text = schema.text or f"{', '.join(f'{name} {{{name}}}' for name in words)}."
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return text


def prompt(query: Row, demonstrations: Sequence[Row], schema: Schema) -> str:
    """A whole prompt as in the paper: demonstrations line by line, then the query.

    Args:
        query: Whose label is asked for.
        demonstrations: Rows with labels, from a release.
        schema: Of the rows.

    Returns:
        A text that ends in ``Answer:``; the first word of what follows is the answer.
    """
    shown = [f"{asked(row, schema)} Answer: {answer(row, schema)}" for row in demonstrations]
    return "\n".join([*shown, f"{asked(query, schema)} Answer:"])


def examples(rows: Sequence[Row], schema: Schema) -> tuple[Example, ...]:
    """Rows with labels as worked examples of a `PromptTemplate`."""
    return tuple(
        Example(serialise_row(row, schema), schema.question, answer(row, schema)) for row in rows
    )


def asked(row: Row, schema: Schema) -> str:
    """A row in words and the question."""
    return f"{serialise_row(row, schema)} {schema.question}".strip()


def answer(row: Row, schema: Schema) -> str:
    """The label of a row that was drawn from a release.

    Raises:
        ConfigurationError: The row has none that is listed.
    """
    place = schema.label.place(row.get(schema.label.name))
    if place is None:
        raise ConfigurationError(
            f"a demonstration has one of the labels {', '.join(schema.label.values)}"
        )
    return schema.label.values[place]
