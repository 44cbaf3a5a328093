"""A language model behind an OpenAI-compatible server, made for vLLM."""

from __future__ import annotations

import copy
import hashlib
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch

from dpicl_rag import weights
from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models.base import Input, Progress
from dpicl_rag.language_models.copy_bias import copy_bias_of
from dpicl_rag.language_models.openai_compatible import capabilities
from dpicl_rag.language_models.openai_compatible.capabilities import MOVES
from dpicl_rag.language_models.openai_compatible.completions import Tokens
from dpicl_rag.language_models.openai_compatible.http_client import Server
from dpicl_rag.language_models.openai_compatible.server_address import KEY, Address
from dpicl_rag.language_models.openai_compatible.server_rows import ServerRows
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer, require_room
from dpicl_rag.mechanisms.randomness import NotPrivateWarning

_DEADLINE = 300.0


class OpenAICompatibleModel:
    """Rows of log-probabilities from a server: every token is one round of requests.

    Experts send their prompts as token ids, 64 to a request, and are shown the 20 likeliest next
    tokens each; the public row as many as the server gives. The tokenizer is here, and is compared
    with the server's when they are connected.

    Args:
        address: ``openai+http://127.0.0.1:8000/v1#model``, see `Address`.
        tokenizer: Folder or Hugging Face id of the tokenizer; by default what the address names.
        key: The server's key; by default the environment variable ``DPICL_RAG_API_KEY``.

    Attributes:
        tokenizer: See ``LanguageModel``.
        context_length: Most tokens that one row may hold.

    Raises:
        ConfigurationError: The address is none.
        ModelError: No server answers there, it has no such model, its tokenizer is another, or it
            does not give what is needed.
        EngineUnavailableError: It stopped answering while it was tried.
    """

    def __init__(
        self, address: str | Address, *, tokenizer: str | Path = "", key: str | None = None
    ) -> None:
        where = address if isinstance(address, Address) else Address.parse(address)
        server = Server(where.url, key or os.environ.get(KEY), where.deadline or _DEADLINE)
        served = capabilities.served_model(server, where.model)
        name = str(served["id"])
        wanted = str(tokenizer) or where.tokenizer
        self.tokenizer = _tokenizer([wanted] if wanted else [name, served.get("root")])
        capabilities.require_tokenizer(server, name, self.tokenizer)
        # A server counts the token that it is asked for too.
        self.context_length = _context(where.context or served.get("max_model_len")) - 1
        vocabulary = self.tokenizer.vocabulary
        self._size = 1 + max(vocabulary.values())
        self._completions, own = capabilities.connect(server, name, self._size)
        if not own:
            warnings.warn(MOVES, NotPrivateWarning, stacklevel=2)
        identity = (where.url, name, sorted(vocabulary.items()))
        self.fingerprint = hashlib.sha256(repr(identity).encode()).hexdigest()
        self._copy_bias, self._public_copies = 0.0, False

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self._completions.server.url!r})"

    @property
    def speaks(self) -> bool:
        """Its rows can go on each by itself, see ``Speaking``."""
        return True

    def copying(self, bias: float, *, public: bool = False) -> OpenAICompatibleModel:
        """The same server and tokenizer; see ``Copying``."""
        other = copy.copy(self)
        other._copy_bias, other._public_copies = bias, public
        return other

    def digest(self, passages: Sequence[str], most: int) -> tuple[int, ...]:
        """Token ids of passages, the earliest first, at most ``most``; none for no text."""
        return self.tokenizer.encode_passages(passages, most)

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> ServerRows:
        """Rows of ``prefix + input``; nothing is sent before the first token is asked for.

        Inputs are non-empty tuples of token ids; see ``LanguageModel.read``.

        Raises:
            ContextLengthError: The longest row and the room exceed the context.
        """
        own = cast("Sequence[Tokens]", inputs)
        require_room(prefix, own, room, self.context_length)
        way = self._copy_bias, self._public_copies
        bias = copy_bias_of(*way, own, self.tokenizer, torch.device("cpu"))
        if on_progress is not None:
            on_progress(1.0, 1.0)
        prompts = [(*prefix, *one) for one in own]
        return ServerRows(
            self._completions,
            prompts,
            room,
            self._size,
            bias,
            sentence_end=self.tokenizer.sentence_end,
            end=min(self.tokenizer.stop_tokens, default=None),
        )


def _context(found: object) -> int:
    if not isinstance(found, int) or found < 1:
        raise ConfigurationError(
            "the server does not tell how many tokens its model reads; say so in the address: "
            "openai+http://HOST:PORT/v1?context=4096#MODEL"
        )
    return found


def _tokenizer(names: Sequence[object]) -> HuggingFaceTokenizer:
    """The first of some tokenizers that can be loaded.

    Raises:
        ModelError: None can.
    """
    import transformers

    from dpicl_rag.language_models.converted_models import DEFAULT

    given = [name for name in dict.fromkeys(names) if isinstance(name, str) and name]
    for name in given:
        place = str(DEFAULT.folder()) if name == "default" else name
        try:
            if not (Path(place).is_absolute() or Path(place).exists()):
                weights.answers_for(place)  # a loader would try for most of a minute
            loaded = transformers.AutoTokenizer.from_pretrained(place)
        except Exception:  # noqa: S112 - reported below
            continue
        return HuggingFaceTokenizer(loaded, _generation(place))
    raise ModelError(
        f"no tokenizer can be loaded by the name {' or '.join(map(repr, given))}: give the folder "
        "or the Hugging Face id of the served model's tokenizer, "
        "openai+http://HOST:PORT/v1?tokenizer=NAME#MODEL, or ?tokenizer=default for the packaged "
        "model's"
    )


def _generation(place: str) -> object:
    """The model's generation configuration, which may name more end tokens; None without one."""
    import transformers

    try:
        return transformers.GenerationConfig.from_pretrained(place)
    except Exception:
        return None
