"""Answers from a reader's notes alone: how many are right, for how many calls?

``python -m benchmarks.readers --questions 20`` asks the questions of ``benchmarks.quality medical``
with no language model. A *perfect* reader states what a record states, which is what the best chat
model could; ``--reader chat+http://HOST:PORT/v1#MODEL`` asks a real one. The data are found through
DPICL_RAG_DATA.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence

import platformdirs
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.quality import compose, leaked_names, make_cases, names, read_records
from dpicl_rag import Corpus, Document, PrivateContextLLM
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.readers.as_reader import as_reader
from dpicl_rag.language_models.readers.base import Reader

EPSILONS = (8.0, 4.0, 2.0)
_STATED = re.compile(r"The disease is [^.]+\.")


def perfect(prompt: str) -> str:
    """The sentence of the record in a prompt that names the disease."""
    found = _STATED.search(prompt)
    return found.group() if found else "NOTHING"


class Counting:
    """A reader whose calls are counted.

    Attributes:
        calls: So far.
    """

    def __init__(self, given: str | Callable[[str], str]) -> None:
        self._reader: Reader = as_reader(given)
        self.fingerprint = self._reader.fingerprint
        self.calls = 0

    def replies(self, prompts: Sequence[str], on_progress: Progress | None = None) -> list[str]:
        """See `Reader`."""
        self.calls += len(prompts)
        return self._reader.replies(prompts, on_progress)


def main() -> None:
    """Ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--reader", help="an address; the perfect reader otherwise")
    options = parser.parse_args()
    records, console = read_records(), Console(stderr=True)
    cases = make_cases(records, options.questions, 0)
    store = platformdirs.user_cache_path("dpicl-rag") / "benchmarks"
    with console.status("embedding the records (kept for the next run)"):
        corpus = Corpus.create("medical", path=store)
        corpus.add([Document(compose(r), f"record-{i}") for i, r in enumerate(records)])
    reader = Counting(options.reader or perfect)
    headings = ("epsilon", "right", "silent", "patients leaked", "calls", "seconds", "mean rho")
    table = Table(*headings)
    for epsilon in EPSILONS:
        llm = PrivateContextLLM(reader=reader, epsilon=epsilon, agreement="only", delta=1e-5)
        reader.calls, begun, told, rho = 0, time.perf_counter(), [], 0.0
        for case in track(cases, f"epsilon {epsilon:g}", console=console):
            answer = llm.answer(case.question, corpus)
            told.append(answer.text)
            rho += answer.rho
        number = len(cases)
        right = sum(names(text, case.disease) for text, case in zip(told, cases, strict=True))
        table.add_row(
            f"{epsilon:g}",
            f"{right} of {number}",
            str(sum(not text for text in told)),
            str(leaked_names(told, records)),
            f"{reader.calls / number:.0f}",
            f"{(time.perf_counter() - begun) / number:.2f}",
            f"{rho / number:.3f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
