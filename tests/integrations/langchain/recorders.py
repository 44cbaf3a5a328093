"""Everything that LangChain can tell an observer, at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any
from unittest import mock

import langsmith
import requests
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.globals import get_llm_cache, set_debug, set_llm_cache, set_verbose
from langchain_core.tracers.context import register_configure_hook
from langchain_core.tracers.langchain import wait_for_all_tracers
from langsmith.utils import get_env_var

from tests.integrations.leak_probe import LeakProbe

_EVENTS = [name for name in dir(BaseCallbackHandler) if name.startswith("on_")]
_hook: ContextVar[BaseCallbackHandler | None] = ContextVar("recording_hook", default=None)
register_configure_hook(_hook, inheritable=True)
_clients: list[langsmith.Client] = []
"""Kept: a client that is collected logs that, whenever the collector comes."""


def recording_handler(probe: LeakProbe) -> BaseCallbackHandler:
    """A handler that shows the probe every event, to be passed as a callback."""

    def event(name: str) -> Any:
        def see(self: Any, *args: Any, **kwargs: Any) -> None:
            probe.see(f"callback {name}", [args, kwargs])
            for value in (*args, *kwargs.values()):
                if isinstance(value, BaseException):
                    probe.see_error(f"callback {name}", value)

        return see

    methods = {name: event(name) for name in _EVENTS}
    return type("Recording", (BaseCallbackHandler,), methods)()


def async_recording_handler(probe: LeakProbe) -> BaseCallbackHandler:
    """``recording_handler`` for async runs."""

    def event(name: str) -> Any:
        async def see(self: Any, *args: Any, **kwargs: Any) -> None:
            probe.see(f"async callback {name}", [args, kwargs])

        return see

    methods = {name: event(name) for name in _EVENTS}
    return type("AsyncRecording", (AsyncCallbackHandler,), methods)()


@contextmanager
def observed(probe: LeakProbe) -> Iterator[None]:
    """`heard`, and a tracer switched on by environment variables."""
    with heard(probe), _tracer(probe):
        yield
        wait_for_all_tracers()


@contextmanager
def heard(probe: LeakProbe) -> Iterator[None]:
    """Install a configure hook, a global cache and debug printing."""
    before = get_llm_cache()
    token = _hook.set(recording_handler(probe))
    set_llm_cache(_Cache(probe))
    set_debug(True)
    set_verbose(True)
    try:
        yield
    finally:
        set_debug(False)
        set_verbose(False)
        set_llm_cache(before)
        _hook.reset(token)


class _Cache(InMemoryCache):
    def __init__(self, probe: LeakProbe) -> None:
        super().__init__()
        self._probe = probe

    def lookup(self, prompt: str, llm_string: str) -> Any:
        self._probe.see("cache key", [prompt, llm_string])
        return super().lookup(prompt, llm_string)

    def update(self, prompt: str, llm_string: str, return_val: Any) -> None:
        self._probe.see("cache entry", [prompt, llm_string, return_val])
        super().update(prompt, llm_string, return_val)


class _Session(requests.Session):
    """Shows what LangSmith would send; nothing leaves the machine."""

    def __init__(self, probe: LeakProbe) -> None:
        super().__init__()
        self._probe = probe

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        self._probe.see(f"trace {method}", [url, kwargs.get("data"), kwargs.get("json")])
        return SimpleNamespace(
            status_code=200,
            headers={},
            text="{}",
            content=b"{}",
            json=dict,
            raise_for_status=lambda: None,
        )


@contextmanager
def _tracer(probe: LeakProbe) -> Iterator[None]:
    settings = {"LANGCHAIN_TRACING_V2": "true", "LANGSMITH_TRACING": "true"}
    client = langsmith.Client(
        api_url="http://tracer.invalid",
        api_key="none",
        session=_Session(probe),
        auto_batch_tracing=False,
        info={},
    )
    _clients.append(client)
    get_env_var.cache_clear()
    try:
        with (
            mock.patch.dict(os.environ, settings),
            mock.patch("langchain_core.tracers.langchain.get_client", return_value=client),
        ):
            yield
    finally:
        get_env_var.cache_clear()
        client.close()
