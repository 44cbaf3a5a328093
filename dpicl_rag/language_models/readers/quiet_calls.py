"""Private calls to other libraries: logs, traces, callbacks and caches learn nothing of them.

Callbacks of LangChain come from a call, from a model, from the object that holds the model, from
hooks (``register_configure_hook``), from environment variables, and from the switches for
debugging. ``callbacks=[]`` holds off the first alone. All of them meet in
``CallbackManager.configure``, which every model and every chain asks for itself, however deep it
lies.

Every method of a model that LlamaIndex decorates shows its arguments to the handlers of the model's
callback manager, and to the event and span handlers of every dispatcher up to the root.
"""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context, ContextVar
from functools import cache
from typing import Any

from dpicl_rag._context_variables import held, holding
from dpicl_rag._unobserved import unobserved

_QUIET: ContextVar[bool] = ContextVar("quiet")
"""Set by `quietly`, and copied to the threads that make calls."""


def _quiet() -> bool:
    return held(_QUIET) is True


_langchain_is_quiet = _llama_index_is_quiet = _quiet  # each by its name, for tests

_installing = threading.Lock()
# Instrumentations of HTTP clients and of model clients look at these. The second is OpenLLMetry's.
_SUPPRESSED = ("suppress_instrumentation", "suppress_language_model_instrumentation")


class _QuietCalls(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _quiet()


_SILENCE = _QuietCalls()


@contextmanager
def quietly() -> Iterator[None]:
    """Keep what runs here from logs, traces, callbacks and shared caches.

    Held off are all loggers and handlers that there are, OpenTelemetry spans (see `unobserved`),
    LangSmith, and, where they are loaded, the callbacks, tracers and caches of LangChain and the
    callbacks and dispatchers of LlamaIndex. Other threads and contexts are not touched. It holds
    in a copy of the context too, also later.
    """
    _silence_logs()
    with _installing:
        if "langchain_core.callbacks.manager" in sys.modules:
            _silence_langchain()
        if "llama_index.core.callbacks" in sys.modules:
            _silence_llama_index()
    with (
        holding(_QUIET, True),
        unobserved(),
        _without_instrumentation(),
        _without_langsmith(),
    ):
        yield


def end_quietly(work: Callable[[], object]) -> None:
    """Do what garbage does at its end, after calls that were made quietly, and log none of it.

    In a context of its own: whoever it falls on may be setting a variable, and CPython would lose
    count of theirs (python/cpython issue 148891), or hold the lock of `quietly`.
    """
    own = Context()
    own.run(_QUIET.set, True)
    own.run(work)


def _silence_logs() -> None:
    """Filter at loggers and at their handlers: loggers that are made later write to the latter."""
    known = list(logging.root.manager.loggerDict.values())
    for logger in (logging.root, *(one for one in known if isinstance(one, logging.Logger))):
        for place in (logger, *logger.handlers):
            place.addFilter(_SILENCE)  # once, however often


@contextmanager
def _without_instrumentation() -> Iterator[None]:
    if "opentelemetry.context" not in sys.modules:
        yield
        return
    from opentelemetry import context

    # The key of the SDK and of OpenInference is private, and has been there from the first.
    key = getattr(context, "_SUPPRESS_INSTRUMENTATION_KEY", _SUPPRESSED[0])
    quiet = context.get_current()
    for name in {key, *_SUPPRESSED}:
        quiet = context.set_value(name, True, quiet)
    token = context.attach(quiet)
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def _without_langsmith() -> Iterator[None]:
    if "langsmith" not in sys.modules:
        yield
        return
    from langsmith import tracing_context

    off: AbstractContextManager[None] = tracing_context(enabled=False, parent=False)
    with off:
        yield


@cache
def _silence_langchain() -> None:
    """Let LangChain look whether a call is private. Once for a process."""
    from langchain_core.callbacks import manager
    from langchain_core.language_models import chat_models, llms

    for kind in (manager.CallbackManager, manager.AsyncCallbackManager):
        _unconfigured(kind)
    for module in (chat_models, llms):
        _uncached(module)


def _unconfigured(kind: Any) -> None:
    usual = kind.configure.__func__

    def configure(cls: Any, inheritable_callbacks: Any = None, *given: Any, **options: Any) -> Any:
        if not _langchain_is_quiet():
            return usual(cls, inheritable_callbacks, *given, **options)
        above = getattr(inheritable_callbacks, "parent_run_id", None)
        manager = cls(handlers=[], parent_run_id=above)
        # Instrumentations add a handler to every manager that is made.
        manager.handlers, manager.inheritable_handlers = [], []
        return manager

    kind.configure = classmethod(configure)


def _uncached(module: Any) -> None:
    usual = module.get_llm_cache

    def get_llm_cache() -> Any:
        return None if _langchain_is_quiet() else usual()

    module.get_llm_cache = get_llm_cache


@cache
def _silence_llama_index() -> None:
    """Let LlamaIndex look whether a call is private. Once for a process."""
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

    def called(self: Any, *given: Any, **options: Any) -> Any:
        return (
            silent(*given, **options) if _llama_index_is_quiet() else usual(self, *given, **options)
        )

    setattr(kind, name, called)


def _nothing(*given: Any, **options: Any) -> None:
    pass


async def _later_nothing(*given: Any, **options: Any) -> None:
    pass


def _name_of_event(
    event_type: Any, payload: Any = None, event_id: str | None = None, *given: Any, **options: Any
) -> str:
    return event_id or str(uuid.uuid4())
