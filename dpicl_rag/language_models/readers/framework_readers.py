"""Models and chains of LangChain, and models of LlamaIndex, as readers.

A document may ask for a reply without end ("write all numbers"). A model without a limit would
write it, and whoever waits for all replies would wait for that one. So there is a public limit.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sys
from typing import Any, Unpack

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.readers.concurrent_reader import CallOptions, ConcurrentReader

TOKENS = 1024
"""Of a reply at most, where a model has no limit: room for a line, and for thoughts before it."""

_NAMES = ("max_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
"""What models of LangChain and LlamaIndex call it."""

_PLACES = re.compile(r"0x[0-9a-fA-F]+")  # of objects in memory


def is_runnable(given: object) -> bool:
    """True of a ``Runnable``; LangChain is not loaded to find out."""
    module = sys.modules.get("langchain_core.runnables.base")
    return module is not None and isinstance(given, module.Runnable)


def langchain_reader(runnable: Any, **options: Unpack[CallOptions]) -> ConcurrentReader:
    """A reader that invokes a LangChain ``Runnable``: a chat model, a text model, a chain.

    It is invoked with a prompt as text and gives a text or a message. No callback, tracer, hook,
    debug print or LangSmith project learns of the calls, however deep in a chain; they neither read
    nor fill the global cache, nor a cache of a model that is a part of the chain. A rate limiter of
    the model is kept. A model without a limit of tokens gets one (`limits_of`). What a chain
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

    return ConcurrentReader(call, _langchain_fingerprint(runnable), **options)


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


def _langchain_fingerprint(runnable: Any) -> str:
    """Names a model by its settings; one that does not show them all, once and never again."""
    from langchain_core.language_models import BaseLanguageModel

    kind = type(runnable)
    shown_whole = isinstance(runnable, BaseLanguageModel) and (
        runnable.is_lc_serializable()
        or (kind.__module__.startswith("langchain_") and "langchain_core" not in kind.__module__)
    )
    if not shown_whole:
        return _named("langchain", kind, None)
    from langchain_core.load import dumpd

    shown = json.dumps([kind.__module__, kind.__qualname__, dumpd(runnable)], sort_keys=True)
    return _named("langchain", kind, _PLACES.sub("", shown))


def is_llama_index(given: object) -> bool:
    """True of an ``LLM`` of LlamaIndex, which is not loaded to find out."""
    module = sys.modules.get("llama_index.core.llms")
    return module is not None and isinstance(given, module.LLM)


def llama_index_reader(llm: Any, **options: Unpack[CallOptions]) -> ConcurrentReader:
    """A reader that asks a LlamaIndex ``LLM`` for completions; chat models give them too.

    Neither callback managers nor handlers of dispatchers learn of the calls. A rate limiter of the
    model is kept. One that has no limit of tokens gets one (`limits_of`).

    Args:
        llm: It is not changed: a copy without its callbacks is asked.
        **options: See `ConcurrentReader`.

    Raises:
        ConfigurationError: It is no ``LLM``.
    """
    if not is_llama_index(llm):
        raise ConfigurationError("llama_index_reader takes an LLM of LlamaIndex")
    from llama_index.core.callbacks import CallbackManager

    changed = {"callback_manager": CallbackManager([]), **limits_of(llm)}
    bare = llm.model_copy(update=changed)

    def call(prompt: str) -> object:
        return getattr(bare.complete(prompt), "text", None)

    return ConcurrentReader(call, _llama_index_fingerprint(llm), **options)


def _llama_index_fingerprint(llm: Any) -> str:
    """Names a model of an integration by its settings; any other once and never again."""
    kind = type(llm)
    if not kind.__module__.startswith("llama_index.llms."):
        return _named("llama-index", kind, None)
    settings = sorted(llm.model_dump(exclude={"api_key", "default_headers"}).items())
    return _named("llama-index", kind, f"{kind.__module__} {kind.__qualname__} {settings!r}")


def _named(library: str, kind: type[Any], shown: str | None) -> str:
    """A name by what is shown of a model, and otherwise by chance."""
    if shown is None:
        return f"{library} {kind.__name__} {secrets.token_hex(8)}"
    digest = hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()
    return f"{library} {kind.__name__} {digest[:16]}"


def limits_of(model: Any) -> dict[str, int]:
    """Fields of a pydantic model that limit its replies and do not yet, each with `TOKENS`.

    A limit that somebody has set is public, and stays.
    """
    fields = type(model).model_fields
    return {name: TOKENS for name in _NAMES if name in fields and not _limits(model, name)}


def _limits(model: Any, name: str) -> bool:
    found = getattr(model, name, None)
    return isinstance(found, int) and found > 0  # Ollama has negative numbers for no limit
