"""Errors in OpenAI's form. Nothing of an exception reaches a caller but what it says on purpose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel

from dpicl_rag.errors import (
    BudgetExceededError,
    ConfigurationError,
    ContextLengthError,
    DeltaSpentError,
    DPICLError,
    MisreadingError,
    StoppedError,
)

# A client that asks again by itself may spend again.
_NOT_BY_ITSELF = {"x-should-retry": "false"}
_FAILED = "this answer could not be given; ask again later"


class FailureDetail(BaseModel):
    """Details of a failure, as OpenAI's clients read them."""

    message: str
    type: str
    param: str | None
    code: str | None


class Failure(BaseModel):
    """The body of every error."""

    error: FailureDetail


@dataclass(eq=False, repr=False)
class Refusal(Exception):
    """A request that is answered by an error.

    Attributes:
        status: Of HTTP.
        message: One public sentence that names the remedy.
        kind: OpenAI's ``type``.
        code: OpenAI's ``code``.
        param: The field that is at fault.
        headers: Sent along.
    """

    status: int
    message: str
    _: KW_ONLY
    kind: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] | None = None

    def __str__(self) -> str:
        return self.message

    @property
    def body(self) -> dict[str, Any]:
        """As OpenAI's clients read it."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}

    def response(self) -> JSONResponse:
        """The whole answer."""
        return _Plain(self.body, self.status, self.headers)


class _Plain(JSONResponse):
    """JSON in ASCII: a field's name may be half a character."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content).encode()


def refusal(error: BaseException) -> Refusal:
    """The refusal that a caller gets for an exception.

    Messages of settings and budgets are public (see ``dpicl_rag.errors``). Whatever else goes
    wrong is reported in one sentence, the same for all: it may have its cause in a document.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, (BudgetExceededError, DeltaSpentError)):
        return Refusal(
            429,
            str(error),
            kind="insufficient_quota",
            code="budget_exceeded",
            headers=_NOT_BY_ITSELF,
        )
    if isinstance(error, ContextLengthError):
        return Refusal(400, str(error), code="context_length_exceeded", param="messages")
    if isinstance(error, MisreadingError):
        return Refusal(400, str(error), code="misreads", param="anyway")
    if isinstance(error, ConfigurationError):
        return Refusal(400, str(error))
    if isinstance(error, StoppedError):
        return Refusal(503, str(error), kind="server_error", code="stopped", headers=_NOT_BY_ITSELF)
    status = 503 if isinstance(error, DPICLError) else 500
    again = _NOT_BY_ITSELF  # its search may be paid for
    return Refusal(status, _FAILED, kind="server_error", code="unavailable", headers=again)
