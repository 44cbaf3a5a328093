"""The key of one run of a server that has no file of keys."""

from __future__ import annotations

import secrets

from dpicl_rag.server.api_keys import BYTES, PREFIX, Caller


class RunKey:
    """The owner's key, until the server ends.

    Where a connection comes from says nothing of who asks: a proxy, a tunnel and a page under a
    name that leads here all ask from this machine. So there is a key here too.

    Attributes:
        text: The key.
    """

    def __init__(self) -> None:
        self.text = PREFIX + secrets.token_urlsafe(BYTES)

    def __repr__(self) -> str:
        return "RunKey()"

    def find(self, key: str) -> Caller | None:
        """See ``KeyFile.find``."""
        known = secrets.compare_digest(key.encode("utf-8", "replace"), self.text.encode())
        return Caller(None, "owner") if known else None

    def address(self, url: str) -> str:
        """Address of the page with this key; what stands behind ``#`` is not sent anywhere."""
        return f"{url}#{self.text}"
