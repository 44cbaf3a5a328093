"""Clients of Chroma, addresses of its servers, and the unit that a collection has on record.

What clients tell to others is kept from them: spans of a tracer count what is read, telemetry may,
and messages of errors quote values.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dpicl_rag._packaged import optional
from dpicl_rag._unobserved import unobserved
from dpicl_rag.documents import unit_of
from dpicl_rag.errors import CorpusError, DPICLError
from dpicl_rag.retrieval.stored_record import SyntheticOrigin

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


NO_TELEMETRY = "chromadb.telemetry.product.posthog.Posthog"  # Chroma's default, which is idle

_PORTS = {"http": 8000, "https": 443}
_SECONDS = 10.0  # until a server has said that it is there
_FOLDERS: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)


@dataclass(frozen=True, slots=True)
class ChromaAddress:
    """The address of a Chroma server."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @classmethod
    def of(cls, place: str | Path | None) -> ChromaAddress | None:
        """The address that a place is; None if it is a folder.

        Raises:
            CorpusError: It is an address, and none of a Chroma server.
        """
        if not isinstance(place, str) or "://" not in place:
            return None
        try:
            parts = urlsplit(place)
            port = parts.port
        except ValueError:
            raise _unreadable() from None
        beside = (parts.path.strip("/"), parts.query, parts.fragment, parts.username)
        if parts.scheme not in _PORTS or not parts.hostname or any(beside):
            raise _unreadable()
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme])

    def connect(self) -> ClientAPI:
        """A client of the server, to be closed by the caller.

        Raises:
            CorpusError: No Chroma server answers.
        """
        import chromadb
        import httpx
        from chromadb.config import Settings

        try:
            # Chroma's own client waits as long as it takes.
            beat = httpx.get(f"{self}/api/v2/heartbeat", timeout=_SECONDS)
            beat.raise_for_status()
            return chromadb.HttpClient(
                self.host,
                self.port,
                ssl=self.scheme == "https",
                settings=Settings(
                    chroma_server_host=self.host,
                    chroma_server_http_port=self.port,
                    anonymized_telemetry=False,
                    chroma_product_telemetry_impl=NO_TELEMETRY,
                ),
            )
        except Exception:
            raise CorpusError(
                f"no Chroma server answers at {self}; start it with `chroma run`, or check the "
                "address"
            ) from None


def _unreadable() -> CorpusError:
    return CorpusError(
        "the address of a Chroma server is http://HOST:PORT or https://HOST:PORT, and nothing more"
    )


def disconnect(client: ClientAPI) -> None:
    """Close a client of a server, and its connections, which Chroma's own ``close`` leaves open."""
    both = (client, getattr(client, "_admin_client", None))  # each has connections of its own
    sessions = [getattr(getattr(one, "_server", None), "_session", None) for one in both]
    client.close()
    for session in sessions:
        if session is not None:
            session.close()


@contextmanager
def opened(place: str | Path) -> Iterator[ClientAPI]:
    """A client of a folder or a server, from the files or the server as they are now.

    Raises:
        CorpusError: No server answers, or there is no such folder.
    """
    import chromadb
    from chromadb.config import Settings

    address = ChromaAddress.of(place)
    if address is not None:
        client = address.connect()
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
    optional("chromadb", "dpicl-rag[chroma]")
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


if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

    from dpicl_rag.retrieval.embeddings import Embedder

KIND = "dpicl_privacy_unit"
"""Metadata field of a collection: the field of its records that holds their unit."""

_RELEASED = "dpicl_released"  # Chroma takes no empty metadata
_PAGE = 1000  # records asked for at a time


def not_adopted(address: str) -> CorpusError:
    """The error where nobody has said what a unit is."""
    place = address.partition("?unit=")[0]
    return CorpusError(
        "nobody has said for good what a privacy unit of this collection is: `dpicl-rag corpora "
        f"adopt {place} --unit FIELD` does so, and `corpora check` shows the fields that there are"
    )


def unit_on_record(collection: Collection) -> str | None:
    """The field of the unit under which a collection was adopted; None where it was not."""
    metadata = collection.metadata or {}
    if SyntheticOrigin.of(metadata) is not None:
        return "document"
    return str(metadata[KIND]) if KIND in metadata else None


def note_unit(collection: Collection, unit_field: str | None) -> None:
    """Put the field of the unit on record, or take it back where it is None."""
    metadata = dict(collection.metadata or {})
    # Chroma refuses to write this one again; it is in the collection's configuration as well.
    metadata.pop("hnsw:space", None)
    metadata.pop(KIND, None)
    if unit_field is not None:
        metadata[KIND] = unit_field
    collection.modify(metadata=metadata or {_RELEASED: True})


def require_field(collection: Collection, unit_field: str) -> None:
    """Refuse a field that no record of a collection has, where there are records.

    For the owner, whose fields these are, before a question: none tells of it.

    Raises:
        CorpusError: None has it.
    """
    start = 0
    while True:
        page = collection.get(include=["metadatas"], limit=_PAGE, offset=start)
        found = zip(page["ids"], page["metadatas"] or [], strict=True)
        if any(unit_of(id, dict(fields or {}), unit_field) is not None for id, fields in found):
            return
        if not page["ids"]:
            break
        start += len(page["ids"])
    if start:
        raise CorpusError(
            f"no record of {collection.name!r} has a field {unit_field!r} to be its privacy unit; "
            "`dpicl-rag corpora check` names the fields that there are"
        )


def require_length(collection: Collection, embedder: Embedder) -> None:
    """Refuse a collection that another embedding model has filled.

    Raises:
        CorpusError: Its vectors are of another length.
    """
    there = length_of_vectors(collection)
    ours = embedder.embed(["length"], query=True).shape[1]
    if there not in (None, ours):
        raise CorpusError(
            f"the vectors of {collection.name!r} have {there} numbers, those of the embedding "
            f"model {ours}: name the model that filled it by --embedder"
        )


def length_of_vectors(collection: Collection) -> int | None:
    """How many numbers a vector of a collection has: Chroma takes one length. None without any."""
    found: Any = collection.get(limit=1, include=["embeddings"])["embeddings"]
    return len(found[0]) if found is not None and len(found) else None
