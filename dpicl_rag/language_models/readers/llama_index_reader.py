"""Models of LlamaIndex as readers."""

from __future__ import annotations

import hashlib
import secrets
import sys
from typing import Any, Unpack

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.readers.concurrent_reader import CallOptions, ConcurrentReader
from dpicl_rag.language_models.readers.reply_limits import limits_of


def is_llama_index(given: object) -> bool:
    """Whether something is an ``LLM`` of LlamaIndex, which is not loaded to find out."""
    module = sys.modules.get("llama_index.core.llms")
    return module is not None and isinstance(given, module.LLM)


def llama_index_reader(llm: Any, **options: Unpack[CallOptions]) -> ConcurrentReader:
    """A reader that asks a LlamaIndex ``LLM`` for completions; chat models give them too.

    Neither callback managers nor handlers of dispatchers learn of the calls. A rate limiter of the
    model is kept. One that has no limit of tokens gets one (`reply_limits`).

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

    return ConcurrentReader(call, _fingerprint(llm), **options)


def _fingerprint(llm: Any) -> str:
    """Names a model of an integration by its settings; any other once and never again."""
    kind = type(llm)
    if not kind.__module__.startswith("llama_index.llms."):
        return f"llama-index {kind.__name__} {secrets.token_hex(8)}"
    told = sorted(llm.model_dump(exclude={"api_key", "default_headers"}).items())
    shown = f"{kind.__module__} {kind.__qualname__} {told!r}"
    digest = hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()
    return f"llama-index {kind.__name__} {digest[:16]}"
