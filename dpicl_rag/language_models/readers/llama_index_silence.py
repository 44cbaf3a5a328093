"""LlamaIndex without callbacks and dispatchers, where a private call asks for it.

Every method of a model that LlamaIndex decorates shows its arguments to the handlers of the model's
callback manager, and to the event and span handlers of every dispatcher up to the root.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from dpicl_rag.language_models.readers.quiet import holds as _holds


@cache
def install() -> None:
    """Let LlamaIndex look at `holds` before it tells anything. Once for a process."""
    from llama_index.core.callbacks import CallbackManager
    from llama_index_instrumentation.dispatcher import Dispatcher

    for name in ("event", "span_enter", "span_drop", "span_exit"):
        _unless(Dispatcher, name, _nothing)
    _unless(Dispatcher, "aevent", _later_nothing)
    _unless(CallbackManager, "on_event_start", _name_of_event)
    for name in ("on_event_end", "start_trace", "end_trace"):
        _unless(CallbackManager, name, _nothing)


def _unless(kind: Any, name: str, silent: Callable[..., Any]) -> None:
    usual = getattr(kind, name)

    def told(self: Any, *given: Any, **options: Any) -> Any:
        return silent(*given, **options) if _holds() else usual(self, *given, **options)

    setattr(kind, name, told)


def _nothing(*given: Any, **options: Any) -> None:
    pass


async def _later_nothing(*given: Any, **options: Any) -> None:
    pass


def _name_of_event(
    event_type: Any, payload: Any = None, event_id: str | None = None, *given: Any, **options: Any
) -> str:
    return event_id or str(uuid.uuid4())
