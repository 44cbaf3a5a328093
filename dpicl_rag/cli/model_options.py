"""Options of the command line, made from fields of a model: their help, ranges and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, get_args

import typer
from annotated_types import Ge
from pydantic import BaseModel
from pydantic.fields import FieldInfo

ENVIRONMENT = {name: f"DPICL_RAG_{name.upper()}" for name in ("epsilon", "delta", "max_calls")}
"""Variables of the environment that stand for an option."""


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """FieldOptions of a model as options; a command is handed those that were given, by name.

    Attributes:
        model: Has the fields.
        names: Of those that are options.
    """

    model: type[BaseModel]
    names: tuple[str, ...]

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Parameters as Typer reads them; None stands for the model's own default."""
        for name in self.names:
            field = self.model.model_fields[name]
            flag = field.annotation is bool
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if flag else None,
                annotation=Annotated[bool if flag else _or_none(field), option(name, field)],
            )

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What was given of the values of all options."""
        # Not by equality: 0 is given, and False is not.
        every = ((name, values[name]) for name in self.names)
        return {name: one for name, one in every if one is not None and one is not False}


def option(name: str, field: FieldInfo) -> Any:
    """The option of a field.

    Args:
        name: Of the field.
        field: Has the help, the range and the default.
    """
    shown = (
        False
        if field.default in (None, False)
        else f"{field.default:g}"
        if isinstance(field.default, float)
        else str(field.default)
    )
    return typer.Option(
        f"--{name.replace('_', '-')}",
        help=field.description,
        min=_least(field),
        envvar=ENVIRONMENT.get(name),
        show_default=shown,
    )


def _least(field: FieldInfo) -> int | None:
    found = next((one.ge for one in field.metadata if isinstance(one, Ge)), None)
    return found if isinstance(found, int) else None


def _or_none(field: FieldInfo) -> Any:
    kind: Any = field.annotation
    return kind if NoneType in get_args(kind) else kind | None
