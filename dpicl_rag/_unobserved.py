"""Privacy from observers: objects that show nothing, work that no trace or log takes in."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dpicl_rag._context_variables import held, holding

# Chroma's client for servers logs by these, a line or more for each page that it reads, and Pillow
# for each part of an image; IMAPClient by its own, every line of the mail.
_LOGGERS = (
    *("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2"),
    *("PIL.ImageFile", "PIL.PngImagePlugin", "PIL.TiffImagePlugin"),
    *("imapclient.imapclient", "imapclient.imaplib", "imapclient.util"),
)
_at_work: ContextVar[bool] = ContextVar("at_work")


class Private:
    """The base of what is private: its representation tells its type alone."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"


class _Silence(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not held(_at_work)


_SILENCE = _Silence()


@contextmanager
def unobserved() -> Iterator[None]:
    """Keep OpenTelemetry spans that begin here unsampled, and clients' logs quiet.

    Samplers follow a span's parent, which is not sampled here; ``always_on`` is the one that does
    not.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_SILENCE)  # once, however often
    with holding(_at_work, True):
        if "opentelemetry.trace" not in sys.modules:  # nobody traces
            yield
            return
        from opentelemetry import trace

        parent = trace.SpanContext(trace_id=1, span_id=1, is_remote=False)  # flags: not sampled
        with trace.use_span(trace.NonRecordingSpan(parent)):
            yield
