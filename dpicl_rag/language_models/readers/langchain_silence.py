"""LangChain without callbacks, tracers and global caches, where a private call asks for it.

Callbacks come from a call, from a model, from the object that holds the model, from hooks
(``register_configure_hook``), from environment variables, and from the switches for debugging.
``callbacks=[]`` holds off the first alone. All of them meet in ``CallbackManager.configure``, which
every model and every chain asks for itself, however deep it lies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_installing = threading.Lock()
_quiet: Callable[[], bool] | None = None


def install(quiet: Callable[[], bool]) -> None:
    """Let LangChain look at ``quiet`` before it tells anything. Done once for a process.

    Args:
        quiet: Whether the running call is private; asked in the call's own context.
    """
    global _quiet
    with _installing:
        if _quiet is not None:
            return
        from langchain_core.callbacks import manager
        from langchain_core.language_models import chat_models, llms

        for kind in (manager.CallbackManager, manager.AsyncCallbackManager):
            _unconfigured(kind)
        for module in (chat_models, llms):
            _uncached(module)
        _quiet = quiet


def _holds() -> bool:
    return _quiet is not None and _quiet()


def _unconfigured(kind: Any) -> None:
    usual = kind.configure.__func__

    def configure(cls: Any, inheritable_callbacks: Any = None, *given: Any, **options: Any) -> Any:
        if not _holds():
            return usual(cls, inheritable_callbacks, *given, **options)
        above = getattr(inheritable_callbacks, "parent_run_id", None)
        manager = cls(handlers=[], parent_run_id=above)
        # Instrumentations add a handler to every manager that is made.
        manager.handlers, manager.inheritable_handlers = [], []
        return manager

    kind.configure = classmethod(configure)


def _uncached(module: Any) -> None:
    usual = module.get_llm_cache

    def get_llm_cache() -> Any:
        return None if _holds() else usual()

    module.get_llm_cache = get_llm_cache
