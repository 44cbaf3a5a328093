"""Runs the server, and ends it without losing an answer that is under way."""

from __future__ import annotations

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
