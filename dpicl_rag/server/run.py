"""Run and shutdown of the server, without losing an answer that is under way."""

from __future__ import annotations

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

import uvicorn
from fastapi import FastAPI

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.delivery import MOST, SECONDS, Connection

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

        Args:
            on_start: Called with the address when questions are taken.

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

    Args:
        app: See ``create_app``.
        host: Address to listen on.
        port: Port; 0 for any.

    Raises:
        ConfigurationError: No keys were made for the network.
    """
    if app.state.parts.run_key is not None and host not in LOOPBACK:
        raise ConfigurationError(
            f"without keys the server listens on this machine only, not on {host}; make a key "
            "with `dpicl-rag keys add NAME`"
        )
    _allow_connections(MOST + 256)
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
        timeout_keep_alive=int(SECONDS),
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
