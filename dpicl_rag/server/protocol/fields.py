"""Fields of a request: those without an effect, and those that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.request_fields import remote_fields, with_fields

REFUSED: Mapping[str, tuple[Any, ...]] = {
    # By field: values that ask for nothing. Any other would need what is private.
    "top_logprobs": (None, 0),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
}
"""In every interface."""

WITHOUT_EFFECT = frozenset(
    {
        *("temperature", "top_p", "user", "store", "metadata", "service_tier", "tool_choice"),
        *("parallel_tool_calls", "safety_identifier", "prompt_cache_key"),
    }
)
"""The same."""


class _Extension(BaseModel):
    """Fields that OpenAI's API lacks: the object ``dpicl`` of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)


if TYPE_CHECKING:
    Extension = _Extension
else:
    Extension = with_fields("Extension", _Extension, *remote_fields("answer"))


def with_other_fields(
    refused: Mapping[str, tuple[Any, ...]], without_effect: frozenset[str]
) -> ConfigDict:
    """The settings of a body that says in the OpenAPI document which other fields may be there."""

    def extend(schema: dict[str, Any]) -> None:
        known = {name: {"enum": [*values]} for name, values in refused.items()}
        ignored = {name: {"description": "without effect"} for name in sorted(without_effect)}
        schema["properties"] = {**ignored, **known, **schema["properties"]}
        schema["additionalProperties"] = False

    return ConfigDict(extra="allow", strict=True, json_schema_extra=extend)


class Body(BaseModel):
    """What every request has."""

    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = REFUSED
    without_effect: ClassVar[frozenset[str]] = WITHOUT_EFFECT

    model: str = Field(min_length=1, max_length=512)
    stream: bool | None = False
    dpicl: Extension = Field(default_factory=Extension)

    def ignored(self) -> list[str]:
        """Fields without an effect.

        Raises:
            Refusal: A field asks for what is not given, or is unknown.
        """
        found = []
        for name, value in (self.model_extra or {}).items():
            if name in self.refused:
                if value not in self.refused[name]:
                    raise Refusal(400, f"private answers have no {name}; leave it out", param=name)
            elif name not in self.without_effect:
                raise Refusal(
                    400, f"there is no field {name[:64]!r}; leave it out", param=name[:64]
                )
            if value is not None and name in self.without_effect:
                found.append(name)
        return sorted(found)
