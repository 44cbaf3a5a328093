"""What commands that serve corpora to others have in common: their corpora and their model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl_rag.cli import console, data_folder, file_budgets, option_groups, settings_file

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger
    from dpicl_rag.server.catalogue import Catalogue, Served
    from dpicl_rag.server.regular_syncs import RegularSyncs
    from dpicl_rag.server.settings import CorpusSettings

ServedCorpora = Annotated[
    list[str] | None,
    typer.Option("--corpus", metavar="NAME", help="A corpus to serve; all by default."),
]
ServedConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A TOML file with a table of settings for each corpus, in place of --corpus.",
    ),
]


def chosen_settings(
    names: list[str] | None,
    config: Path | None,
    path: str | None,
    settings: option_groups.AnswerOptions,
    file: settings_file.ChosenSettings,
) -> dict[str, CorpusSettings]:
    """Settings of the corpora that are served, by name or address.

    Those that are named on the command line, of the file that is named there, of the settings file,
    or else all of a store.
    """
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.server.settings import CorpusSettings, read_settings

    if config is not None:
        return read_settings(config)
    if file.settings.corpora and not names:
        return dict(file.settings.corpora)
    every = names or Corpus.names(path)
    return {name: CorpusSettings.create(**settings) for name in every}


@contextmanager
def opened_corpora(
    chosen: Mapping[str, CorpusSettings], path: str | None, embedder: str | None
) -> Iterator[dict[str, Served]]:
    """Open corpora, to be served under their names."""
    with ExitStack() as stack:
        served = {}
        for name, one in chosen.items():
            opened = stack.enter_context(data_folder.open_corpus(name, path, embedder))
            served[opened.name] = one.served(opened)
        yield served


def regular_syncs(
    every: int | None,
    file: settings_file.ChosenSettings,
    *,
    path: str | None,
    embedder: str | None,
    ledger: Path | None,
) -> RegularSyncs | None:
    """Syncs of what is served, by the same store, ledger and settings file."""
    from dpicl_rag.server.regular_syncs import RegularSyncs, sync_command

    if every is None:
        return None
    given = {"--path": path, "--embedder": embedder, "--ledger": ledger}
    words = [word for name, value in given.items() if value for word in (name, str(value))]
    config = str(file.path) if file.path.exists() else None
    return RegularSyncs(every, sync_command(*words, config=config), console.complain)


def open_catalogue(
    served: Mapping[str, Served],
    model: str | None,
    ledger: Ledger,
    *,
    memory: Path | None,
    embedder: str | None,
    reader: str | None,
    **settings: Any,
) -> Catalogue:
    """Corpora with the model that answers from them; it closes the ledger.

    Those that the settings file gives a budget have one from now on. Further arguments are settings
    of all corpora.
    """
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.language_models.readers.as_reader import as_reader
    from dpicl_rag.server.catalogue import Catalogue

    file_budgets.give_budgets(ledger, served)
    return Catalogue(
        load_language_model(model),
        served,
        ledger,
        memory=memory,
        embedder=data_folder.load_embedder(embedder),
        reader=None if reader is None else as_reader(reader),
        **settings,
    )
