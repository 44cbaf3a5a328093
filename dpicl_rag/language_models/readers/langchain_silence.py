"""LangChain without callbacks, tracers and global caches, where a private call asks for it.

Callbacks come from a call, from a model, from the object that holds the model, from hooks
(``register_configure_hook``), from environment variables, and from the switches for debugging.
``callbacks=[]`` holds off the first alone. All of them meet in ``CallbackManager.configure``, which
every model and every chain asks for itself, however deep it lies.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from dpicl_rag.language_models.readers.quiet import holds as _holds


@cache
def install() -> None:
    """Let LangChain look at `holds` before it tells anything. Once for a process."""
    from langchain_core.callbacks import manager
    from langchain_core.language_models import chat_models, llms

    for kind in (manager.CallbackManager, manager.AsyncCallbackManager):
        _unconfigured(kind)
    for module in (chat_models, llms):
        _uncached(module)


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
