"""``classify`` and ``classify-image``: one of several labels, by documents or pictures."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag.cli import console, data_folder, file_budgets, option_groups, options
from dpicl_rag.cli.asking import asked_model, opened_corpus, print_spent, tell_calls
from dpicl_rag.configuration import ImageMethodName, PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.results import cost_of

_RELEASED = "interrupted; what was released is paid for"


@console.reported(_RELEASED)
@option_groups.expanded
def classify(
    question: options.QuestionArgument,
    label: options.Labels,
    source: option_groups.Source,
    *,
    settings: option_groups.SettingOptions,
    answering: option_groups.Answering,
    reading: option_groups.MaxCallsOptions,
    choosing: option_groups.ChoosingOptions,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose one of several labels by a corpus.

    One draw, purely epsilon-DP (delta is 0) but for votes-gaussian and after a private search.
    """
    options.at_least_two(label)
    with ExitStack() as stack:
        opened = stack.enter_context(opened_corpus(source, quiet))
        search = data_folder.search_of(opened, source)
        config = PrivacyConfig.create(**settings, **reading)
        llm = stack.enter_context(asked_model(opened, source, config, answering, quiet))
        if answering.reader is not None:
            tell_calls(search.aim, config.max_calls)
        bar = stack.enter_context(console.Bar("Reading the documents", quiet=quiet))
        chosen = llm.classify(question, search, label, on_progress=bar.update, **choosing)
    if as_json:
        console.write_json({"label": chosen.label, **cost_of(chosen)})
        return
    console.show(chosen.label)
    print_spent(chosen, recorded=not answering.no_ledger)


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
