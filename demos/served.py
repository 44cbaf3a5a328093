"""The email assistant's mailbox, served: a page to ask it, and an address for chat clients.

Run ``make demo`` or ``python -m demos.served``. The mailbox is made up; what it answers is what the
model says. Everything is in a temporary folder, which is gone when the server stops.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from demos.email_assistant import CORPUS, DELTA, EPSILON, MAX_TOKENS, TEMPLATE, ingest
from demos.inbox.generator import generate
from dpicl_rag import Corpus, Ledger
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.server.app import create_app
from dpicl_rag.server.run import make_server
from dpicl_rag.server.service import ServedCorpus, Service

SETTINGS = {
    "epsilon": EPSILON,
    "delta": DELTA,
    "max_tokens": MAX_TOKENS,
    "stop": ("\n",),
    "unsupported": "refuse",
}


def main(arguments: Sequence[str] = ()) -> int:
    """Fill a corpus, serve it until Ctrl-C, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=8321, help="0 takes a free one")
    parser.add_argument("--model", help="as `dpicl-rag serve` takes it; a toy by default")
    parser.add_argument("--seed", type=int, default=7, help="seed of the made-up mailbox")
    options = parser.parse_args(arguments)
    console = Console()
    box = generate(options.seed)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        ledger = Ledger(where / "ledger.sqlite")
        ledger.set_budget(corpus=CORPUS, epsilon=40.0, unit_epsilon=20.0, delta=DELTA)
        with Progress(*columns, console=console, transient=True) as progress:
            documents = ingest(box, where, progress)
            progress.add_task("embedding", total=None)
            corpus = Corpus.create(CORPUS, where)
            corpus.add(documents, ledger=ledger)
            progress.add_task("loading the model (the first time longer)", total=None)
            model = load_language_model(options.model)
        service = Service(
            model,
            {CORPUS: ServedCorpus(corpus, SETTINGS, TEMPLATE)},
            ledger,
            memory=where / "memory.sqlite",
        )
        app = create_app(service)
        server = make_server(app, host="127.0.0.1", port=options.port)

        def started(url: str) -> None:
            page = app.state.parts.run_key.address(url)
            # An address that is broken over two lines cannot be copied.
            console.print(
                f"\nOpen [link={page}]{page}[/link] and ask, for example:", soft_wrap=True
            )
            for fact in box.facts:
                console.print(f"  {fact.question}")
            console.print(f"What no answer should give away: {box.secrets[0].question}")
            key = app.state.parts.run_key.text
            clients = f"Chat clients: {url}v1, model {CORPUS}, key {key}. Ctrl-C ends it."
            console.print(clients, soft_wrap=True)

        server.run_until_stopped(started)
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(main(sys.argv[1:]))
