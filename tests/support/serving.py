"""A process that serves a made-up corpus, again and again, however often it is killed.

Usage: serving.py FOLDER [FAULT]. It imports everything, listens, and prints its port. Then for
every line on standard input it forks a server, prints its process number, waits for its end and
prints its status. So a server is there at once after a kill, and its clients need not look for it.

With the fault ``free``, the ledger forgets every third charge.
"""

from __future__ import annotations

import os
import socket
import sys
from itertools import count
from pathlib import Path

from dpicl_rag import Document, Ledger, PrivateContextLLM
from dpicl_rag.ledger import Reservation
from dpicl_rag.retrieval import GivenDocuments
from dpicl_rag.server.admission import ServerLimits
from dpicl_rag.server.api_keys import KeyFile
from dpicl_rag.server.app import create_app
from dpicl_rag.server.request_log import RequestLog
from dpicl_rag.server.run import make_server
from dpicl_rag.server.service import ServedCorpus, Service
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.paced_model import PacedModel

MAX_TOKENS = 8
SETTINGS = {
    "fixed": {"accounting": "fixed"},
    "individual": {"accounting": "individual"},
}
"""Of the corpora."""


def forget_charges() -> None:
    commit, numbers = Reservation.commit, count()

    def sometimes(self, *arguments, **options):
        if next(numbers) % 3:
            commit(self, *arguments, **options)

    Reservation.commit = sometimes


def warm() -> None:
    """Load what a first answer would."""
    llm = PrivateContextLLM(PacedModel(open=True), max_tokens=1, corpus="warm")
    llm.answer("Where?", GivenDocuments([Document("Here.", "unit")]))


def serve(folder: Path, listening: socket.socket) -> None:
    notes = [Document(f"The office is in Elm Lane {n}.", f"unit-{n}") for n in range(10)]
    corpora = {
        name: ServedCorpus(
            GivenDocuments(notes),
            # Without counts of whole answers, which cost much and show nothing.
            {"max_tokens": MAX_TOKENS, "unsupported": "ignore", "agreement": "off", **settings},
        )
        for name, settings in SETTINGS.items()
    }
    with (folder / "log.jsonl").open("a") as log:
        service = Service(
            PacedModel(open=True, seconds=0.002),
            corpora,
            Ledger(folder / "ledger.sqlite", busy_timeout=300.0),
            memory=folder / "memory.sqlite",
            embedder=BucketEmbedder(),
        )
        keys = KeyFile(folder / "keys.sqlite", busy_timeout=300.0)
        app = create_app(service, keys, ServerLimits(a_minute=1_000_000), RequestLog(log))
        server = make_server(app, host="127.0.0.1", port=0)
        server.run(sockets=[listening])


def main() -> None:
    folder = Path(sys.argv[1])
    if sys.argv[2:] == ["free"]:
        forget_charges()
    warm()
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)  # noqa: T201
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            serve(folder, listening)
            os._exit(0)
        print(child, flush=True)  # noqa: T201
        print(os.waitpid(child, 0)[1], flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
