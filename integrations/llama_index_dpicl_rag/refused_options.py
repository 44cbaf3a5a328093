"""Options of LlamaIndex that a private call does not take, and what stands in their place."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dpicl_rag.configuration import TEMPLATE, PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.framework_bridge import KEYWORDS, NO_STRUCTURE, refuse

_SEARCH = "vectors are scored exactly, all of them, by cosine"
_WHERE = 'where={"owner": "ann"} filters by metadata before anything is scored'
_CHOICE = (
    "threshold= and where= choose what is read; a postprocessor would see private nodes, and "
    "choose among them at no charge"
)
_PROMPT = f"{TEMPLATE}, where the private language model is made"
_ELSEWHERE = {
    "response_mode": "each unit is read by an expert of its own, which is the only mode",
    "chat_mode": "there is one: the turns before a question, which are public, make it whole",
    "response_synthesizer": "PrivateSynthesizer goes into a RetrieverQueryEngine",
    "similarity_cutoff": "threshold= is the least cosine of a unit with the question",
    "use_async": "aquery is the engine's async call",
    "output_cls": NO_STRUCTURE,
    **dict.fromkeys(("node_postprocessors", "node_postprocessor"), _CHOICE),
    **dict.fromkeys(("filters", "doc_ids", "node_ids"), _WHERE),
    **dict.fromkeys(
        ("vector_store_query_mode", "alpha", "sparse_top_k", "hybrid_top_k", "vector_store_kwargs"),
        _SEARCH,
    ),
    **dict.fromkeys(
        (
            *("prompt", "system_prompt", "query_wrapper_prompt", "text_qa_template"),
            *("refine_template", "summary_template", "simple_template", "prompt_template"),
            *("chat_content_qa_template", "chat_content_refine_template"),
        ),
        _PROMPT,
    ),
}


def options_of(made: Callable[..., object]) -> list[str]:
    """Names of the options of a class that takes fields of a question, too."""
    return [*inspect.signature(made).parameters, *KEYWORDS]


def refuse_options(unknown: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse options that would be without effect.

    Args:
        unknown: What was given beside the options that there are. Public.
        known: The names of those.

    Raises:
        ConfigurationError: There are any; the message names what stands in the place of the first.
    """
    for name, value in unknown.items():
        raise ConfigurationError(f"{name}: no such option{_remedy(name, value, list(known))}")


def refuse_prompts(*args: Any, **kwargs: Any) -> None:
    """Refuse prompts of LlamaIndex, the last argument: no private answer reads them."""
    refuse(args[-1], f"no such prompt; {_PROMPT}")


def _remedy(name: str, value: Any, known: list[str]) -> str:
    if name in ("similarity_top_k", "k"):
        number = value if isinstance(value, int) else "..."
        return (
            f"; top_k={number} reads the nearest units, at twice the charge and with no individual "
            "accounting; without it about as many are read as the llm's setting units= says"
        )
    if name in _ELSEWHERE:
        return f"; {_ELSEWHERE[name]}"
    if name in PrivacyConfig.model_fields:
        return f"; it is a setting of the private language model: llm.with_settings({name}=...)"
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else ""
