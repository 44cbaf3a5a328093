"""What do answers that draw at the same time save, when their passes are put together?

``python -m benchmarks.shared_passes`` times a token of several answers, one after the other and in
shared passes, and compares them bit by bit. Reading, searches and draws are left out:
``python -m benchmarks.serving`` has all of it, through HTTP.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.speed import machine
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.packed_rows import PackedRows, forward_each
from dpicl_rag.language_models.transformers import TransformersModel

CELLS = [(8, 4), (8, 8), (40, 4)]


def begun(model: TransformersModel, experts: int, answers: int) -> list[PackedRows]:
    """Rows of several answers, each with documents of 100 to 250 tokens, its question read."""
    coins = random.Random(experts)

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(coins.randrange(1000, 40_000) for _ in range(count))

    prefix, found = tokens(60), []
    for _ in range(answers):
        documents = [tokens(coins.randint(100, 250)) for _ in range(experts)]
        rows = model.read(prefix, [tokens(3), *documents], room=64)
        rows.extend(tokens(20))
        assert isinstance(rows._batch, PackedRows)
        found.append(rows._batch)
    return found


def timed(
    run: Callable[[], Sequence[torch.Tensor]], repeat: int
) -> tuple[Sequence[torch.Tensor], float, float]:
    """What it gives, and its least seconds by the clock and of processors."""
    walls, processors = [], []
    with torch.inference_mode():
        for _ in range(repeat):
            wall, processor = time.perf_counter(), time.process_time()
            found = run()
            walls.append(time.perf_counter() - wall)
            processors.append(time.process_time() - processor)
    return found, min(walls), min(processors)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(arguments)
    console, model, same = Console(width=120), default_model(), True
    console.print(machine())
    heads = "apart, ms", "together, ms", "times", "apart, CPU ms", "together, CPU ms", "times less"
    table = Table("experts", "answers", *heads)
    for experts, answers in CELLS:
        batches = begun(model, experts, answers)
        ids = [(3000 + answer,) for answer in range(answers)]
        apart, wall, processor = timed(
            lambda b=batches, i=ids: [x.forward(y, 1) for x, y in zip(b, i, strict=True)],  # type: ignore[misc]
            options.repeat,
        )
        joint, joint_wall, joint_processor = timed(
            lambda b=batches, i=ids: forward_each(b, i, 1),  # type: ignore[misc]
            options.repeat,
        )
        same = same and all(torch.equal(*pair) for pair in zip(apart, joint, strict=True))
        figures = [wall, joint_wall, processor, joint_processor]
        milli = [f"{1000 * figure:.0f}" for figure in figures]
        ratios = f"{wall / joint_wall:.2f}", f"{processor / joint_processor:.2f}"
        table.add_row(str(experts), str(answers), *milli[:2], ratios[0], *milli[2:], ratios[1])
    console.print(table)
    console.print(f"the same to the last bit: {'yes' if same else 'NO'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
