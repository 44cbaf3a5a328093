"""How fast are private answers? Ratios against what a user would run instead, in one run.

``python -m benchmarks.speed`` times, each in a process of its own: this library, the model's bare
forward passes over the same rows, InvisibleInk, the design of Sarus DP-RAG, and ordinary RAG.
``python -m benchmarks.speed blocks`` asks the email demo's questions with and without blocks.
``python -m benchmarks.speed memory`` answers from 512 experts.
``python -m benchmarks.speed large`` needs a GPU: a model of the shape of 8B with random weights.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.contenders import CONTENDERS, Timing, measure

CELLS = [(8, 64), (8, 256), (8, 1024), (32, 64), (32, 256), (128, 64)]
LARGE_CELLS = [(32, 1024), (128, 256), (128, 1024)]
LARGE_MODEL_CELLS = [(40, 256)]
PARTS = ["table", "blocks", "memory", "large"]
Results = dict[tuple[str, int, int], Timing]


def main() -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", default="table", choices=PARTS)
    parser.add_argument("--tokens", type=int, default=16, help="length of an answer")
    parser.add_argument("--large", action="store_true", help="the largest sizes too (hours)")
    parser.add_argument("--repeat", type=int, default=1, help="processes per figure; the best one")
    parser.add_argument("--out", type=Path, help="folder for speed.json and speed.png")
    parser.add_argument("--one", nargs=3, metavar=("NAME", "EXPERTS", "LENGTH"))
    options = parser.parse_args()
    if options.one:
        name, experts, length = options.one
        large = options.part == "large"
        found = measure(name, int(experts), int(length), options.tokens, large=large)
        print(json.dumps(found and asdict(found)))
        return 0
    console = Console(width=120)
    console.print(machine())
    if options.part == "blocks":
        return blocks(console)
    if options.part == "memory":
        return memory(console)
    cells = CELLS + (LARGE_CELLS if options.large else [])
    if options.part == "large":
        import torch

        if not torch.cuda.is_available():
            console.print("this part needs a GPU")
            return 1
        cells = LARGE_MODEL_CELLS
    results = run(options.part, cells, options.tokens, options.repeat, console)
    console.print(ratios(results, cells))
    console.print(absolute(results, cells))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        rows = [
            {"contender": name, "experts": n, "length": length, **asdict(timing)}
            for (name, n, length), timing in results.items()
        ]
        (options.out / "speed.json").write_text(json.dumps(rows, indent=1))
        plot(results, cells, options.out / "speed.png")
    return 0


def machine() -> str:
    """Versions and the machine, in one line."""
    import torch
    import transformers

    return (
        f"Python {platform.python_version()}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        "SmolLM2-135M-Instruct float32"
    )


def run(
    part: str, cells: Sequence[tuple[int, int]], tokens: int, repeat: int, console: Console
) -> Results:
    """Every contender at every size, each in a process of its own."""
    results: Results = {}
    jobs = [(name, *cell) for cell in cells for name in CONTENDERS for _ in range(repeat)]
    with Progress(console=console, transient=True) as progress:
        for job in progress.track(jobs, description="timing"):
            found = _child(part, *job, tokens)
            if found is None:
                continue
            best = results.setdefault(job, found)
            if found.per_token < best.per_token:
                best.per_token, best.aggregation = found.per_token, found.aggregation
            best.first_token = min(best.first_token, found.first_token)
            if best.warm_first_token and found.warm_first_token:
                best.warm_first_token = min(best.warm_first_token, found.warm_first_token)
    return results


def _child(part: str, name: str, experts: int, length: int, tokens: int) -> Timing | None:
    arguments = ["--one", name, str(experts), str(length), "--tokens", str(tokens)]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "benchmarks.speed", part, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return None if found is None else Timing(**found)


def ratios(results: Results, cells: Sequence[tuple[int, int]]) -> Table:
    """This library against the others: below 1, or times as fast, as the heads say."""
    heads = [
        "experts",
        "tokens each",
        "step / bare",
        "aggregation",
        "cold / bare",
        "warm / cold",
        "faster than invink",
        "than sarus",
        "step / ordinary RAG",
    ]
    table = Table(*heads, title="Ratios", title_justify="left")
    for n, length in cells:
        mine = results[("private", n, length)]
        other = {name: results.get((name, n, length)) for name in CONTENDERS}

        def cell(value: float | None, form: str = "{:.2f}") -> str:
            return "does not fit" if value is None else form.format(value)

        def step(timing: Timing | None) -> float | None:
            return None if timing is None else timing.per_token / mine.per_token  # noqa: B023

        bare = other["bare"]
        assert bare is not None
        assert mine.aggregation is not None
        assert mine.warm_first_token is not None
        ordinary = other["ordinary"]
        table.add_row(
            str(n),
            str(length),
            cell(mine.per_token / bare.per_token),
            cell(mine.aggregation / mine.per_token, "{:.1%}"),
            cell(mine.first_token / bare.first_token),
            cell(mine.warm_first_token / mine.first_token),
            cell(step(other["invink"]), "{:.1f} x"),
            cell(step(other["sarus"]), "{:.1f} x"),
            cell(None if ordinary is None else mine.per_token / ordinary.per_token, "{:.1f}"),
        )
    return table


def absolute(results: Results, cells: Sequence[tuple[int, int]]) -> Table:
    """Seconds to the first token, tokens per second, peak memory."""
    table = Table(
        "experts",
        "tokens each",
        "contender",
        "first token, s",
        "warm, s",
        "tokens / s",
        "peak, GB",
        title="Absolute",
        title_justify="left",
    )
    for n, length in cells:
        for name in CONTENDERS:
            timing = results.get((name, n, length))
            if timing is None:
                continue
            table.add_row(
                str(n),
                str(length),
                name,
                f"{timing.first_token:.2f}",
                "" if timing.warm_first_token is None else f"{timing.warm_first_token:.2f}",
                f"{1 / timing.per_token:.1f}",
                f"{timing.peak / 1e9:.1f}",
            )
    return table


def plot(results: Results, cells: Sequence[tuple[int, int]], file: Path) -> None:
    """Tokens per second and time to the first token, side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    labels = [f"{n} x {length}" for n, length in cells]
    width = 0.8 / (len(CONTENDERS) + 1)
    for at, name in enumerate(CONTENDERS):
        places = [i + at * width for i in range(len(cells))]
        found: list[Any] = [results.get((name, *cell)) for cell in cells]
        left.bar(places, [0 if t is None else 1 / t.per_token for t in found], width, label=name)
        right.bar(places, [0 if t is None else t.first_token for t in found], width, label=name)
    warm = [results[("private", *cell)].warm_first_token or 0.0 for cell in cells]
    right.bar(
        [i + len(CONTENDERS) * width for i in range(len(cells))], warm, width, label="private, warm"
    )
    left.set_ylabel("tokens per second")
    right.set_ylabel("seconds to the first token")
    right.set_yscale("log")
    for axes in (left, right):
        axes.set_xticks([i + 0.35 for i in range(len(cells))], labels)
        axes.set_xlabel("experts x tokens of each document")
        axes.legend(fontsize="small")
    figure.savefig(file, dpi=120)


