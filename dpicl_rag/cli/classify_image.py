"""``classify-image``: one private label of a picture, from a folder of private pictures."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag.cli import console, file_budgets, options
from dpicl_rag.configuration import ImageMethodName
from dpicl_rag.errors import ConfigurationError


@console.reported("interrupted; what was released is paid for")
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
    from dpicl_rag.configuration import PrivacyConfig
    from dpicl_rag.loaders import load_images

    if len(label) < 2:
        raise typer.BadParameter("give at least two labels", param_hint="--label")
    if model is None:
        raise ConfigurationError(
            "give --model, the folder or Hugging Face id of a vision-language model; "
            "vision-prototype and vision-words only stand in for one"
        )
    PrivacyConfig.create(epsilon=epsilon, delta=delta)  # checks them
    documents = load_images(folder).documents
    with ExitStack() as stack:
        name = corpus or folder.resolve().name
        book = None if no_ledger else stack.enter_context(file_budgets.open_book(ledger, name))
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
    cost = {"epsilon": chosen.epsilon, "delta": chosen.delta, "rho": chosen.rho}
    if as_json:
        console.write_json({"label": chosen.label, **cost})
        return
    screen = console.stdout()
    screen.print(console.printable(chosen.label), soft_wrap=True)
    spent = ", ".join(f"{name} {value:.4g}" for name, value in cost.items())
    note = " (not recorded)" if no_ledger else ""
    screen.print(f"spent: {spent}{note}", style="dim", soft_wrap=True)
