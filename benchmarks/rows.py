"""What does bit-identity cost? This tree against an older one, in turns, on one machine.

``python -m benchmarks.rows --checkout DIR`` times, each in a process of its own: reading of
documents, the question, and a token, by the code in DIR (before rows were made a function of their
own unit: e66f7cd) and by this tree in float32 and bfloat16; then passages embedded a second, which
are medical records (``DPICL_RAG_DATA``). Documents have 20 to 256 tokens. The best
of the repetitions counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

EXPERTS = (8, 32, 100)
STEPS = 12
TEXTS = 384
HERE = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checkout", type=Path, help="an older tree to compare with")
    parser.add_argument("--repeat", type=int, default=3, help="processes per figure; the best one")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "DTYPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        what, dtype = options.one
        print(json.dumps(embedding(dtype) if what == "texts" else answering(int(what), dtype)))
        return 0
    trees = {"this tree": HERE}
    if options.checkout is not None:
        trees = {"before": options.checkout.resolve(), **trees}
    report(trees, options.repeat)
    return 0


def answering(experts: int, dtype: str) -> dict[str, float]:
    """Seconds of reading, of the question, and of a token."""
    from dpicl_rag.language_models.defaults import default_model

    model: Any = default_model() if dtype == "old" else default_model(dtype=dtype)
    coins = random.Random(experts)
    prefix, public = _tokens(coins, 60), _tokens(coins, 12)
    documents = [
        _tokens(coins, coins.randint(20, coins.choice([60, 120, 256]))) for _ in range(experts)
    ]
    question = _tokens(coins, 30)
    model.with_cache(None).read(prefix, [public, *documents[:4]], room=40).extend(question)
    began = time.perf_counter()
    rows = model.with_cache(None).read(prefix, [public, *documents], room=30 + STEPS)
    read = time.perf_counter()
    rows.extend(question)
    asked = time.perf_counter()
    steps = []
    for token in _tokens(coins, STEPS):
        before = time.perf_counter()
        rows.extend([token])
        steps.append(time.perf_counter() - before)
    return {"read": read - began, "question": asked - read, "token": statistics.median(steps)}


def _tokens(coins: random.Random, count: int) -> tuple[int, ...]:
    return tuple(coins.randrange(49_000) for _ in range(count))


def embedding(dtype: str) -> dict[str, float]:
    """Passages a second: as the tree embeds them, and in ordinary batches of 32."""
    from benchmarks.quality import compose, read_records
    from dpicl_rag.retrieval import embeddings

    texts = [compose(record) for record in read_records()[:TEXTS]]
    old = dtype == "old"
    embedder: Any = (
        embeddings.SentenceTransformerEmbedder()
        if old
        else embeddings.SentenceTransformerEmbedder(dtype=dtype)  # type: ignore[arg-type]
    )
    embedder.embed(texts[:8])
    began = time.perf_counter()
    embedder.embed(texts)
    found = {"own": TEXTS / (time.perf_counter() - began)}
    stock: Any = embedder._model() if old else embedder._loaded().model
    began = time.perf_counter()
    stock.encode(texts, batch_size=32, show_progress_bar=False)
    return {**found, "batches": TEXTS / (time.perf_counter() - began)}


def report(trees: dict[str, Path], repeat: int) -> None:
    """Time everything in turns and print two tables."""
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    console = Console(width=120)
    kinds = [(name, dtype) for name in trees for dtype in _dtypes(name)]
    jobs = [
        (what, *kind)
        for what in (*map(str, EXPERTS), "texts")
        for _ in range(repeat)
        for kind in kinds
    ]
    found: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    with Progress(console=console, transient=True) as progress:
        for what, name, dtype in progress.track(jobs, description="timing"):
            timing = _child(trees[name], what, dtype)
            found.setdefault((what, name, dtype), []).append(timing)
    table = Table(
        "experts",
        "tree",
        "read, s",
        "question, s",
        "token, ms",
        "read",
        "question",
        "token",
        title="Seconds, and times the first line of each block",
    )
    for experts in map(str, EXPERTS):
        first: dict[str, float] = {}
        for name, dtype in kinds:
            timings = found[experts, name, dtype]
            best = {key: min(timing[key] for timing in timings) for key in timings[0]}
            first = first or best
            table.add_row(
                *(experts, f"{name}, {dtype.replace('old', 'float32')}"),
                *(f"{best['read']:.2f}", f"{best['question']:.2f}", f"{best['token'] * 1e3:.0f}"),
                *(f"{best[key] / first[key]:.2f}" for key in ("read", "question", "token")),
            )
    console.print(table)
    table = Table(
        "tree",
        "passages a second",
        "ordinary batches of 32",
        "times the first line",
        title="Embedding",
    )
    rate = 0.0
    for name, dtype in kinds:
        timings = found["texts", name, dtype]
        own, batches = (max(timing[key] for timing in timings) for key in ("own", "batches"))
        rate = rate or own
        table.add_row(
            f"{name}, {dtype.replace('old', 'float32')}",
            f"{own:.0f}",
            f"{batches:.0f}",
            f"{own / rate:.2f}",
        )
    console.print(table)


def _dtypes(name: str) -> tuple[str, ...]:
    return ("old",) if name == "before" else ("float32", "bfloat16")


def _child(tree: Path, what: str, dtype: str) -> dict[str, float]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(Path(__file__).resolve()), "--one", what, dtype],
        capture_output=True,
        text=True,
        check=True,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
