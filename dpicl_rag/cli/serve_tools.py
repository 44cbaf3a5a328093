"""``mcp``: corpora as tools of an agent, over standard input and output."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import ExitStack
from typing import Annotated

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import console, data_folder, option_groups, options
from dpicl_rag.cli.catalogues import (
    ServedConfig,
    ServedCorpora,
    chosen_settings,
    open_catalogue,
    opened_corpora,
    regular_syncs,
)
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError


@console.reported()
@option_groups.expanded
def mcp(
    context: typer.Context,
    settings: option_groups.AnswerOptions,
    reading: option_groups.ReadingOptions,
    corpus: ServedCorpora = None,
    config: ServedConfig = None,
    caller: options.CallerOption = None,
    sync: options.Sync = None,
    model: options.Model = None,
    reader: options.ReaderOption = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
    no_memory: Annotated[
        bool,
        typer.Option(
            "--no-memory", help="Neither read the answers that were released before nor keep these."
        ),
    ] = False,
) -> None:
    """Give an agent tools that ask corpora: the Model Context Protocol over standard input.

    An agent's program starts it and ends it (docs/agents.md). Every answer is paid for in the
    ledger. `serve` has the same tools at /mcp.
    """
    options.at_most_one({"--corpus": corpus or None, "--config": config})
    PrivacyConfig.create(**settings, **reading).require_reader(reader)
    for module in ("fastapi", "mcp"):
        optional(module, "mcp")
    from dpicl_rag.server.api_keys import Caller
    from dpicl_rag.server.tool_server import serve_tools

    with ExitStack() as stack:
        chosen = chosen_settings(corpus, config, path, settings, context.obj)
        served = stack.enter_context(opened_corpora(chosen, path, embedder))
        if not served:
            raise ConfigurationError(
                "there is no corpus to ask; make one with `dpicl-rag ingest PATH --corpus NAME`"
            )
        service = open_catalogue(
            served,
            model,
            data_folder.open_ledger(ledger),
            memory=None if no_memory else data_folder.memory_path(ledger),
            embedder=embedder,
            reader=reader,
            **reading,
        )
        # A thread that waits for a line of standard input would hold up every other end. The
        # ledger is made for this one: what was released is in it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Whatever any library prints goes to stderr: stdout is the protocol's.
        protocol = stack.enter_context(os.fdopen(os.dup(1), "w", encoding="utf-8"))
        sys.stdout.flush()
        os.dup2(2, 1)
        syncs = regular_syncs(sync, context.obj, path=path, embedder=embedder, ledger=ledger)
        asyncio.run(serve_tools(service, Caller(caller), protocol, syncs))
