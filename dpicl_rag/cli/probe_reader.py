"""``probe-reader``: does a reader's reply depend on its own call alone?"""

from __future__ import annotations

from typing import Annotated

import typer

from dpicl_rag.cli import console, options

_EQUAL = "equal: {} public calls moved no reply (evidence, not proof)"
_MOVED = (
    "not equal: replies to the same public document differ. They follow from other calls (batches, "
    "a history), or they are drawn: set temperature 0 and try again. An answer's guarantee needs "
    "that a reply depends on its own call alone"
)


@console.reported()
def probe_reader(
    reader: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="A chat model: chat+http://HOST:PORT/v1#MODEL (its key is in DPICL_RAG_READER_KEY)"
            ".",
        ),
    ],
    calls: Annotated[
        int, typer.Option(min=32, metavar="N", help="Calls at most; whoever pays it pays them.")
    ] = 64,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """See whether a reader's replies change with what else it is asked.

    Made-up public documents are read alone and among others, in other orders. Ends with status 1
    where the same document gets another reply.
    """
    from dpicl_rag.language_models.readers.as_reader import independent
    from dpicl_rag.language_models.readers.chat_endpoint import chat_endpoint

    with console.Bar("Asking the reader", quiet=quiet) as bar:
        equal = independent(chat_endpoint(reader), calls=calls, on_progress=bar.update)
    if as_json:
        console.write_json({"equal": equal, "calls": calls})
    else:
        console.stdout().print(_EQUAL.format(calls) if equal else _MOVED, soft_wrap=True)
    if not equal:
        raise typer.Exit(1)
