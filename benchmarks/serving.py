"""How much do questions that come at the same time gain, through HTTP?

``python -m benchmarks.serving`` serves the demo's mailbox and asks the same questions with 1, 2, 4,
8 and 16 clients at once. Documents were read before, coins are seeded, nothing is remembered: every
line draws the same answers. With one client they come one after the other.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import mean

import httpx
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.speed import machine
from demos.email_assistant import CORPUS, DELTA, TEMPLATE, ingest
from demos.inbox.generator import generate
from demos.served import SETTINGS
from dpicl_rag import Corpus, Ledger
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.server.admission import ServerLimits
from dpicl_rag.server.app import create_app
from dpicl_rag.server.run import make_server
from dpicl_rag.server.service import ServedCorpus, Service


@dataclass(frozen=True, slots=True)
class Told:
    """One answer as its client saw it.

    Attributes:
        text: What it said.
        tokens: Its length.
        first: Seconds to the first words or the end, whichever was there before.
        whole: Seconds to the end.
    """

    text: str
    tokens: int
    first: float
    whole: float


@dataclass(frozen=True, slots=True)
class Line:
    """What one number of clients got.

    Attributes:
        clients: How many ask at once.
        answers: What they were told, in the order of the questions.
        wall: Seconds in all.
        cpu: Processor seconds in all, those of the clients too.
    """

    clients: int
    answers: Sequence[Told]
    wall: float
    cpu: float

    @property
    def tokens(self) -> int:
        """Released tokens."""
        return sum(answer.tokens for answer in self.answers)


@contextmanager
def served(
    folder: Path, together: int, units: int | None, max_tokens: int | None
) -> Iterator[tuple[str, str]]:
    """The address of a server of the demo's mailbox, and the key of its owner."""
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.set_budget(corpus=CORPUS, rho=1e5, unit_rho=1e5)
    with Progress(transient=True) as progress:
        documents = ingest(generate(7), folder, progress)
    corpus = Corpus.create(CORPUS, path=folder / "chroma")
    corpus.add(documents, ledger=ledger)
    settings = {**SETTINGS, "delta": DELTA, "seed": 1}
    settings |= {} if units is None else {"units": units}
    settings |= {} if max_tokens is None else {"max_tokens": max_tokens}
    service = Service(
        load_language_model(None), {CORPUS: ServedCorpus(corpus, settings, TEMPLATE)}, ledger
    )
    limits = ServerLimits(together=together, waiting=64, each=64, a_minute=10**6)
    app = create_app(service, limits=limits)
    server = make_server(app, host="127.0.0.1", port=0)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.parts.run_key.text
    finally:
        server.should_exit = True
        thread.join(60)
        corpus.close()


def ask(client: httpx.Client, question: str) -> Told:
    """Ask and read to the end."""
    begin, first, text, tokens = time.perf_counter(), 0.0, "", 0
    body = {
        "model": CORPUS,
        "messages": [{"role": "user", "content": question}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                first = first or (time.perf_counter() - begin if text else 0.0)
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    whole = time.perf_counter() - begin
    return Told(text, tokens, first or whole, whole)


def measure(url: str, key: str, questions: Sequence[str], clients: int) -> Line:
    """Ask all questions, so many at once."""
    headers, limits = {"Authorization": f"Bearer {key}"}, httpx.Limits(max_connections=64)
    with (
        httpx.Client(base_url=url, headers=headers, timeout=600, limits=limits) as client,
        ThreadPoolExecutor(clients) as pool,
    ):
        wall, cpu = time.perf_counter(), time.process_time()
        answers = list(pool.map(lambda question: ask(client, question), questions))
        return Line(clients, answers, time.perf_counter() - wall, time.process_time() - cpu)


def table(lines: Sequence[Line]) -> Table:
    """One row for each number of clients; ratios against the first."""
    found = Table(
        "clients",
        "answers/s",
        "tokens/s",
        "times the first",
        "CPU s a token",
        "times less",
        "s to the first words",
        "s an answer",
    )
    first = lines[0]
    for line in lines:
        found.add_row(
            str(line.clients),
            f"{len(line.answers) / line.wall:.2f}",
            f"{line.tokens / line.wall:.2f}",
            f"{first.wall / line.wall * line.tokens / first.tokens:.2f}",
            f"{line.cpu / line.tokens:.3f}",
            f"{first.cpu / line.cpu * line.tokens / first.tokens:.2f}",
            f"{mean(answer.first for answer in line.answers):.1f}",
            f"{mean(answer.whole for answer in line.answers):.1f}",
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--questions", type=int, default=16, help="of each line")
    parser.add_argument("--together", type=int, default=ServerLimits().together, help="see `serve`")
    parser.add_argument("--units", type=int, help="about how many documents; the default if none")
    parser.add_argument("--max-tokens", type=int, help="of an answer; the demo's if none")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    console = Console(width=120)
    asked = list(islice(cycle(fact.question for fact in generate(7).facts), options.questions))
    with tempfile.TemporaryDirectory() as folder:
        sizes = options.together, options.units, options.max_tokens
        with served(Path(folder), *sizes) as (url, key):
            measure(url, key, sorted(set(asked)), 1)  # reads the documents
            lines = [measure(url, key, asked, clients) for clients in options.clients]
    said = [[answer.text for answer in line.answers] for line in lines]
    console.print(machine())
    console.print(table(lines))
    same = all(one == said[0] for one in said)
    console.print(f"the same answers in every line: {'yes' if same else 'NO'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
