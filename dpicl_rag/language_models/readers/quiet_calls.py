"""Calls to other libraries that tell nobody what they are given."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from dpicl_rag._unobserved import unobserved
from dpicl_rag.language_models.readers import langchain_silence, llama_index_silence
from dpicl_rag.language_models.readers.quiet import QUIET, holds

_installing = threading.Lock()
# Instrumentations of HTTP clients and of model clients look at these. The second is OpenLLMetry's.
_SUPPRESSED = ("suppress_instrumentation", "suppress_language_model_instrumentation")


class _QuietCalls(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not holds()


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
            langchain_silence.install()
        if "llama_index.core.callbacks" in sys.modules:
            llama_index_silence.install()
    before = QUIET.set(True)
    try:
        with ExitStack() as stack:
            stack.enter_context(unobserved())
            for held in (_without_instrumentation(), _without_langsmith()):
                stack.enter_context(held)
            yield
    finally:
        QUIET.reset(before)


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
