"""``evaluate tabular``: labels of table rows from demonstrations that were released privately."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dpicl_rag.cli import console, options
from dpicl_rag.errors import ConfigurationError
from dpicl_research.commands.evaluate_parts import GOES_ON, language_model, names, numbers, show


@console.reported(GOES_ON)
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
    groups: Annotated[
        Literal["ours", "published", "code"],
        typer.Option(
            help="Groups of aggregates: of the schema, of DP-TabICL's Table VII, or of its code."
        ),
    ] = "ours",
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATES",
            help="Aggregates on samples too: numbers below 1, or published for the paper's own, "
            "separated by commas. The folder's sizes.md has them by size.",
        ),
    ] = None,
    redrawn: Annotated[
        bool,
        typer.Option(
            "--redrawn",
            help="Also draw rows anew for each query from one reconstruction of the reports, as "
            "DP-TabICL does; it costs nothing more.",
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Also perturb rows anew for each query; all queries of a seed share --epsilon.",
        ),
    ] = False,
    peers: Annotated[
        bool,
        typer.Option(
            "--peers", help="Beside private classifiers of diffprivlib, which must be installed."
        ),
    ] = False,
    t_tests: Annotated[
        bool,
        typer.Option(
            "--t-tests",
            help="Write t-tests.md: demonstrations against private classifiers, over seeds, and "
            "one-tailed over data sets as in DP-TabICL.",
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Folder of another model's run: write models.md, DP-TabICL's Table IV.",
        ),
    ] = None,
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
    from dpicl_rag.tabular.schema import PACKAGED, Schema
    from dpicl_research import table_labels as evaluation
    from dpicl_research.private_baselines import peer_models
    from dpicl_research.sample_sizes import sizes_by_accuracy
    from dpicl_research.t_tests import between_models, over_tasks, t_table
    from dpicl_research.table_arms import More, Settings, arms
    from dpicl_research.table_tasks import load_tables, table_task

    rates = () if rate is None else tuple(names(rate))
    more = More(groups, rates, redrawn, fresh, peers)
    if peers:
        peer_models()
    own = (schema, train, test)
    if more.of_the_paper and any(part is not None for part in own):
        raise ConfigurationError("published groups and rates are of the packaged tasks")
    if any(part is not None for part in own):
        if schema is None or train is None or test is None:
            raise ConfigurationError("your own data needs --schema, --train and --test")
        tasks = [table_task(Path(schema).stem, Schema.read(schema), train, test)]
    else:
        with console.status("Reading the tables", quiet=quiet):
            tasks = load_tables(PACKAGED if task == "all" else names(task))
    epsilons = tuple(numbers(epsilon, "--epsilon", float))
    ks = tuple(numbers(k, "--k", int))
    arms(epsilons, ks, more)  # checks them
    digests = {one.name: one.digest for one in tasks}
    with language_model(model, 2, quiet=quiet) as loaded:
        settings = Settings(loaded.fingerprint, epsilons, ks, queries, seeds, digests, more)
        with console.Bar("Queries", quiet=quiet, counts=True) as bar:
            evaluation.run(loaded, tasks, settings, out, bar.update)
    report = evaluation.read_report(out)
    (out / "results.md").write_text(report.overview().markdown(), "utf-8")
    if rates:
        (out / "sizes.md").write_text(sizes_by_accuracy(out).markdown(), "utf-8")
    if t_tests:
        tests = (t_table(out), over_tasks(out))
        (out / "t-tests.md").write_text("\n".join(one.markdown() for one in tests), "utf-8")
    if against is not None:
        (out / "models.md").write_text(between_models(out, against).markdown(), "utf-8")
    show([report], as_json)
