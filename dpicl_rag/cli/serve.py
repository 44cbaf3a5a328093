"""``serve`` and ``mcp``: corpora as models of an OpenAI-compatible server, and as agents' tools."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import (
    console,
    data_folder,
    file_budgets,
    option_groups,
    options,
    settings_file,
)
from dpicl_rag.cli.asking import TOY, rehearse
from dpicl_rag.cli.model_commands import chosen_model
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError, KeyFileError

if TYPE_CHECKING:
    from dpicl_rag.server.api_keys import KeyFile
    from dpicl_rag.server.audits import Auditor
    from dpicl_rag.server.regular_syncs import RegularSyncs
    from dpicl_rag.server.service import ServedCorpus, Service
    from dpicl_rag.server.settings import CorpusSettings

_NO_KEYS = (
    "No keys are in use: who has this address may ask, fill corpora and set budgets until the "
    "server ends. Clients send what stands behind # as their API key."
)


@dataclass(frozen=True)
class Serving:
    """The corpora that others may ask, and the models and files behind them."""

    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", metavar="NAME", help="A corpus to serve; all by default."),
    ] = None
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A TOML file with a table of settings for each corpus, in place of --corpus.",
        ),
    ] = None
    published: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="A bundle of `dpicl-rag publish`: it answers for nothing, and where no --corpus "
            "of its name is served beside it, without documents.",
        ),
    ] = None
    sync: options.Sync = None
    model: options.Model = None
    reader: options.ReaderOption = None
    path: options.StorePath = None
    embedder: options.Embedding = None
    ledger: options.LedgerPath = None

    def __post_init__(self) -> None:
        options.at_most_one({"--corpus": self.corpus or None, "--config": self.config})


@console.reported("stopped; what was released is paid for")
@option_groups.expanded
def serve(
    context: typer.Context,
    settings: option_groups.AnswerOptions,
    reading: option_groups.ReadingOptions,
    serving: Serving,
    *,
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
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="URL",
            help="A site whose pages may ask from a browser (CORS), such as https://chat.example.",
        ),
    ] = None,
    keys: options.KeysPath = None,
    quiet: options.Quiet = False,
) -> None:
    """Serve corpora: /v1/chat/completions for chat clients, /mcp for agents, and a page at /.

    Without keys (`dpicl-rag keys add`) it listens on this machine only, and shows a key for this
    run.
    """
    PrivacyConfig.create(**settings, **reading).require_reader(serving.reader)
    for module in ("fastapi", "uvicorn", "prometheus_client", "mcp"):
        optional(module, "dpicl-rag[server]")
    from dpicl_rag.corpora.folder import beside
    from dpicl_rag.server.admission import ServerLimits
    from dpicl_rag.server.app import create_app
    from dpicl_rag.server.request_log import RequestLog
    from dpicl_rag.server.run import make_server
    from dpicl_rag.server.settings import CorpusSettings
    from dpicl_rag.server.uploads import Uploads

    asks = serving.reader is None and not quiet
    serving = replace(serving, model=chosen_model(serving.model, asks=asks))
    with ExitStack() as stack:
        with console.status("Opening the corpora", quiet=quiet):
            file = _keys(keys)
            chosen = chosen_settings(serving, settings, context.obj)
            served = stack.enter_context(opened_corpora(chosen, serving))
            uploads = Uploads(
                serving.path,
                data_folder.load_embedder(serving.embedder),
                CorpusSettings.create(**settings),
            )
            stack.callback(uploads.close)
        with console.status("Loading the language model", quiet=quiet):
            memory = data_folder.memory_path(serving.ledger)
            service = open_service(served, serving, memory, **reading)
        if service.is_toy:
            console.note(TOY)
        limits = ServerLimits(together, waiting, each, a_minute, seconds)
        lines = {"none": None, "stdout": sys.stdout, "stderr": sys.stderr}[log]
        app = create_app(
            service=service,
            keys=file,
            limits=limits,
            request_log=RequestLog(lines, questions=log_questions),
            uploads=uploads,
            auditor=_auditor(serving),
            syncs=regular_syncs(serving, context.obj),
            published=beside(serving.path, "published"),
            origins=allow_origin or (),
        )
        server = make_server(app, host=host, port=port)

        def started(url: str) -> None:
            typer.echo(f"serving at {url}")
            if app.state.parts.run_key is not None:
                typer.echo(f"the owner's page: {app.state.parts.run_key.address(url)}")
                console.note(_NO_KEYS)

        server.run_until_stopped(started)


@console.reported()
@option_groups.expanded
def mcp(
    context: typer.Context,
    settings: option_groups.AnswerOptions,
    reading: option_groups.ReadingOptions,
    serving: Serving,
    *,
    caller: options.CallerOption = None,
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
    PrivacyConfig.create(**settings, **reading).require_reader(serving.reader)
    for module in ("fastapi", "mcp"):
        optional(module, "dpicl-rag[server]")
    from dpicl_rag.server.api_keys import Caller
    from dpicl_rag.server.tool_server import serve_tools

    with ExitStack() as stack:
        chosen = chosen_settings(serving, settings, context.obj)
        served = stack.enter_context(opened_corpora(chosen, serving))
        if not served:
            raise ConfigurationError(
                "there is no corpus to ask; make one with `dpicl-rag ingest PATH --corpus NAME`"
            )
        memory = None if no_memory else data_folder.memory_path(serving.ledger)
        service = open_service(served, serving, memory, **reading)
        # A thread that waits for a line of standard input would hold up every other end. The
        # ledger is made for this one: what was released is in it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Whatever any library prints goes to stderr: stdout is the protocol's.
        protocol = stack.enter_context(os.fdopen(os.dup(1), "w", encoding="utf-8"))
        sys.stdout.flush()
        os.dup2(2, 1)
        syncs = regular_syncs(serving, context.obj)
        asyncio.run(serve_tools(service, Caller(caller), protocol, syncs))


def chosen_settings(
    serving: Serving, settings: option_groups.AnswerOptions, file: settings_file.ChosenSettings
) -> dict[str, CorpusSettings]:
    """Settings of the corpora that are served, by name or address.

    Those that are named on the command line, of the file that is named there, of the settings file,
    or else all of a store.
    """
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.server.settings import CorpusSettings, read_settings

    if serving.config is not None:
        return read_settings(serving.config)
    if file.settings.corpora and not serving.corpus:
        return dict(file.settings.corpora)
    if serving.published and not serving.corpus:
        return {}  # the machine that it was made for has none
    every = serving.corpus or Corpus.names(serving.path)
    return {name: CorpusSettings.create(**settings) for name in every}


@contextmanager
def opened_corpora(
    chosen: Mapping[str, CorpusSettings], serving: Serving
) -> Iterator[dict[str, ServedCorpus]]:
    """Open corpora, to be served under their names, and bundles."""
    from dpicl_rag.knowledge import Bundle
    from dpicl_rag.server.service import ServedCorpus

    with ExitStack() as stack:
        served = {}
        for name, one in chosen.items():
            found = data_folder.open_corpus(name, serving.path, serving.embedder)
            opened = stack.enter_context(found)
            served[opened.name] = one.served(opened)
        for folder in serving.published or ():
            bundle = Bundle.open(folder, embedder=data_folder.load_embedder(serving.embedder))
            alone = ServedCorpus(bundle)
            served[bundle.corpus] = replace(served.get(bundle.corpus, alone), published=bundle)
        yield served


def regular_syncs(serving: Serving, file: settings_file.ChosenSettings) -> RegularSyncs | None:
    """Syncs of what is served, by the same store, ledger and settings file."""
    from dpicl_rag.server.regular_syncs import RegularSyncs, sync_command

    if serving.sync is None:
        return None
    places = {"--path": serving.path, "--embedder": serving.embedder, "--ledger": serving.ledger}
    words = _written(places)
    config = str(file.path) if file.path.exists() else None
    return RegularSyncs(serving.sync, sync_command(*words, config=config), console.complain)


def open_service(
    served: Mapping[str, ServedCorpus], serving: Serving, memory: Path | None, **settings: Any
) -> Service:
    """Corpora with the model that answers from them; it closes the ledger.

    Those that the settings file gives a budget have one from now on.
    """
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.language_models.readers.as_reader import as_reader
    from dpicl_rag.server.service import Service

    ledger = data_folder.open_ledger(serving.ledger)
    file_budgets.give_budgets(ledger, served)
    model = load_language_model(serving.model)
    if serving.reader is None:
        rehearse(model, quiet=False)
    return Service(
        model,
        served,
        ledger,
        memory=memory,
        embedder=data_folder.load_embedder(serving.embedder),
        reader=None if serving.reader is None else as_reader(serving.reader),
        **settings,
    )


def _auditor(serving: Serving) -> Auditor:
    """Audits with this server's model and store."""
    from dpicl_rag.corpora.folder import beside
    from dpicl_rag.server.audits import Auditor, audit_command

    words = _written(
        {"--path": serving.path, "--model": serving.model, "--embedder": serving.embedder}
    )
    known = option_groups.ANSWER_SETTINGS
    return Auditor(beside(serving.path, "audits"), audit_command(known, *words))


def _written(given: Mapping[str, object]) -> list[str]:
    """Options as words of a command line, as far as they were given."""
    return [word for name, value in given.items() if value for word in (name, str(value))]


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
