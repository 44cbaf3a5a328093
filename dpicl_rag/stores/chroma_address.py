"""The address of a Chroma server, which may stand where a store's folder does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from dpicl_rag.errors import CorpusError

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

NO_TELEMETRY = "chromadb.telemetry.product.posthog.Posthog"  # Chroma's default, which is idle

_PORTS = {"http": 8000, "https": 443}
_SECONDS = 10.0  # until a server has said that it is there


@dataclass(frozen=True, slots=True)
class ChromaAddress:
    """The address of a Chroma server.

    Attributes:
        scheme: ``http`` or ``https``.
        host: A name or a number.
        port: Of the host.
    """

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

    @property
    def name(self) -> str:
        """The name of this machine's own files for the server."""
        return f"chroma-at-{quote(self.host, safe='')}-{self.port}"

    def connect(self, tenant: str, database: str) -> ClientAPI:
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
                tenant=tenant,
                database=database,
            )
        except Exception:
            raise CorpusError(
                f"no Chroma server answers at {self}; start it with `chroma run`, or check the "
                "address"
            ) from None


def disconnect(client: ClientAPI) -> None:
    """Close a client of a server, and its connections, which Chroma's own ``close`` leaves open."""
    both = (client, getattr(client, "_admin_client", None))  # each has connections of its own
    sessions = [getattr(getattr(one, "_server", None), "_session", None) for one in both]
    client.close()
    for session in sessions:
        if session is not None:
            session.close()


def _unreadable() -> CorpusError:
    return CorpusError(
        "the address of a Chroma server is http://HOST:PORT or https://HOST:PORT, and nothing more"
    )
