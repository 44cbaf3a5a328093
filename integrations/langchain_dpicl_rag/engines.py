"""The core object that answers, and what an answer may say about itself."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

from langchain_core.language_models.base import LangSmithParams

from dpicl_rag.answers import PrivateAnswer
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.private_context_llm import PrivateContextLLM


def engine_from(given: Any, settings: dict[str, Any]) -> PrivateContextLLM:
    """The core object to answer with.

    Args:
        given: A core ``PrivateContextLLM``, an adapter that holds one, or None to make one.
        settings: Arguments of the core's constructor; only where none is given.

    Raises:
        ConfigurationError: Both are given, or ``given`` is something else.
    """
    if given is None:
        return PrivateContextLLM(**settings)
    engine = getattr(given, "engine", given)
    if not isinstance(engine, PrivateContextLLM):
        raise ConfigurationError(
            f"engine must be a dpicl_rag.PrivateContextLLM, not {type(given).__name__}"
        )
    if settings:
        raise ConfigurationError(
            f"{', '.join(sorted(settings))}: settings belong to the engine that is given"
        )
    return engine


def adapted(
    engine: PrivateContextLLM, stop: Sequence[str] | None, system: str | None = None
) -> PrivateContextLLM:
    """The engine for one call: the same model, ledger and randomness, more public text.

    Args:
        engine: The engine to start from; it stays as it is.
        stop: Further strings that end the answer.
        system: Instruction in place of the template's own.
    """
    if not stop and system is None:
        return engine
    one_call = copy.copy(engine)
    if stop:
        ends = (*engine.config.stop, *stop)
        one_call.config = engine.config.model_copy(update={"stop": ends})
    if system is not None:
        one_call.template = dataclasses.replace(engine.template, system=system)
    return one_call


def answer_metadata(engine: PrivateContextLLM, answer: PrivateAnswer) -> dict[str, Any]:
    """What stands beside an answer: public numbers only, no counts of inputs."""
    return {
        "epsilon": answer.epsilon,
        "delta": answer.delta,
        "budget_left": engine.budget_left(),
        "output_tokens": answer.tokens,
        "stopped_by": answer.stopped_by,
    }


def identifying_params(engine: PrivateContextLLM) -> dict[str, Any]:
    """What traces may say about the model: settings, all of them public."""
    config = engine.config
    return {
        "model_name": engine._model.fingerprint,
        "epsilon": config.epsilon,
        "delta": config.delta,
        "max_tokens": config.max_tokens,
    }


def trace_params(
    engine: PrivateContextLLM,
    kind: Literal["chat", "llm"],
    stop: Sequence[str] | None,
    arguments: dict[str, Any],
) -> LangSmithParams:
    """LangSmith's standard description of a call."""
    stops = [*engine.config.stop, *(stop or ())]
    params = LangSmithParams(
        ls_provider="dpicl-rag",
        ls_model_name=str(arguments.get("model") or engine._model.fingerprint),
        ls_model_type=kind,
        ls_max_tokens=engine.config.max_tokens,
    )
    if stops:
        params["ls_stop"] = stops
    return params


def refuse_cache(value: Any) -> Any:
    """Validator of a model's ``cache`` field."""
    if value is not False:
        raise ValueError(
            "a private model takes no cache: LangChain's finds answers by the question alone, "
            "or keeps the documents in its keys"
        )
    return value
