"""Copies: each row holds its own values once more, so that a bit that flips is found.

A flipped bit of an amount is a number like any other, and would be another budget. So each row
that counts has a column ``copy``, the row's values as text. It is written with the row, in the same
transaction, and triggers refuse to change or delete a row that differs from it. `whole` is for
those who read; `damaged` looks through the file when it is opened. What a row is found by (the hash
of a unit, the name of a scope) stands twice anyway, in the table and in its index: these are
compared when the file is opened.
"""

from __future__ import annotations

_COPIED = {
    "ledger": ("id", "latest"),
    "scope": (
        *("id", "kind", "name", "budget", "unit_budget"),
        *("period", "floor", "floor_day", "strict"),
    ),
    "spend": ("scope", "day", "fixed", "individual", "questions"),
    "unit": ("id", "scope", "spent", "period_start", "period_spent", "merged_into"),
    "reservation": (
        *("id", "corpus", "caller", "individual", "day"),
        *("period_start", "held", "committed", "commits"),
        *("session", "machine", "pid", "started", "touched"),
    ),
    "hold": ("reservation", "unit", "held", "committed"),
    "part": (
        *("unit", "spent", "period_start", "period_spent"),
        *("joint", "fixed", "individual"),
    ),
    "payer": ("corpus", "scope"),
    "delta_pool": ("scope", "delta"),
    "delta_hold": ("reservation", "held", "committed"),
    "delta_spend": ("scope", "day", "delta"),
}
_GENERATED = ("hold", "part", "payer", "delta_pool", "delta_hold", "delta_spend")
"""Tables whose copy is a generated column, which writes a row once. Triggers write the others."""


def column(table: str) -> str:
    """Definition of the column ``copy`` of a table."""
    if table in _GENERATED:
        return f"copy TEXT GENERATED ALWAYS AS ({_values(table)}) STORED"
    return "copy TEXT"


def triggers() -> tuple[str, ...]:
    """Statements that have copies written and checked, for all tables once they are made."""
    return tuple(statement for table in _COPIED for statement in _triggers(table))


def damaged() -> tuple[str, ...]:
    """Queries for a row that differs from its copy, one for each table."""
    return tuple(
        f"SELECT 1 FROM {table} WHERE NOT {whole(table)} LIMIT 1"  # noqa: S608 - constants
        for table in _COPIED
    )


def whole(table: str, row: str = "") -> str:
    """SQL: whether a row is as it was written.

    Args:
        table: Name of the table.
        row: What the query calls it; its name by default.
    """
    name = row or table
    return f"({name}.copy IS {_values(table, name + '.')})"


def _triggers(table: str) -> tuple[str, ...]:
    refuse = f"WHEN NOT {whole(table, 'OLD')} BEGIN SELECT RAISE(ABORT, 'damaged'); END"
    columns = ", ".join(_COPIED[table])
    change = f"CREATE TRIGGER {table}_change BEFORE UPDATE OF {columns} ON {table} {refuse}"
    delete = f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} {refuse}"
    if table == "hold":  # written for each token, from what the process knows, and soon gone
        return (delete,)
    if table in _GENERATED:
        return change, delete
    key = ("scope", "day") if table == "spend" else ("id",)
    this = " AND ".join(f"{name} = NEW.{name}" for name in key)
    copy = f"UPDATE {table} SET copy = {_values(table, 'NEW.')} WHERE {this}"  # noqa: S608
    return (
        f"CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN {copy}; END",
        f"CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns} ON {table} BEGIN {copy}; END",
        change,
        delete,
    )


def _values(table: str, row: str = "") -> str:
    return " || ' ' || ".join(f"quote({row}{column})" for column in _COPIED[table])
