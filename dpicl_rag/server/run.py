"""Run and shutdown of the server: its connections, and no answer under way that is lost."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from threading import Timer
from types import FrameType

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server.admission import Admission, busy
from dpicl_rag.server.app import BYTES_A_SECOND
from dpicl_rag.server.failures import Refusal

if sys.platform != "win32":
    import resource

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Names of this machine that nobody else can give to another."""

GRACE = 4
"""Seconds that answers have to end at their next token."""
CLOSING = 1
"""Seconds that connections have then."""
LAST = 7.0
"""Seconds after a signal in which the process has ended, whatever a thread still does. Nothing that
was released goes unpaid: what a token may cost stands in the ledger before it is drawn."""

REQUEST_SECONDS = 20.0
"""Seconds for a client to send a request, from when it may, and to take what it is sent; what is
large may take longer."""

MOST_CONNECTIONS = 2048
"""Connections at once."""

_CROWDED = busy("too many connections are open; ask again in a few seconds").response()


class Connection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, which waits for ever for half a header, and for a reader."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on, or refuse where too many connections are open."""
        crowded = len(self.connections) > MOST_CONNECTIONS
        self.app = _CROWDED if crowded else self.config.loaded_app
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for a client to take what it is sent."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on writing; the client has the time for its next request from now on."""
        super().resume_writing()
        self._stop()
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        """Wait no more."""
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
        # What closes has its last bytes to send, which nobody may take.
        if not (theirs or self.flow.write_paused or self.transport.is_closing()):
            self._stop()
        elif self._clock is None:
            unsent = self.transport.get_write_buffer_size()
            seconds = REQUEST_SECONDS + unsent / BYTES_A_SECOND
            self._clock = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None


class DrainingServer(uvicorn.Server):
    """On a signal, answers end at their next token before connections are closed."""

    def __init__(self, config: uvicorn.Config, admission: Admission) -> None:
        super().__init__(config)
        self._admission = admission
        self._patient_until = math.inf
        self._is_process = False
        self._on_start: Callable[[], None] = lambda: None

    def run_until_stopped(self, on_start: Callable[[str], None]) -> None:
        """Serve until a signal comes.

        Raises:
            ConfigurationError: The address is taken, or not this machine's.
        """
        try:
            listening = socket.create_server((self.config.host, self.config.port))
        except OSError as error:
            raise ConfigurationError(
                f"port {self.config.port} of {self.config.host} cannot be listened on "
                f"({error.strerror}); choose another with --port"
            ) from None
        self._is_process = True
        self._on_start = partial(
            on_start, f"http://{self.config.host}:{listening.getsockname()[1]}/"
        )
        self.run(sockets=[listening])
        gc.freeze()  # what a process holds that ends is not looked through once more

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and tell that."""
        await super().startup(sockets)
        if self.started:
            self._on_start()

    async def on_tick(self, counter: int) -> bool:
        """True when it stops. Until the last answer has ended, callers are asked to come back."""
        done = await super().on_tick(counter)
        drained = not self._admission.inside or time.monotonic() > self._patient_until
        return done and (drained or self.force_exit)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End on a signal: answers first."""
        if not self._admission.draining:
            self._patient_until = time.monotonic() + GRACE
            if self._is_process:
                _end_after(LAST)
        self._admission.drain()
        if sig == signal.SIGTERM:
            # Asked to end, and ended: not killed, as uvicorn would have its status say.
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)


def make_server(app: FastAPI, *, host: str, port: int) -> DrainingServer:
    """A server for an application.

    Raises:
        ConfigurationError: No keys were made for the network.
    """
    if app.state.parts.run_key is not None and host not in LOOPBACK:
        raise ConfigurationError(
            f"without keys the server listens on this machine only, not on {host}; make a key "
            "with `dpicl-rag keys add NAME`"
        )
    _allow_connections(MOST_CONNECTIONS + 256)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Connection,
        ws="none",
        proxy_headers=False,  # nothing here asks where a request came from
        access_log=False,  # addresses and times of who asked
        log_config=None,
        log_level="error",  # what is no HTTP is answered, and no news
        server_header=False,
        timeout_graceful_shutdown=CLOSING,
        timeout_keep_alive=int(REQUEST_SECONDS),
    )
    return DrainingServer(config, app.state.parts.admission)


def _end_after(seconds: float) -> None:
    """End this process, also where a thread does not let it: those of a pool are waited for."""
    wall = Timer(seconds, os._exit, [0])
    wall.daemon = True
    wall.start()


def _allow_connections(files: int) -> None:
    """Let this process hold as many files as it may have connections."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