def blocks(console: Console) -> int:
    """The email demo's questions, token by token and by blocks, from the same seeds."""
    import tempfile
    import warnings

    from demos.email_assistant import DELTA, EPSILON, MAX_TOKENS, TEMPLATE, ingest
    from demos.inbox.generator import generate
    from dpicl_rag import PrivateContextLLM, ThresholdRetriever
    from dpicl_rag.language_models.prefix_cache import PrefixCache

    warnings.simplefilter("ignore")  # seeded draws, so that both give the same answers
    box = generate(7)
    questions = [fact.question for fact in box.facts] + [s.question for s in box.secrets]
    cache = PrefixCache(memory=8 << 30)
    table = Table("question", "tokens", "same text", "plain, ms per token", "blocks of 4", "faster")
    total = {0: 0.0, 4: 0.0}
    with tempfile.TemporaryDirectory() as folder:
        with Progress(console=console, transient=True) as progress:
            corpus = ingest(box, Path(folder), progress)
        for question in questions:
            texts, seconds, tokens = {}, {}, 0
            for size in (0, 0, 4):  # the first one reads the documents
                llm = PrivateContextLLM(
                    template=TEMPLATE,
                    epsilon=EPSILON,
                    delta=DELTA,
                    max_tokens=MAX_TOKENS,
                    stop=("\n",),
                    seed=3,
                    block_tokens=size,
                    prefix_cache=cache,
                )
                began = time.perf_counter()
                with llm.stream(question, ThresholdRetriever(corpus, 0.5)) as stream:
                    for _ in stream:
                        pass
                seconds[size] = time.perf_counter() - began
                texts[size], tokens = stream.answer.text, stream.answer.tokens
            for size in total:
                total[size] += seconds[size]
            table.add_row(
                question,
                str(tokens),
                "yes" if texts[0] == texts[4] else "no",
                f"{1e3 * seconds[0] / tokens:.0f}",
                f"{1e3 * seconds[4] / tokens:.0f}",
                f"{seconds[0] / seconds[4]:.2f} x",
            )
        corpus.close()
    table.add_row("all", "", "", "", "", f"{total[0] / total[4]:.2f} x")
    console.print(table)
    return 0


def memory(console: Console) -> int:
    """512 experts of 256 tokens: does an answer end, and within how much memory?"""
    import resource

    from benchmarks.contenders import prompts
    from dpicl_rag.answering.decoding import decode
    from dpicl_rag.language_models.defaults import default_model
    from dpicl_rag.mechanisms.privacy_filters import FixedFilter
    from dpicl_rag.mechanisms.randomness import Randomness
    from dpicl_rag.mechanisms.selection import ExponentialMechanism
    from dpicl_rag.mechanisms.utilities import Surplus

    model, tokens = default_model("float32"), 8
    given = prompts(model, 512, 256)
    began = time.perf_counter()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("reading", total=1.0)
        rows = model.read(
            given.prefix,
            given.documents,
            room=len(given.suffix) + tokens,
            on_progress=lambda part, _: progress.update(task, completed=part),
        )
    read = time.perf_counter() - began
    drawn = list(
        decode(
            rows,
            given.suffix,
            ExponentialMechanism(Surplus(), strength=0.7),
            FixedFilter(1e9, 1e-3),
            Randomness(),
            max_tokens=tokens,
            stop_tokens=frozenset(),
        )
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    console.print(
        f"512 experts of 256 tokens: read in {read:.0f} s, {len(drawn)} tokens in "
        f"{time.perf_counter() - began - read:.0f} s, peak {peak / 1e9:.2f} GB "
        f"({peak / 2**30:.2f} GiB)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
