"""Fields of requests as a server takes them: those of `Request`, with limits on their length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from dpicl_rag.requests import CONVERSATION, FIELDS, Kind, Request

LONGEST_QUESTION = 4096
"""Letters."""

PublicText = Annotated[str, Field(min_length=1, max_length=512)]

_LOCAL = frozenset({"method", "vocabulary", "votes", "threshold"})
"""Fields of programs on this machine: what they make a server do has no limit of its own."""

_LIMITED: dict[str, Any] = {
    "question": Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)],
    "labels": Annotated[list[PublicText], Field(max_length=256)],
}

B = TypeVar("B", bound=BaseModel)


def remote_fields(*kinds: Kind) -> list[str]:
    """Fields that requests of some kinds have over a network, beside those of a conversation."""
    every = dict.fromkeys(name for kind in kinds for name in FIELDS[kind])
    return [name for name in every if name not in _LOCAL and name not in CONVERSATION]


def with_fields(name: str, base: type[B], *fields: str, required: Sequence[str] = ()) -> type[B]:
    """A body with fields of `Request`: their help, their ranges and their defaults.

    Args:
        name: Of the class.
        base: What the body has beside them.
        fields: Their names.
        required: Those that have no default here.
    """
    made: dict[str, Any] = {}
    for one in fields:
        field = Request.model_fields[one]
        kind: Any = _LIMITED.get(one, field.annotation)
        if one in required:
            made[one] = (kind, Field(description=field.description))
            continue
        if field.default == ():
            made[one] = (kind, Field(default_factory=list, description=field.description))
            continue
        if one in _LIMITED:
            kind = kind | None
        made[one] = (kind, field)
    return create_model(name, __base__=base, __doc__=base.__doc__, **made)
