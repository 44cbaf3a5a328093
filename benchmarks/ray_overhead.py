"""What Ray adds to a token: the same draws with two workers and without, in one run.

Usage: python -m benchmarks.ray_overhead [--experts N] [--tokens N] [--default-model]

Every worker has as many experts as the plain model, so that what is computed at the same time is
the same. Rows cost nothing: they were made up beforehand. So nearly all of the difference is
messages. With --default-model the same on the packaged model.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Sequence

import torch

from dpicl_rag.answering.support import Witness
from dpicl_rag.language_models.base import Input, LanguageModel, Progress
from dpicl_rag.language_models.ray import RayModel
from dpicl_rag.language_models.ray.worker import load
from dpicl_rag.mechanisms.privacy_filters import IndividualFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import DenseStep, Step
from dpicl_rag.mechanisms.utilities import Sufficient, Surplus

VOCABULARY = 49_152  # of the packaged model
_WORKERS = 2
_WARM = 20


class ReadyModel:
    """A language model that has all its rows ready."""

    fingerprint = "ready"
    context_length = 1 << 20
    tokenizer = None

    def __init__(self) -> None:
        self.tokenizer = self
        self.stop_tokens: frozenset[int] = frozenset()
        coins = torch.Generator().manual_seed(0)
        logits = torch.randn(8, VOCABULARY, generator=coins) * 2
        # As answers are: experts mostly agree with the public row, and are sure of a few tokens.
        logits[1:] = 0.95 * logits[:1] + 0.05 * logits[1:]
        logits[1:, :3] += torch.tensor([9.0, 6.0, 5.0])
        self.log_probs = torch.log_softmax(logits, dim=-1)

    def encode(self, text: str) -> list[int]:
        """Lengths only."""
        return [1] * len(text)

    def digest(self, passages: Sequence[str], most: int) -> int:
        """Which row an expert has."""
        return 1 + len(passages[0]) % 7

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> ReadyRows:
        """Nothing is read."""
        return ReadyRows(self.log_probs[[0, *(int(str(own)) % 8 for own in inputs[1:])]])


class ReadyRows:
    """Rows that stay as they are."""

    def __init__(self, rows: torch.Tensor) -> None:
        self._rows = rows

    def extend(self, token_ids: Sequence[int]) -> Step:
        """The same step."""
        return DenseStep(self._rows[0], self._rows[1:])

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Not asked."""
        raise NotImplementedError


def seconds_per_token(
    model: LanguageModel, inputs: Sequence[Input], prefix: Sequence[int], tokens: int
) -> list[float]:
    """Seconds of each token of one long answer: read, weighed, paid, drawn, and heard."""
    rows = model.read(prefix, [model.digest(("a public text",), 20), *inputs], room=tokens + 8)
    reach = 0.8 * len(inputs)
    mechanism = ExponentialMechanism(Sufficient(Surplus(), reach, reach / 2), 0.8)
    limits = torch.full((len(inputs),), 1e6, dtype=torch.float64)
    spend = IndividualFilter(limits, bound=1e6, worst=mechanism.rho)
    randomness, witness, taken = Randomness(), Witness(), []
    pending: Sequence[int] = (1, 2, 3, 4)
    gc.collect()
    for _ in range(tokens):
        start = time.perf_counter()
        step = rows.extend(pending)
        token = mechanism.draw(step, spend, randomness)
        witness.record(step, token)
        del step
        taken.append(time.perf_counter() - start)
        pending = (token,)
    witness.agreeing()
    return taken[_WARM:]


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--experts", type=int, default=16, help="of the plain model; and a worker")
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--default-model", action="store_true")
    given = parser.parse_args()
    source = None if given.default_model else ReadyModel
    plain = load(source)
    texts = [f"Note {at}: the {'very ' * (at % 7)}old boat." for at in range(given.experts)]
    prefix = plain.tokenizer.encode("Read this.")

    def inputs(times: int) -> list[Input]:
        return [plain.digest((text,), 64) for text in texts for _ in range(times)]

    found: dict[str, list[float]] = {"plain": [], "Ray": []}
    with RayModel(source, _WORKERS, threads=torch.get_num_threads()) as spread:
        for _ in range(given.rounds):
            tokens = given.tokens
            found["plain"] += seconds_per_token(plain, inputs(1), prefix, tokens)
            found["Ray"] += seconds_per_token(spread, inputs(_WORKERS), prefix, tokens)
    for name, taken in found.items():
        ordered = sorted(taken)
        tenth = ordered[len(ordered) // 10]
        print(
            f"{name:6} {1e3 * statistics.median(taken):8.2f} ms a token at the median, "
            f"{1e3 * tenth:.2f} in the best tenth"
        )
    medians = {name: statistics.median(taken) for name, taken in found.items()}
    added = 1e3 * (medians["Ray"] - medians["plain"])
    print(f"added  {added:8.2f} ms, ratio {medians['Ray'] / medians['plain']:.2f}")


if __name__ == "__main__":
    main()
