"""Clients of Chroma, by its public interface: what they tell to others is kept from them.

Spans of a tracer count what is read, telemetry may, and messages of errors quote values.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpicl_rag._packaged import optional
from dpicl_rag._unobserved import unobserved
from dpicl_rag.errors import CorpusError, DPICLError
from dpicl_rag.stores.chroma_address import NO_TELEMETRY, ChromaAddress, disconnect

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


_FOLDERS: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


@contextmanager
def opened(place: str | Path) -> Iterator[ClientAPI]:
    """A client of a folder or a server, from the files or the server as they are now.

    Args:
        place: A folder that is there, or the address of a server.

    Raises:
        CorpusError: No server answers, or there is no such folder.
    """
    import chromadb
    from chromadb.config import Settings

    address = ChromaAddress.of(place)
    if address is not None:
        client = address.connect("default_tenant", "default_database")
        try:
            yield client
        finally:
            disconnect(client)
        return
    folder = Path(place).expanduser().resolve()
    if not folder.is_dir():
        raise CorpusError(f"there is no folder {folder} with a Chroma database")
    settings = Settings(anonymized_telemetry=False, chroma_product_telemetry_impl=NO_TELEMETRY)
    # Clients of one folder are one inside: who closes the first would end the others.
    with _FOLDERS[str(folder)], chromadb.PersistentClient(str(folder), settings=settings) as client:
        yield client


def require_silent(client: ClientAPI) -> None:
    """Refuse a client that tells others how much is read.

    Raises:
        CorpusError: It has telemetry of its own.
    """
    if client.get_settings().chroma_product_telemetry_impl != NO_TELEMETRY:
        raise CorpusError(
            "the client's telemetry would be told how many records are read; leave "
            "chroma_product_telemetry_impl out of its settings"
        )


@contextmanager
def guarded() -> Iterator[None]:
    """Keep Chroma's errors to their kind, and its spans out of traces.

    Raises:
        CorpusError: Chroma refuses or fails, or its tracer would be told what is read.
        MissingDependencyError: Chroma is not installed.
    """
    optional("chromadb", "chroma")
    try:
        with unobserved():
            _require_untraced()
            yield
    except (DPICLError, MemoryError):
        raise
    except Exception as error:
        raise CorpusError(
            f"the Chroma database refused or failed ({type(error).__name__}); check that it is "
            "there, and the filter on metadata if one was given"
        ) from None


def _require_untraced() -> None:
    from chromadb.telemetry import opentelemetry

    tracer = opentelemetry.tracer
    if tracer is not None and tracer.start_span("untraced").is_recording():
        raise CorpusError(
            "Chroma's tracer takes in every span and would be told how many records are read; set "
            "OTEL_TRACES_SAMPLER=parentbased_always_on, or leave CHROMA_OTEL_GRANULARITY out"
        )
