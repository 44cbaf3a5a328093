"""How does retrieval grow, from a thousand passages to a million?

``python -m benchmarks.scale`` makes corpora of random unit vectors, four short passages a unit, and
times, each in a process of its own: storing them, the first question of a new process, later
questions, questions that find more units, and questions of many threads. ``--checkout DIR`` has
another tree do the same first, size by size.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

SIZES = [1_000, 10_000, 100_000, 1_000_000]
FOUND = [10, 100, 1_000, 10_000]
CLIENTS = [1, 4, 16]
DIMENSIONS = 384
WORDS = 1000  # of a survey
PASSAGES = 4  # of a unit
CALL = 50_000  # documents handed over at a time
LATER = 7  # times that a later question is asked; the best counts
THRESHOLD = 0.5

Row = dict[str, Any]


class RandomVectors:
    """An embedder: text and question number n have a random unit vector each.

    The first units lie about a question of their own: ten about the first, a hundred about the
    second, and so on.
    """

    fingerprint = "random vectors"
    seconds = cpu = 0.0
    """Spent here, which storing is not charged for."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """See `Embedder.embed`."""
        began, cpu = time.perf_counter(), time.process_time()
        rows = self._embedded(texts, query)
        self.seconds += time.perf_counter() - began
        self.cpu += time.process_time() - cpu
        return rows

    def _embedded(self, texts: Sequence[str], query: bool) -> npt.NDArray[np.float32]:
        numbers = [int(text.split()[1]) for text in texts]
        if query:
            return np.stack([_random(-1 - number) for number in numbers])
        rows = np.stack([_random(number) for number in numbers])
        for row, number in enumerate(numbers):
            group = int(np.searchsorted(np.cumsum(FOUND), number // PASSAGES, side="right"))
            if group < len(FOUND):
                rows[row] = 0.8 * _random(-1 - group) + 0.6 * rows[row]
        return rows / np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float32)


def _random(number: int) -> npt.NDArray[np.float32]:
    drawn = np.random.default_rng(number + 1_000).standard_normal(DIMENSIONS, dtype=np.float32)
    found: npt.NDArray[np.float32] = drawn / np.linalg.norm(drawn)
    return found


def main() -> int:
    """Run; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="passages")
    parser.add_argument("--out", type=Path, help="folder for scale.json and scale.png")
    parser.add_argument("--checkout", type=Path, help="an older tree to compare with")
    parser.add_argument("--store", type=Path, help="folder for the corpora; kept if named")
    parser.add_argument("--one", nargs=4, metavar=("PART", "FOLDER", "SIZE", "BEGAN"))
    options = parser.parse_args()
    if options.one:
        part, folder, size, began = options.one
        print(json.dumps(_PARTS[part](Path(folder), int(size), float(began))))
        return 0
    console = Console(width=120)
    console.print(f"Python {platform.python_version()}, {os.cpu_count()} cores")
    trees = {"this": Path(__file__).parents[1]}
    if options.checkout is not None:
        trees = {"before": options.checkout.resolve(), **trees}
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() as temporary,
        Progress(console=console, transient=True) as bar,
    ):
        for size in bar.track(options.sizes, description="timing"):
            for name, tree in trees.items():
                folder = (options.store or Path(temporary)) / name / str(size)
                row: Row = {"tree": name, "passages": size}
                for part in _PARTS:
                    row.update(_child(part, folder, size, tree))
                rows.append(row)
            if options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                (options.out / "scale.json").write_text(json.dumps(rows, indent=1))
    console.print(markdown(rows), markup=False, soft_wrap=True)
    if options.out:
        plot([row for row in rows if row["tree"] == "this"], options.out / "scale.png")
    return 0


def _child(part: str, folder: Path, size: int, tree: Path) -> Row:
    arguments = ["--one", part, str(folder), str(size), str(time.time())]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "benchmarks.scale", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def _documents(first: int, end: int) -> Iterator[Any]:
    from dpicl_rag.documents import Document

    for number in range(first, end):
        text = f"passage {number} says a few words about what happened on that day"
        yield Document(text, f"unit {number // PASSAGES}")


def _store(folder: Path, size: int, began: float = 0.0) -> Row:
    """Store a corpus, by calls as a program makes them that reads its documents in parts."""
    from dpicl_rag.corpora import Corpus

    if folder.exists():
        return {}
    embedder = RandomVectors()
    corpus = Corpus.create("scale", folder, embedder=embedder)
    seconds, cpu = 0.0, 0.0
    for first in range(0, size, CALL):
        documents = list(_documents(first, min(first + CALL, size)))
        began, cpu_began = time.perf_counter(), time.process_time()
        corpus.add(documents)
        seconds += time.perf_counter() - began
        cpu += time.process_time() - cpu_began
    corpus.close()
    files = [path for path in folder.rglob("*") if path.is_file()]
    own = [path for path in files if path.suffix == ".vectors"]
    return {
        "stored a second": size / (seconds - embedder.seconds),
        "stored a CPU second": size / (cpu - embedder.cpu),
        "peak of storing, GB": _peak(),
        "disk, GB": sum(path.stat().st_size for path in files) / 1e9,
        "of it vectors, GB": sum(path.stat().st_size for path in own) / 1e9,
    }


