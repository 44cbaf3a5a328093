"""``evaluate images``: made-up names for pictures, with and without noise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag.cli import console, options
from dpicl_research import stand_ins
from dpicl_research.commands.evaluate_parts import GOES_ON, Out, names, numbers, show

# Beside the product, which knows no evaluation: classify-image finds the stand-ins by name too.
stand_ins.register()


Folder = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FOLDER]",
        help="Pictures: a folder for each class, or two halves called train and test; or a "
        "tar file of these. The benchmark's groceries by default.",
    ),
]
VisionModelName = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="vision-prototype or vision-words, which stand in for a vision-language model; "
        "or the folder or Hugging Face id of one.",
    ),
]
Methods = Annotated[
    str, typer.Option(metavar="NAMES", help="Methods separated by commas; see docs/methods.md.")
]
METHODS = "zero-shot,k-shot,soft,hard,poe,votes,votes-gaussian,permute-and-flip"
GroupSizes = Annotated[
    str, typer.Option(metavar="N,...", help="Pairs that one expert reads, on average.")
]
ReadsWords = Annotated[
    str | None,
    typer.Option("--language-model", metavar="MODEL", help="What reads the words of vision-words."),
]


@console.reported(GOES_ON)
def images(
    folder: Folder = None,
    model: VisionModelName = "vision-prototype",
    language_model: ReadsWords = None,
    methods: Methods = METHODS,
    pairs: Annotated[
        str, typer.Option(metavar="N,...", help="Pictures with names in the context.")
    ] = "4,8,20",
    group_sizes: GroupSizes = "1,2",
    epsilon: Annotated[str, typer.Option(metavar="N,...", help="Privacy of one label.")] = "1,4,8",
    delta: options.Delta = options.DELTA,
    seeds: Annotated[int, typer.Option(min=1, help="Contexts, with one query each.")] = 200,
    out: Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn made-up names for classes of pictures, and name one picture for each seed."""
    from dpicl_rag.accounting import Budget
    from dpicl_rag.vision import load_vision_model
    from dpicl_research import pseudo_names as evaluation
    from dpicl_research.image_tasks import load_image_task
    from dpicl_research.scores_folder import load_run

    arms = evaluation.arms(names(methods), numbers(group_sizes, "--group-sizes", int))
    epsilons = numbers(epsilon, "--epsilon", float)
    sizes = numbers(pairs, "--pairs", int)
    for each in epsilons:
        Budget(each, delta)  # checks them
    with console.status("Reading the pictures", quiet=quiet):
        task = load_image_task(folder)
    with console.status("Loading the model", quiet=quiet):
        loaded = load_vision_model(model, language_model)
    into = out or Path("runs") / f"{task.name}-{Path(model).name}"
    with console.Bar("Seeds", quiet=quiet, counts=True) as bar:
        evaluation.run(
            loaded,
            task,
            arms,
            into,
            pairs=sizes,
            seeds=seeds,
            epsilon=epsilons[0],
            delta=delta,
            on_progress=bar.update,
        )
    with console.Bar("Methods", quiet=quiet, counts=True) as bar:
        report = evaluation.build_images_report(load_run(into), arms, epsilons, delta, bar.update)
    show([report], as_json)
