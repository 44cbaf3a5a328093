"""Models and chains of LangChain as readers."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sys
from typing import Any, Unpack

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.readers.concurrent_reader import CallOptions, ConcurrentReader
from dpicl_rag.language_models.readers.reply_limits import limits_of

_PLACES = re.compile(r"0x[0-9a-fA-F]+")  # of objects in memory


def is_runnable(given: object) -> bool:
    """Whether something is a ``Runnable``; LangChain is not loaded to find out."""
    module = sys.modules.get("langchain_core.runnables.base")
    return module is not None and isinstance(given, module.Runnable)


def langchain_reader(runnable: Any, **options: Unpack[CallOptions]) -> ConcurrentReader:
    """A reader that invokes a LangChain ``Runnable``: a chat model, a text model, a chain.

    It is invoked with a prompt as text and gives a text or a message. No callback, tracer, hook,
    debug print or LangSmith project learns of the calls, however deep in a chain; they neither read
    nor fill the global cache, nor a cache of a model that is a part of the chain. A rate limiter of
    the model is kept. A model without a limit of tokens gets one (`reply_limits`). What a chain
    does beside that (a history, a checkpointer, functions of its own) is not looked at; it must
    keep nothing of a prompt.

    Args:
        runnable: It is not changed: models are copied in order to switch their caches off.
        **options: See `ConcurrentReader`.

    Raises:
        ConfigurationError: It is no ``Runnable``.
    """
    if not is_runnable(runnable):
        raise ConfigurationError("langchain_reader takes a Runnable of LangChain, such as a model")
    bare = _bare(runnable)

    def call(prompt: str) -> object:
        return _text(bare.invoke(prompt, config={"callbacks": []}))

    return ConcurrentReader(call, _fingerprint(runnable), **options)


def _bare(runnable: Any) -> Any:
    """A copy of a runnable: all models that it shows have a limit, and no callbacks or cache."""
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.runnables import Runnable
    from pydantic import BaseModel

    def bare(value: Any) -> Any:
        kind: Any = type(value)
        if kind in (list, tuple):
            return kind(bare(one) for one in value)
        if kind is dict:
            return {name: bare(one) for name, one in value.items()}
        if not (issubclass(kind, Runnable) and issubclass(kind, BaseModel)):
            return value
        changed = {name: bare(held) for name, held in value.__dict__.items()}
        if issubclass(kind, BaseLanguageModel):
            changed |= {"cache": False, "callbacks": None, "verbose": False, **limits_of(value)}
        return value.model_copy(update=changed)

    return bare(runnable)


def _text(found: Any) -> object:
    """The text of what a runnable gave; anything else as it is, which is no reply."""
    content = getattr(found, "content", found)
    if not isinstance(content, list):
        return content
    parts = [
        part if isinstance(part, str) else part.get("text", "")
        for part in content
        if isinstance(part, str) or part.get("type") == "text"
    ]
    return "".join(parts)


def _fingerprint(runnable: Any) -> str:
    """Names a model by its settings; what does not tell them all, once and never again."""
    from langchain_core.language_models import BaseLanguageModel

    kind = type(runnable)
    told = isinstance(runnable, BaseLanguageModel) and (
        runnable.is_lc_serializable()
        or (kind.__module__.startswith("langchain_") and "langchain_core" not in kind.__module__)
    )
    if not told:
        return f"langchain {kind.__name__} {secrets.token_hex(8)}"
    from langchain_core.load import dumpd

    shown = json.dumps([kind.__module__, kind.__qualname__, dumpd(runnable)], sort_keys=True)
    digest = hashlib.sha256(_PLACES.sub("", shown).encode("utf-8", "replace")).hexdigest()
    return f"langchain {kind.__name__} {digest[:16]}"