def _ask(folder: Path, size: int, began: float) -> Row:
    """Questions of a new process, which was started at ``began``."""
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.retrieval import ThresholdRetriever

    corpus = Corpus.open("scale", folder, embedder=RandomVectors())
    retriever = ThresholdRetriever(corpus, THRESHOLD)
    found = len({document.unit for document in retriever.retrieve("question 0")})
    row: Row = {
        "first question, s": time.time() - began,
        "of it CPU, s": time.process_time(),
    }
    assert found == FOUND[0]
    row["later question, s"], row["its CPU, s"] = _seconds(retriever, 0)
    row["peak of asking, GB"] = _peak()
    for group, count in enumerate(FOUND):
        if sum(FOUND[: group + 1]) * PASSAGES <= size:
            row[f"{count} found, s"], row[f"{count} found, CPU s"] = _seconds(retriever, group)
    for clients in CLIENTS:
        row[f"{clients} clients, questions a second"] = _throughput(retriever, clients)
    corpus.close()
    return row


def _survey(folder: Path, size: int, began: float) -> Row:
    """A survey of the corpus, its vectors loaded and the words embedded before."""
    from dpicl_rag.configuration import PrivacyConfig
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.ledger import open_account
    from dpicl_rag.mechanisms.randomness import Randomness
    from dpicl_rag.requests import VOTES
    from dpicl_rag.surveys.count_plans import survey_plan
    from dpicl_rag.surveys.surveying import surveyed
    from dpicl_rag.surveys.vocabulary import Vocabulary

    corpus = Corpus.open("scale", folder, embedder=RandomVectors())
    words = Vocabulary.embedded([f"word {number}" for number in range(WORDS)], corpus.embedder)
    plan = survey_plan(PrivacyConfig.create(), WORDS, VOTES)
    blocks = corpus.unit_vectors().blocks
    started = time.perf_counter()
    with open_account(None, corpus="scale", rho=plan.rho) as account:
        surveyed(blocks, words, plan, VOTES, account, Randomness())
    seconds = time.perf_counter() - started
    corpus.close()
    return {"survey, s": seconds, "peak of a survey, GB": _peak()}


def _seconds(retriever: Any, question: int) -> tuple[float, float]:
    """Wall and CPU seconds of a question, the best of a few."""
    walls, cpus = [], []
    for _ in range(LATER):
        began, cpu = time.perf_counter(), time.process_time()
        retriever.retrieve(f"question {question}")
        walls.append(time.perf_counter() - began)
        cpus.append(time.process_time() - cpu)
    return min(walls), min(cpus)


def _throughput(retriever: Any, clients: int) -> float:
    each = max(2, 16 // clients)

    def work() -> None:
        for _ in range(each):
            retriever.retrieve("question 0")

    threads = [threading.Thread(target=work) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clients * each / (time.perf_counter() - began)


def _peak() -> float:
    """Peak resident memory of this process, GB; mapped pages count."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


_PARTS = {"store": _store, "ask": _ask, "survey": _survey}


def markdown(rows: Sequence[Row]) -> str:
    """Two tables: by passages, and by units found and threads."""
    first = [
        "tree",
        "passages",
        "stored a second",
        "stored a CPU second",
        "peak of storing, GB",
        "disk, GB",
        "of it vectors, GB",
        "first question, s",
        "of it CPU, s",
        "later question, s",
        "its CPU, s",
        "peak of asking, GB",
        "survey, s",
        "peak of a survey, GB",
    ]
    second = [
        "tree",
        "passages",
        *(f"{count} found, {unit}" for count in FOUND[1:] for unit in ("s", "CPU s")),
        *(f"{clients} clients, questions a second" for clients in CLIENTS),
    ]
    return "\n\n".join(_table(heads, rows) for heads in (first, second))


def _table(heads: Sequence[str], rows: Sequence[Row]) -> str:
    lines = [
        heads,
        ["---"] * len(heads),
        *([_cell(row.get(head)) for head in heads] for row in rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def plot(rows: Sequence[Row], file: Path) -> None:
    """Seconds and gigabytes by the number of passages."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    sizes = [row["passages"] for row in rows]
    names = {
        "of it CPU, s": "first question of a process",
        "its CPU, s": "later question",
        "10000 found, CPU s": "later, 10,000 units found",
    }
    for head in names:
        known = [(row["passages"], row[head]) for row in rows if head in row]
        left.plot(*zip(*known, strict=True), marker="o", label=names[head])
    left.set_ylabel("CPU seconds")
    for head in ("disk, GB", "of it vectors, GB", "peak of asking, GB"):
        right.plot(sizes, [row[head] for row in rows], marker="o", label=head.removesuffix(", GB"))
    right.set_ylabel("GB")
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("passages")
        axes.legend(fontsize="small")
    figure.savefig(file, dpi=120)


if __name__ == "__main__":
    sys.exit(main())
