"""Runs the server, and ends it without losing an answer that is under way."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn
from fastapi import FastAPI

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server.turns import Turns

GRACE = 60
"""Seconds that answers have to end: more than a token takes."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class DrainingServer(uvicorn.Server):
    """On a signal, answers end at their next token before connections are closed."""

    def __init__(self, config: uvicorn.Config, turns: Turns) -> None:
        super().__init__(config)
        self._turns = turns
        self._on_start: Callable[[], None] = lambda: None

    def run_until_stopped(self, on_start: Callable[[str], None]) -> None:
        """Serve until a signal comes.

        Args:
            on_start: Told the address when questions are taken.

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
        self._on_start = partial(
            on_start, f"http://{self.config.host}:{listening.getsockname()[1]}/"
        )
        self.run(sockets=[listening])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        await super().startup(sockets)
        if self.started:
            self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See uvicorn."""
        self._turns.drain()
        super().handle_exit(sig, frame)


def make_server(app: FastAPI, *, host: str, port: int, open_to_all: bool) -> DrainingServer:
    """A server for an application.

    Args:
        app: See ``create_app``.
        host: Address to listen on.
        port: Port; 0 for any.
        open_to_all: Whether no key is needed.

    Raises:
        ConfigurationError: Anyone on the network could ask without a key.
    """
    if open_to_all and host not in _LOOPBACK:
        raise ConfigurationError(
            f"without keys the server listens on this machine only, not on {host}; make a key "
            "with `dpicl-rag keys add NAME`"
        )
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        access_log=False,  # addresses and times of who asked
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=10,
        limit_concurrency=1024,
    )
    return DrainingServer(config, app.state.turns)
