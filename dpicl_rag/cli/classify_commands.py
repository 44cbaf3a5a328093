"""``classify``, ``classify-image`` and ``synthesise labels``: one of several labels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from dpicl_rag.cli import console, data_folder, file_budgets, option_groups, options, synthesise
from dpicl_rag.cli.asking import (
    asked_model,
    opened_corpus,
    print_booked,
    print_plan,
    print_spent,
    tell_calls,
)
from dpicl_rag.configuration import ImageMethodName, PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.results import cost_of

_RELEASED = "interrupted; what was released is paid for"


@console.reported(_RELEASED)
@option_groups.expanded
def classify(
    question: options.QuestionArgument,
    source: option_groups.AskedSource,
    label: options.Labels | None = None,
    *,
    settings: option_groups.SettingOptions,
    answering: option_groups.Answering,
    reading: option_groups.MaxCallsOptions,
    choosing: option_groups.ChoosingOptions,
    released: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="A label head of `dpicl-rag synthesise labels`: its labels are free, and no "
            "corpus is asked.",
        ),
    ] = None,
    published: options.Published = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose one of several labels by a corpus, or by a released label head.

    One draw, purely epsilon-DP (delta is 0) but for votes-gaussian and after a private search.
    """
    options.at_most_one({"--released": released, "--published": published})
    if released is not None or published is not None:
        _by_head(question, label or (), released, published, source.embedder, as_json=as_json)
        return
    options.at_least_two(label or ())
    if not source.corpus:
        hint = "give a corpus, --published or --released"
        raise typer.BadParameter(hint, param_hint="--corpus")
    with ExitStack() as stack:
        opened = stack.enter_context(opened_corpus(source, quiet))
        search = data_folder.search_of(opened, source)
        config = PrivacyConfig.create(**settings, **reading)
        llm = stack.enter_context(asked_model(opened, source, config, answering, quiet))
        if answering.reader is not None:
            tell_calls(search.aim, config.max_calls)
        with console.Bar("Reading the documents", quiet=quiet) as bar:
            chosen = llm.classify(question, search, label or (), on_progress=bar.update, **choosing)
        if as_json:
            console.write_json({"label": chosen.label, **cost_of(chosen)})
            return
        console.show(chosen.label)
        print_booked(chosen, llm, answering)


def _by_head(
    text: str,
    labels: Sequence[str],
    released: Path | None,
    published: Path | None,
    embedder: str | None,
    *,
    as_json: bool,
) -> None:
    """The label of a text by the head of a release or of a bundle; no corpus is asked."""
    from dpicl_rag.synthesis.label_head import LabelHead, published_label

    bundle = data_folder.open_bundle(published, embedder)
    if bundle is not None:
        chosen = published_label(bundle, text, labels)
        line = f"by a label head that was published on {bundle.published}; it costs nothing"
    else:
        head = LabelHead.open(released or "", embedder=data_folder.load_embedder(embedder))
        chosen = head.classify(text)
        line = f"by a head released once at epsilon {head.epsilon:g}, delta {head.delta:g}; free"
    if as_json:
        console.write_json({"label": chosen.label, **cost_of(chosen)})
        return
    console.show(chosen.label)
    console.show(line, style="dim")


