"""Keeping arguments out of LlamaIndex's spans."""

from __future__ import annotations

import inspect
from typing import Any

from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR


class Unrecorded:
    """Base of classes whose methods take private arguments; put it before LlamaIndex's own.

    LlamaIndex wraps every method that a subclass overrides in a span, and a span hands all
    arguments of the call to every span handler. A method that is marked as wrapped is left alone.
    Subclasses of subclasses are covered too.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for method in vars(cls).values():
            if inspect.isfunction(method):
                setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
        super().__init_subclass__(**kwargs)
