"""``demo``: a made-up mailbox becomes a corpus with a budget, and is asked, command by command."""

from __future__ import annotations

import shlex
from contextlib import closing
from importlib.resources import as_file, files
from typing import Annotated

import typer

from dpicl_rag.cli import console, data_folder

CORPUS = "larkfield"
_MAILBOX = "larkfield.mbox.gz"  # as ``demos.inbox.generator`` writes it
_GO_ON = f"""
One mail has Maria Delgado's card number, and no answer has it; try:
  dpicl-rag demo "What is Maria Delgado's card number?"
What answers have spent, and a page to ask them (with dpicl-rag[server]):
  dpicl-rag budget show
  dpicl-rag serve --corpus {CORPUS}
Your own mailbox, in the place of the made-up one:
  dpicl-rag ingest inbox.mbox --corpus mail
  dpicl-rag corpora delete {CORPUS}"""


@console.reported()
def demo(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="What to ask.")] = "How long does a refund take?",
) -> None:
    """Ask a made-up mailbox, 305 mails of a support desk, by the commands that are printed."""
    root = context.find_root()
    config = root.params["config"]

    def run(*words: str) -> None:
        console.note(f"$ dpicl-rag {shlex.join(words)}")
        before = () if config is None else ("--config", str(config))
        status = root.command.main([*before, *words], prog_name="dpicl-rag", standalone_mode=False)
        if status:  # it has said what is wrong
            raise typer.Exit(status)

    if not _is_filled():
        with as_file(files(__package__) / _MAILBOX) as mailbox:
            run("ingest", str(mailbox), "--corpus", CORPUS, "--yes")
        run("budget", "set", "--corpus", CORPUS, "--epsilon", "20")
    run("ask", question, "--corpus", CORPUS)
    console.note(_GO_ON)


def _is_filled() -> bool:
    """False too where an earlier run ended before its mails were read."""
    from dpicl_rag.corpora import Corpus

    if CORPUS not in Corpus.names():
        return False
    with closing(data_folder.open_own_corpus(CORPUS, None, None)) as corpus:
        return any(True for _ in corpus.records())
