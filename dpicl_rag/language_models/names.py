"""Names of language models: a size, an id on the hub, or a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.weights import hub


@dataclass(frozen=True, slots=True)
class Named:
    """The place of a model for its loader.

    Attributes:
        place: Folder, or id on the hub.
        revision: Of the id; its newest if None.
        offline: Whether the hub is left alone.
    """

    place: str
    revision: str | None = None
    offline: bool = True


# Instruction models under Apache-2.0 that need no account, of 1.5, 4 and 7.6 billion parameters.
SIZES = {
    "small": ("Qwen/Qwen2.5-1.5B-Instruct", "989aa7980e4cf806f80c7fef2b1adb7bc71aa306"),
    "medium": ("Qwen/Qwen3-4B-Instruct-2507", "cdbee75f17c01a7cc42f958dc650907174af0554"),
    "large": ("Qwen/Qwen2.5-7B-Instruct", "a09a35458c702b33eeacc393d103063234e8bc28"),
}
# Models that are behind chat APIs alone, with and without their makers' names.
_CHAT_API = re.compile(
    r"((openai|azure|openrouter)[:/])*(gpt-[345]|chatgpt|o[1-9](-|$)|text-davinci)"
    r"|((anthropic|bedrock|openrouter)[:/])*claude-"
    r"|((google|google_genai|vertexai|openrouter)[:/])*gemini-"
    r"|(grok-|mistral-(small|medium|large)|command-|deepseek-(chat|reasoner)$)",
    re.IGNORECASE,
)


def located(name: str | Path) -> Named:
    """The place of a language model, found out in seconds.

    A text that is a size means that size, even where a folder is called so: ``./small`` is the
    folder.

    Raises:
        ConfigurationError: The name is that of a chat API.
        ModelError: There is no such model, or it is out of reach.
    """
    place, revision = (name, None) if isinstance(name, Path) else SIZES.get(name, (name, None))
    folder = Path(place).expanduser()
    if revision is None and folder.exists():
        return Named(str(folder))
    if _CHAT_API.match(str(place)):
        raise ConfigurationError(
            f"{place} is behind a chat API, which gives no log-probabilities of a prompt, and the "
            "experts vote with those: name a model that runs here, such as small or "
            "Qwen/Qwen2.5-7B-Instruct, or a server that gives them, openai+http://HOST:PORT/v1"
        )
    if isinstance(place, Path) or place.startswith((".", "~")) or folder.is_absolute():
        raise ModelError(f"no model at {place}: give a folder with a saved model, or an id")
    return Named(place, revision, offline=not hub.answers_for(place, revision))
