"""Connections with a deadline: a client that sends no request is disconnected."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.limits import busy

SECONDS = 20.0
"""For a client to send a request, from when it may."""


MOST = 2048
"""Connections at once."""

_CROWDED = busy("too many connections are open; ask again in a few seconds").response()


class Connection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, which waits for half a header for ever."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        crowded = len(self.connections) > MOST
        self.app = _CROWDED if crowded else self.config.loaded_app
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """See uvicorn."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio."""
        self._stop()
        super().connection_lost(error)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the form of the other errors."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or (
            self.cycle is not None and self.cycle.response_started
        ):
            self.transport.close()
            return
        response = Refusal(400, "this is not a request of HTTP/1.1").response()
        headers = [*response.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """The clock runs while it is the client's turn; what comes bit by bit does not stop it."""
        answered = self.cycle is None or self.cycle.response_complete
        theirs = answered and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if not theirs:
            self._stop()
        elif self._clock is None and not self.transport.is_closing():
            self._clock = self.loop.call_later(SECONDS, self.transport.abort)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
