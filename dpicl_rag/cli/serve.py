"""``serve``: corpora over HTTP, as models of an OpenAI-compatible server."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
from dpicl_rag.errors import KeyFileError

if TYPE_CHECKING:
    from dpicl_rag.server.api_keys import KeyFile
    from dpicl_rag.server.audits import Auditor

_NO_KEYS = (
    "No keys are in use: who has this address may ask, fill corpora and set budgets until the "
    "server ends. Clients send what stands behind # as their API key."
)


@console.reported("stopped; what was released is paid for")
@option_groups.expanded
def serve(
    context: typer.Context,
    settings: option_groups.AnswerOptions,
    reading: option_groups.ReadingOptions,
    corpus: ServedCorpora = None,
    config: ServedConfig = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8321,
    together: Annotated[int, typer.Option(min=1, help="Answers under way at once.")] = 4,
    waiting: Annotated[int, typer.Option(min=0, help="Questions that may wait.")] = 32,
    each: Annotated[
        int, typer.Option(min=1, help="Questions of one key, under way or waiting.")
    ] = 8,
    a_minute: Annotated[int, typer.Option(min=1, help="Questions of one key a minute.")] = 60,
    seconds: Annotated[
        float, typer.Option(min=1, help="An answer ends at its next token after that.")
    ] = 300,
    log: Annotated[
        Literal["none", "stdout", "stderr"],
        typer.Option(help="Where a JSON line about every question goes."),
    ] = "none",
    log_questions: Annotated[
        bool, typer.Option("--log-questions", help="Write the questions into it too.")
    ] = False,
    sync: options.Sync = None,
    model: options.Model = None,
    reader: options.ReaderOption = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    keys: options.KeysPath = None,
    ledger: options.LedgerPath = None,
    quiet: options.Quiet = False,
) -> None:
    """Serve corpora: /v1/chat/completions for chat clients, /mcp for agents, and a page at /.

    Without keys (`dpicl-rag keys add`) it listens on this machine only, and shows a key for this
    run.
    """
    options.at_most_one({"--corpus": corpus or None, "--config": config})
    PrivacyConfig.create(**settings, **reading).require_reader(reader)
    for module in ("fastapi", "uvicorn", "prometheus_client", "mcp"):
        optional(module, "server")
    from dpicl_rag.server.app import create_app
    from dpicl_rag.server.limits import ServerLimits
    from dpicl_rag.server.request_log import RequestLog
    from dpicl_rag.server.run import make_server
    from dpicl_rag.server.settings import CorpusSettings
    from dpicl_rag.server.uploads import Uploads

    with ExitStack() as stack:
        with console.status("Opening the corpora", quiet=quiet):
            file = _keys(keys)
            chosen = chosen_settings(corpus, config, path, settings, context.obj)
            served = stack.enter_context(opened_corpora(chosen, path, embedder))
            uploads = Uploads(
                path,
                data_folder.load_embedder(embedder),
                CorpusSettings.create(**settings),
            )
            stack.callback(uploads.close)
        with console.status("Loading the language model", quiet=quiet):
            catalogue = open_catalogue(
                served,
                model,
                data_folder.open_ledger(ledger),
                memory=data_folder.memory_path(ledger),
                embedder=embedder,
                reader=reader,
                **reading,
            )
        limits = ServerLimits(together, waiting, each, a_minute, seconds)
        lines = {"none": None, "stdout": sys.stdout, "stderr": sys.stderr}[log]
        app = create_app(
            catalogue=catalogue,
            keys=file,
            limits=limits,
            request_log=RequestLog(lines, questions=log_questions),
            uploads=uploads,
            auditor=_auditor(model, path, embedder),
            syncs=regular_syncs(sync, context.obj, path=path, embedder=embedder, ledger=ledger),
        )
        server = make_server(app, host=host, port=port)

        def started(url: str) -> None:
            typer.echo(f"serving at {url}")
            if app.state.services.run_key is not None:
                typer.echo(f"the owner's page: {app.state.services.run_key.address(url)}")
                console.note(_NO_KEYS)

        server.run_until_stopped(started)


def _auditor(model: str | None, path: str | None, embedder: str | None) -> Auditor:
    """Audits with this server's model and store."""
    from dpicl_rag.corpora.folder import beside
    from dpicl_rag.server.audits import Auditor, audit_command

    given = {"--path": path, "--model": model, "--embedder": embedder}
    words = [word for name, value in given.items() if value for word in (name, value)]
    known = option_groups.ANSWER_SETTINGS
    return Auditor(beside(path, "audits"), audit_command(known, *words))


def _keys(path: Path | None) -> KeyFile | None:
    """The keys, if any were made. A file that is named must be there: without, anybody may ask."""
    from dpicl_rag.server.api_keys import KeyFile

    file = path or data_folder.default_keys()
    try:
        file.stat()
    except FileNotFoundError:
        if path is None:
            return None
        raise KeyFileError(
            f"there is no key file {path}; make a key with `dpicl-rag keys add NAME --keys {path}`"
        ) from None
    except OSError:
        raise KeyFileError(
            f"the key file {file} cannot be reached; check its permissions"
        ) from None
    return KeyFile(file)
