"""A language model behind an OpenAI-compatible server, made for vLLM."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import random
import secrets
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch

from dpicl_rag import weights
from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models.base import Input, Progress
from dpicl_rag.language_models.copy_bias import copy_bias_of
from dpicl_rag.language_models.openai_compatible.completions import (
    PATH,
    Completions,
    Shown,
    Tokens,
    understood,
)
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
        served = served_model(server, where.model)
        name = str(served["id"])
        wanted = str(tokenizer) or where.tokenizer
        self.tokenizer = _tokenizer([wanted] if wanted else [name, served.get("root")])
        require_tokenizer(server, name, self.tokenizer)
        # A server counts the token that it is asked for too.
        self.context_length = _context(where.context or served.get("max_model_len")) - 1
        vocabulary = self.tokenizer.vocabulary
        self._size = 1 + max(vocabulary.values())
        self._completions, own = connect(server, name, self._size)
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


TEXT = "Größe: 12.5 µm, é — 日本語\n\n\tif (x_1 != 'y'):  return  f(x);  don't\r\n🙂 1234567"
"""Text on some of which any two different tokenizers differ."""

# Fields that vLLM knows. A salt keeps what this process had read out of others' timings.
_NUMBERS = {"return_tokens_as_token_ids": True}
_SALT = "cache_salt"
_MOST_SHOWN = (1000, 100, 20, 5, 1)
_NAMED = 4

Ask = Callable[[Sequence[Tokens], str], list[Shown]]
"""From prompts, and a name for the server's cache, to the tokens shown after each."""

MOVES = (
    "what the server says of a prompt moves with what else it computes: a row is then no function "
    "of one document, and the guarantee does not hold; start vLLM with VLLM_BATCH_INVARIANT=1, or "
    "serve the model in float32 (docs/engines.md)"
)

_CROWDS = (8, 64)
_LENGTH = 70  # spans several blocks of a server's cache, and a part of one


def served_model(server: Server, name: str) -> dict[str, Any]:
    """The server's description of one of its models.

    Args:
        server: The server.
        name: Of the model; empty for the only one.

    Raises:
        ModelError: It does not answer, or has no such model.
    """
    try:
        models = [one for one in server.get("/models")["data"] if isinstance(one["id"], str)]
    except (TypeError, LookupError):
        models = []
    found = [one for one in models if one["id"] == name or (not name and len(models) == 1)]
    if not found:
        wanted = f"has no model {name!r}" if name else "has not just one model"
        raise ModelError(
            f"the server at {server.url} {wanted}; name one that it lists under /models: "
            "openai+http://HOST:PORT/v1#MODEL"
        )
    return dict(found[0])


def require_tokenizer(server: Server, model: str, tokenizer: HuggingFaceTokenizer) -> None:
    """Check that the server reads a text as the tokenizer does, where the server tells.

    Raises:
        ModelError: It does not.
    """
    asked = {"model": model, "prompt": TEXT, "add_special_tokens": False}
    llama = {"content": TEXT, "add_special": False}
    answer = server.accepts("../tokenize", {**asked, **llama})
    if isinstance(answer, dict) and answer.get("tokens") != tokenizer.encode_template(TEXT):
        raise ModelError(
            "the tokenizer here is not that of the model that is served; name its folder or its "
            "Hugging Face id: openai+http://HOST:PORT/v1?tokenizer=NAME#MODEL"
        )


def connect(server: Server, model: str, vocabulary: int) -> tuple[Completions, bool]:
    """The server's requests, and whether its rows are each a function of their own prompt.

    Args:
        server: The server.
        model: As it names it.
        vocabulary: Token ids lie below it.

    Raises:
        ModelError: It gives no log-probabilities of numbered tokens for several prompts.
        EngineUnavailableError: It stopped answering.
    """
    salted = Completions(server, model, {**_NUMBERS, _SALT: secrets.token_hex(16)})
    found = _able(salted) or _able(replace(salted, options={}))
    if found is None:
        raise ModelError(
            f"the server at {server.url} does not give what this engine needs, log-probabilities "
            "of several prompts of token ids, with the ids of the tokens: take vLLM, or another "
            "server that docs/engines.md names"
        )
    found = replace(found, names=_names(found, vocabulary))

    def ask(prompts: list[Tokens], name: str) -> list[Shown]:
        options = dict(found.options)
        if _SALT in options:
            options[_SALT] += name
        return replace(found, options=options).public(prompts, {"logprobs": min(20, found.shown)})

    return found, rows_are_their_own(ask, vocabulary)  # type: ignore[arg-type]


def _able(completions: Completions) -> Completions | None:
    """With as many log-probabilities as the server gives; None where it is of no use."""
    prompts: list[Tokens] = [(1, 2, 3), (4, 5)]
    for shown in _MOST_SHOWN:
        body = completions.body(prompts, logprobs=shown)
        answer = completions.server.accepts(PATH, body)
        if answer is None:
            continue
        with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
            rows = understood(answer, body)
            if all(rows):
                # A server may give fewer than it was asked for, and say nothing.
                return replace(completions, shown=min(shown, *map(len, rows)))
        return None
    return None


def _names(completions: Completions, vocabulary: int) -> bool:
    """True of a server that shows tokens that are named, whatever their rank."""
    prompt: Tokens = (1, 2, 3)
    [likely] = completions.public([prompt])
    asked = [id for id in range(vocabulary) if id not in likely][:_NAMED]
    if not asked:
        return False
    body = completions.body([prompt], logprobs=1, logprob_token_ids=asked)
    answer = completions.server.accepts(PATH, body)
    with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
        return answer is not None and set(asked) <= understood(answer, body)[0].keys()
    return False


def rows_are_their_own(ask: Ask, vocabulary: int) -> bool:
    """True where a prompt is answered alike, bit by bit: alone and among others, cold and warm.

    Args:
        ask: Asks the server.
        vocabulary: Token ids lie below it.
    """
    coins = random.Random(0)  # noqa: S311

    def prompt(length: int) -> Tokens:
        return tuple(coins.randrange(vocabulary) for _ in range(length))

    known = prompt(_LENGTH)
    [single] = ask([known], "alone")
    if not single or ask([known], "alone") != [single]:
        return False
    for crowd in _CROWDS:
        place = crowd // 2
        others = [prompt(coins.randint(2, 40)) for _ in range(crowd - 1)]
        # One that begins as it does, for what caches share.
        others[0] = known[: _LENGTH - 6] + prompt(3)
        prompts = [*others[:place], known, *others[place:]]
        for name in (f"among {crowd}", f"among {crowd}", "alone"):
            if ask(prompts, name)[place] != single:
                return False
    return True
