"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Name = Annotated[str, typer.Option("--corpus", metavar="NAME", help="Name of the corpus.")]
StorePath = Annotated[
    Path | None,
    typer.Option(
        "--path",
        metavar="STORE",
        envvar="DPICL_RAG_STORE",
        help="Folder of the Chroma database; your data folder by default.",
        show_default=False,
    ),
]
Embedding = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="MODEL",
        help="Embedding model of the corpus: a Hugging Face id or a folder; the packaged one by "
        "default.",
        show_default=False,
    ),
]
LedgerPath = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        envvar="DPICL_RAG_LEDGER",
        help="Where spending is recorded; ledger.sqlite in your data folder by default.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
