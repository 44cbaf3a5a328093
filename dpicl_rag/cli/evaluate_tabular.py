"""``evaluate tabular``: labels of table rows from demonstrations that were released privately."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag.cli import console, options
from dpicl_rag.cli.evaluate_tables import show_tables
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import NotPrivateWarning


@console.reported("interrupted; the same command goes on where it stopped")
def tabular(
    task: Annotated[
        str,
        typer.Option(
            metavar="TASKS",
            help="adult, bank, blood, calhousing, car, diabetes, heart, jungle, separated by "
            "commas; or all.",
        ),
    ] = "all",
    schema: Annotated[
        str | None,
        typer.Option(metavar="TOML", help="Of your own data, with --train and --test."),
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Rows that play the private ones.")] = None,
    test: Annotated[Path | None, typer.Option(help="Rows to label.")] = None,
    epsilon: Annotated[str, typer.Option(metavar="NUMBERS", help="Of each release.")] = "1,10",
    k: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Demonstrations in a prompt, powers of two.")
    ] = "4",
    seeds: Annotated[int, typer.Option(min=1, help="Releases, demonstrations and queries.")] = 5,
    queries: Annotated[int, typer.Option(min=1, help="Queries of a seed and a task.")] = 30,
    model: options.Model = None,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder of the run; one that was interrupted goes on."),
    ] = Path("runs/tabular"),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Answer with private demonstrations; beside classifiers that need no language model.

    The folder's results.md has all data sets side by side.
    """
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.research import table_labels as evaluation
    from dpicl_rag.research.table_tasks import load_tables, table_task
    from dpicl_rag.tabular.schema import PACKAGED, Schema

    own = (schema, train, test)
    if any(part is not None for part in own):
        if schema is None or train is None or test is None:
            raise ConfigurationError("your own data needs --schema, --train and --test")
        tasks = [table_task(Path(schema).stem, Schema.read(schema), train, test)]
    else:
        names = PACKAGED if task == "all" else [name.strip() for name in task.split(",")]
        with console.status("Reading the tables", quiet=quiet):
            tasks = load_tables(names)
    epsilons = tuple(options.numbers(epsilon, "--epsilon", float))
    ks = tuple(options.numbers(k, "--k", int))
    evaluation.arms(epsilons, ks)  # checks them
    with (
        console.told(NotPrivateWarning),
        console.status("Loading the language model", quiet=quiet),
    ):
        loaded = load_language_model(model, PrefixCache(2 << 30))
    digests = {one.name: one.digest for one in tasks}
    settings = evaluation.Settings(loaded.fingerprint, epsilons, ks, queries, seeds, digests)
    with console.Bar("Queries", quiet=quiet, counts=True) as bar:
        evaluation.run(loaded, tasks, settings, out, bar.update)
    found, lines = evaluation.read_results(out)
    (out / "results.md").write_text(evaluation.overview(found, lines).markdown(), "utf-8")
    if as_json:
        console.write_json(evaluation.summary(found, lines))
        return
    show_tables(evaluation.tables(found, lines))
