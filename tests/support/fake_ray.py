"""Ray in this process, with faults at chosen calls: a stand-in for the module."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal

from dpicl_rag.language_models.ray import worker_pool
from dpicl_rag.language_models.ray.worker import Worker

Fault = Literal["dies before", "dies after", "hangs", "unsure before", "unsure after", ""]
"""What befalls a call: the worker dies before or after it is done, never answers, or the connection
is lost before or after it is done."""


class RayError(Exception):
    """As Ray's."""


class ActorDiedError(RayError):
    """As Ray's."""


class ActorUnavailableError(RayError):
    """As Ray's."""


class GetTimeoutError(RayError):
    """As Ray's."""


_sources: list[Any] = []


def _held(at: int) -> Any:
    return _sources[at]


class _Held:
    """Anything, as something that can be pickled in this process."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __reduce__(self) -> Any:
        _sources.append(self._source)
        return _held, (len(_sources) - 1,)


class FakeRay:
    """The part of Ray that the engine uses.

    Args:
        fault: Told the number of each call, over all workers, and its method.
    """

    exceptions = SimpleNamespace(
        RayError=RayError,
        ActorUnavailableError=ActorUnavailableError,
        GetTimeoutError=GetTimeoutError,
    )
    cloudpickle = SimpleNamespace(dumps=lambda source: pickle.dumps(_Held(source)))

    def __init__(self, fault: Callable[[int, str], Fault] = lambda number, method: "") -> None:
        self.fault = fault
        self.calls: list[str] = []
        self.hired = 0
        self.messages: list[bytes] = []

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 8.0}

    def remote(self, actor: type) -> FakeRay:
        return self

    def options(self, **options: Any) -> Any:
        assert options["max_restarts"] == options["max_task_retries"] == 0
        return SimpleNamespace(remote=self._hire)

    def get(self, found: Any, timeout: float) -> Any:
        if isinstance(found, list):
            return [self.get(one, timeout) for one in found]
        if isinstance(found, Exception):
            raise found
        return found

    def kill(self, actor: FakeActor) -> None:
        actor.alive = False

    def _hire(self, *arguments: Any) -> FakeActor:
        self.hired += 1
        return FakeActor(self, Worker(*arguments))


class FakeActor:
    """A worker of this process; every call is done at once."""

    def __init__(self, ray: FakeRay, worker: Worker) -> None:
        self.alive = True
        self._ray = ray
        self._worker = worker
        self._turn = threading.Lock()  # an actor does one call after the other

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any) -> Any:
            with self._turn:
                return self._call(method, arguments)

        return SimpleNamespace(remote=remote)

    def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if not self.alive:
            return ActorDiedError()
        number = len(self._ray.calls)
        self._ray.calls.append(method)
        self._ray.messages += [one for one in arguments if isinstance(one, bytes)]
        fault = self._ray.fault(number, method)
        if fault == "hangs":
            return GetTimeoutError()
        if fault == "unsure before":
            return ActorUnavailableError()
        if fault == "dies before":
            self.alive = False
            return ActorDiedError()
        found = pickle.loads(pickle.dumps(getattr(self._worker, method)(*arguments)))
        if isinstance(found, bytes):
            self._ray.messages.append(found)
        if fault == "unsure after":
            return ActorUnavailableError()
        if fault == "dies after":
            self.alive = False
            return ActorDiedError()
        return found


def install(monkeypatch: Any) -> FakeRay:
    """Put a stand-in in the place of Ray, for one test."""
    fake = FakeRay()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr(worker_pool, "_ray", lambda: fake)
    monkeypatch.setattr(worker_pool, "_PAUSE", 1e-9)
    monkeypatch.setattr(worker_pool, "_LONGEST_PAUSE", 1e-9)
    return fake
