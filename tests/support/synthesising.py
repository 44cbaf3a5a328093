"""Small syntheses: made-up models, keys that are released already, coins that follow a path."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dpicl_rag.auditing.worst_models import SyntheticModel, worst_speech
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.synthesis.corpus_plan import CorpusPlan
from dpicl_rag.synthesis.synthesis_run import Drawn, Run
from dpicl_rag.synthesis.template import RecordField, RecordTemplate

KEYS = ("alpha", "betas", "gamma")


class Following(Randomness):
    """Draws the tokens of a path, and notes the distributions that they were drawn from."""

    def __init__(self, path: Sequence[int]) -> None:
        self.log_probs: list[torch.Tensor] = []
        self._path = list(path)

    def draw(self, scores: torch.Tensor) -> int:
        self.log_probs.append(torch.log_softmax(scores, dim=-1))
        return self._path[len(self.log_probs) - 1]


def short_template(tokens: int, fields: int = 1) -> RecordTemplate:
    """Fields of so many tokens that nothing but their length ends."""
    leads = ("It says", "and also")[:fields]
    return RecordTemplate(
        fields=tuple(RecordField(lead, tokens=tokens, stop=("never",)) for lead in leads),
        examples=(),
    )


def short_plan(tokens: int, *, fields: int = 1, **settings: object) -> CorpusPlan:
    """A plan whose keys come from the trie, for tokenizers without words."""
    defaults: dict[str, object] = {
        "epsilon": 8.0,
        "keys": "trie",
        "words_per_unit": 9,
        "records_per_topic": 1,
    }
    shape = short_template(tokens, fields)
    return CorpusPlan.create(**{**defaults, **settings}, template=shape)


def worst_model(size: int) -> SyntheticModel:
    """Documents that say ``token N`` are sure of token N, others say nothing."""
    return SyntheticModel(size, worst_speech(size))


def released(plan: CorpusPlan, keys: Sequence[tuple[str, int]]) -> dict[str, list[list[object]]]:
    """Rounds of counts from which these keys come, as a folder has them."""
    trie = plan.trie()
    assert trie is not None
    rounds: dict[str, list[list[object]]] = {}
    for level in range(1, trie.levels + 1):
        nodes = {(word + "$")[: 2 * level]: n for word, n in keys if len(word) > 2 * level - 3}
        rounds[f"trie {level}"] = [[node, n] for node, n in sorted(nodes.items())]
    return rounds


def prepared_run(
    plan: CorpusPlan, keys: Sequence[tuple[str, int]], records: dict[int, Drawn] | None = None
) -> Run:
    """A run whose keys were released before."""
    return Run(None, b"k" * 32, records or {}, released(plan, keys))
