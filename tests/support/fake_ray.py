"""Ray in this process, with faults at chosen calls: a stand-in for the module.

As Ray does, it starts an actor again that died, and repeats calls that may be repeated, before all
later ones, until somebody cancels them.
"""

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

TRIES = 50
"""Of a call that is to be repeated for ever."""


class RayError(Exception):
    """As Ray's."""


class ActorDiedError(RayError):
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
        GetTimeoutError=GetTimeoutError,
    )
    cloudpickle = SimpleNamespace(dumps=lambda source: pickle.dumps(_Held(source)))

    def __init__(self, fault: Callable[[int, str], Fault] = lambda number, method: "") -> None:
        self.fault = fault
        self.calls: list[str] = []
        self.started = 0
        self.actors: list[FakeActor] = []
        self.messages: list[bytes] = []

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 8.0}

    def remote(self, actor: type) -> FakeRay:
        return self

    def options(self, **options: Any) -> Any:
        assert options["max_restarts"] == options["max_task_retries"] == -1
        return SimpleNamespace(remote=self._hire)

    def get(self, found: Any, timeout: float) -> Any:
        if isinstance(found, list):
            return [self.get(one, timeout) for one in found]
        if isinstance(found, Exception):
            raise found
        return found

    def kill(self, actor: FakeActor, no_restart: bool = True) -> None:
        actor.alive = not no_restart
        if actor.alive:
            actor.start()

    def cancel(self, found: Any) -> None:
        for actor in self.actors:
            actor.unfinished = [call for call in actor.unfinished if call[0] is not found]

    def _hire(self, *arguments: Any) -> FakeActor:
        self.actors.append(FakeActor(self, arguments))
        return self.actors[-1]


class FakeActor:
    """A worker of this process; every call is done at once."""

    def __init__(self, ray: FakeRay, arguments: tuple[Any, ...]) -> None:
        self.alive = True
        self._ray = ray
        self._arguments = arguments
        self._turn = threading.Lock()  # an actor does one call after the other
        self.unfinished: list[tuple[Any, ...]] = []
        self.start()

    def start(self) -> None:
        """Forget all that the worker knows."""
        self._ray.started += 1
        self.worker = Worker(*self._arguments)

    def __getattr__(self, method: str) -> Any:
        def handle(**options: Any) -> Any:
            def remote(*arguments: Any) -> Any:
                with self._turn:
                    return self._call(method, arguments, **options)

            return SimpleNamespace(remote=remote, options=handle)

        return handle()

    def _call(self, method: str, arguments: tuple[Any, ...], max_task_retries: int = -1) -> Any:
        if not self.alive:
            return ActorDiedError()
        waiting = [*self.unfinished, (None, method, arguments, max_task_retries)]
        while waiting:
            _, *call = waiting[0]
            found = self._done(*call)
            if isinstance(found, GetTimeoutError):
                break
            waiting.pop(0)
        self.unfinished = [(one or found, *call) for one, *call in waiting]
        return found

    def _done(self, method: str, arguments: tuple[Any, ...], max_task_retries: int) -> Any:
        for _ in range(TRIES):
            number = len(self._ray.calls)
            self._ray.calls.append(method)
            self._ray.messages += [one for one in arguments if isinstance(one, bytes)]
            fault = self._ray.fault(number, method)
            if fault == "hangs":
                break
            if not fault.endswith("before"):
                found = pickle.loads(pickle.dumps(getattr(self.worker, method)(*arguments)))
                self._ray.messages += [found] if isinstance(found, bytes) else []
            if not fault:
                return found
            if fault.startswith("dies"):
                self.start()
            if max_task_retries == 0:
                return ActorDiedError()
        return GetTimeoutError()


def install(monkeypatch: Any) -> FakeRay:
    """Put a stand-in in the place of Ray, for one test."""
    fake = FakeRay()
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr(worker_pool, "_ray", lambda: fake)
    return fake
