"""``vision-words``: a network's class words for a picture, which a language model reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from dpicl_rag.language_models.base import Input, LanguageModel
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.mechanisms.step import rows_of
from dpicl_rag.prompts import Prompt, label_tokens, opening_tokens
from dpicl_rag.vision.base import Example, Picture
from dpicl_research.efficient_net import EfficientNetLite
from dpicl_research.vision_prototype import Network

_INSTRUCTION = "Pictures of the same kind of thing have the same made-up name.\n\n"
_READ = 1024  # most tokens of all examples of an expert; thirty examples or more


class VisionWords:
    """A stand-in for a vision-language model: it reads words, not pictures.

    A picture becomes the names of its five likeliest classes in ImageNet. Names of classes come
    from a public list, so a picture cannot write anything else into a prompt.

    Args:
        model: As for ``PrivateContextLLM``; the packaged default where it is None.
        network: Sees words; EfficientNet-Lite0 by default.

    Raises:
        MissingDependencyError: The default network's packages are not installed.
        ModelError: The language model cannot be loaded.
    """

    def __init__(
        self,
        model: str | Path | tuple[Any, Any] | LanguageModel | None = None,
        network: Network | None = None,
    ) -> None:
        self._network = network or EfficientNetLite()
        self._model = load_language_model(model)
        self.side = self._network.side
        self.fingerprint = f"vision-words 1 {self._network.fingerprint} {self._model.fingerprint}"

    def label_log_probs(
        self, examples: Sequence[Example], query: Picture, labels: Sequence[str]
    ) -> torch.Tensor:
        """See `VisionModel`.

        Raises:
            ConfigurationError: The labels cannot be told apart by the tokenizer.
        """
        return self.rows([examples], query, labels)[0]

    def rows(
        self, experts: Iterable[Sequence[Example]], query: Picture, labels: Sequence[str]
    ) -> torch.Tensor:
        """See `SharedPasses`: language models keep the bits of each row."""
        tokenizer = self._model.tokenizer
        asked = tokenizer.encode(f"\n\n{self._shown(query)}")
        prompt = Prompt(tuple(opening_tokens(tokenizer, _INSTRUCTION)), tuple(asked))
        continuations = label_tokens(tokenizer, labels, prompt.lead)
        room = max(map(len, continuations))
        most = prompt.allowance(self._model, _READ, room)

        def digest(examples: Sequence[Example]) -> Input:
            shown = "\n\n".join(f"{self._shown(e.picture)} {e.label}" for e in examples)
            return self._model.digest((shown or prompt.no_document,), most)

        # Every engine reads a public row first.
        inputs = [digest(()), *map(digest, experts)]
        rows = self._model.read(prompt.prefix, inputs, room=len(asked) + room)
        rows.extend(asked)
        return rows_of(rows.score(continuations))[1:].double()

    def _shown(self, picture: Picture) -> str:
        return f"Picture: {', '.join(self._network.see(picture).words)}\nName:"