@synthesise.app.command("labels")
@console.reported("interrupted; what was released is kept, and the same command shows it")
@option_groups.expanded
def label_head(
    labels: Annotated[
        str,
        typer.Option(metavar="A,B,...", help="The public list of labels; others are left out."),
    ],
    epsilon: Annotated[float, typer.Option(help="Of the whole release; less is more private.")],
    delta: options.Delta = options.DELTA,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder of the release; made again, it costs no more."
        ),
    ] = None,
    *,
    table: synthesise.LabelledTable,
    adjacency: Annotated[
        str, typer.Option(metavar="add_or_remove_one|replace_one", help="What neighbours are.")
    ] = "add_or_remove_one",
    plan: options.CostPlan = False,
    corpus: options.ChargedOption = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Release a label head of a private table: then labels are free, as many as you like."""
    from dpicl_rag.ledger import NoBudgetWarning
    from dpicl_rag.loaders.loader import check_private_table
    from dpicl_rag.synthesis.label_head import LabelHead, LabelHeadPlan, release_label_head
    from dpicl_rag.synthesis.pools import public_labels
    from dpicl_rag.tabular.charge import kept_release

    names = public_labels([label.strip() for label in labels.split(",")])
    neighbours = synthesise.adjacency_of(adjacency)
    planned = LabelHeadPlan(len(names), epsilon, delta, neighbours)
    if plan:
        print_plan(planned, as_json=as_json)
        return
    if out is None:
        raise ConfigurationError("give the folder of the release with --out, so it is paid once")
    model = data_folder.load_embedder(embedder)

    def draw() -> dict[str, Any]:
        with ExitStack() as stack:
            book = None
            if corpus is not None:
                book = stack.enter_context(file_budgets.open_book(ledger, corpus))
            private = table.read(quiet)
            with console.status("Embedding", quiet=quiet):
                head = release_label_head(
                    private,
                    names,
                    epsilon=epsilon,
                    delta=delta,
                    adjacency=neighbours,
                    embedder=model,
                    ledger=book,
                    corpus=corpus or "default",
                )
        return head.as_dict()

    settings = {
        **{"kind": "label head", "labels": list(names), "epsilon": epsilon, "delta": delta},
        **{"adjacency": adjacency, "columns": list(table.columns), "unit": table.unit},
        **{"corpus": corpus, "table": str(table.source.resolve()), "model": model.fingerprint},
    }
    with console.told(NoBudgetWarning):
        found = kept_release(
            out,
            settings,
            draw,
            lambda: check_private_table(table.source, table.columns, unit=table.unit),
        )
    head = LabelHead.of_dict(found, model)
    if as_json:
        console.write_json({"labels": list(head.labels), **planned.cost})
        return
    typer.echo(f"label head of {len(names)} labels; `dpicl-rag classify TEXT --released {out}`")
    print_spent(head, recorded=corpus is not None)


@console.reported(_RELEASED)
def classify_image(
    query: Annotated[Path, typer.Argument(metavar="IMAGE", help="The picture. It is public.")],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Private pictures, a folder for each label. A folder inside these is one privacy "
            "unit; any other picture is one by itself.",
        ),
    ],
    label: Annotated[
        list[str],
        typer.Option("--label", help="One of the labels, which are public; give it twice or more."),
    ],
    *,
    corpus: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose budget pays; the folder's name by default."),
    ] = None,
    method: Annotated[
        ImageMethodName, typer.Option(help="A published method; see docs/methods.md.")
    ] = "poe",
    epsilon: options.Epsilon = options.EPSILON,
    delta: options.Delta = options.DELTA,
    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Merge units into this many random groups, which pay twice; one expert each by "
            "default.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The folder or Hugging Face id of a vision-language model; or vision-prototype "
            "or vision-words, which stand in for one in evaluations. Always give one.",
            show_default=False,
        ),
    ] = None,
    language_model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="What reads the words of vision-words."),
    ] = None,
    caller: options.CallerOption = None,
    ledger: options.LedgerPath = None,
    no_ledger: options.NoLedger = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose one of several labels for a picture, by private pictures with labels."""
    from dpicl_rag import vision
    from dpicl_rag.loaders import load_images

    options.at_least_two(label)
    if model is None:
        raise ConfigurationError(
            "give --model, the folder or Hugging Face id of a vision-language model; "
            "vision-prototype and vision-words only stand in for one"
        )
    PrivacyConfig.create(epsilon=epsilon, delta=delta)  # checks them
    documents = load_images(folder).documents
    name = corpus or folder.resolve().name
    with file_budgets.open_book(ledger, None if no_ledger else name) as book:
        with console.status("Loading the model", quiet=quiet):
            loaded = vision.load_vision_model(model, language_model)
        with console.status("Reading the pictures", quiet=quiet):
            chosen = vision.classify_image(
                query,
                documents,
                label,
                model=loaded,
                method=method,
                ledger=book,
                corpus=name,
                caller=caller,
                epsilon=epsilon,
                delta=delta,
                groups=groups,
            )
    cost = cost_of(chosen)
    if as_json:
        console.write_json({"label": chosen.label, **cost})
        return
    console.show(chosen.label)
    spent = ", ".join(f"{name} {value:.4g}" for name, value in cost.items())
    note = " (not recorded)" if no_ledger else ""
    console.show(f"spent: {spent}{note}", style="dim")
