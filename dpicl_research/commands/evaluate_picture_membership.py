"""``evaluate membership-images``: attacks on private and plain names of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag.cli import console, options
from dpicl_research.commands.evaluate_images import (
    METHODS,
    Folder,
    GroupSizes,
    Methods,
    ReadsWords,
    VisionModelName,
)
from dpicl_research.commands.evaluate_parts import GOES_ON, Out, names, numbers, show


@console.reported(GOES_ON)
def membership_images(
    folder: Folder = None,
    model: VisionModelName = "vision-prototype",
    language_model: ReadsWords = None,
    methods: Methods = METHODS,
    pairs: Annotated[
        int, typer.Option(min=1, help="Pictures in the context; as many others are attacked too.")
    ] = 10,
    group_sizes: GroupSizes = "1",
    epsilon: options.Epsilon = 4.0,
    delta: options.Delta = options.DELTA,
    seeds: Annotated[int, typer.Option(min=2, help="Contexts to draw at random.")] = 50,
    out: Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack made-up names of pictures: is a picture in the context? Goes on like ``run``."""
    from dpicl_rag.accounting import Budget
    from dpicl_rag.vision import load_vision_model
    from dpicl_research import picture_membership, pseudo_names
    from dpicl_research.image_tasks import load_image_task
    from dpicl_research.membership import build_membership_report
    from dpicl_research.scores_folder import load_run

    budget = Budget(epsilon, delta)
    sizes = numbers(group_sizes, "--group-sizes", int)
    arms = pseudo_names.arms(names(methods), sizes)
    with console.status("Reading the pictures", quiet=quiet):
        task = load_image_task(folder)
    with console.status("Loading the model", quiet=quiet):
        loaded = load_vision_model(model, language_model)
    into = out or Path("runs") / f"{task.name}-{Path(model).name}-membership"
    with console.Bar("Pictures", quiet=quiet, counts=True) as bar:
        picture_membership.run(
            loaded,
            task,
            arms,
            into,
            pairs=pairs,
            seeds=seeds,
            epsilon=epsilon,
            delta=delta,
            on_progress=bar.update,
        )
    report = build_membership_report(load_run(into), [arm.method for arm in arms], budget)
    show([report], as_json)
