"""Membership inference on pictures: is this picture, with its made-up name, in the context?

Private PoEtry's fifth task beside its four of text, attacked in the same way (its appendix E.2; see
`dpicl_research.membership`). Per seed a context of n pictures is drawn from the classes that
have names, and 2n pictures are asked about: those of the context and n others of these classes.
The data is public and its coins are repeatable; this is not the private path.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.methods import make
from dpicl_rag.vision.base import Example, VisionModel, read_picture
from dpicl_research.context_rows import name_of
from dpicl_research.image_tasks import ImageTask
from dpicl_research.paper_protocol import shuffled, wanted_layouts
from dpicl_research.pseudo_names import (
    NAMES,
    Arm,
    check_size,
    named_classes,
    rows_of_pairs,
)
from dpicl_research.scores_folder import Record, Reporting, Settings, keep_scores


def run(
    model: VisionModel,
    task: ImageTask,
    wanted: Sequence[Arm],
    folder: Path,
    *,
    pairs: int,
    seeds: int,
    epsilon: float,
    delta: float,
    on_progress: Progress | None = None,
) -> None:
    """Ask about every picture of every seed that the folder does not have yet.

    `membership.build_membership_report` reads the run.

    Args:
        model: Reads pictures.
        task: The pictures; all of them come from its pool. Those that cannot be read are passed
            over.
        wanted: What will be attacked.
        folder: Where rows are kept; made if it is not there.
        pairs: Size n of the context, 1 or more.
        seeds: How many contexts.
        epsilon: Kept beside the rows, which do not depend on it.
        delta: The same.
        on_progress: Called with the number of pictures that were asked about, and of all.

    Raises:
        ConfigurationError: A number is below 1, a seed's classes have fewer than 2n pictures that
            can be read, or the folder holds another run.
    """
    if min(pairs, seeds) < 1:
        raise ConfigurationError("pairs and seeds must be at least 1")
    check_size(task, 2 * pairs)
    # The bare model is what likelihoods are compared with.
    rows = wanted_layouts([*(arm.method for arm in wanted), make("zero-shot")], [pairs])
    settings = Settings(
        task=task.name,
        data=task.digest(),
        model=model.fingerprint,
        experts=(pairs,),
        seeds=seeds,
        queries=2 * pairs,
        text_tokens=0,
        layouts=tuple(sorted(f"{name_of(layout)} of {n}" for layout, n in rows)),
        kind="membership",
    )
    reporting = Reporting(tuple(dict.fromkeys(a.method.name for a in wanted)), epsilon, delta)
    names = NAMES[: len(task.classes)]

    @lru_cache(1)  # seed after seed
    def drawn(seed: int) -> tuple[Example, ...]:
        return members_and_others(task, seed, pairs, model.side)

    def scored(seed: int, query: int) -> Record:
        both = drawn(seed)
        asked = both[query]
        found = rows_of_pairs(model, rows, seed, both[:pairs], asked.picture, names)
        return Record(seed, query, names, names.index(asked.label), found)

    keep_scores(folder, settings, reporting, scored, on_progress)


def members_and_others(task: ImageTask, seed: int, pairs: int, side: int) -> tuple[Example, ...]:
    """The context of a seed, and behind it as many other pictures of the same classes.

    Args:
        task: The pictures.
        seed: Which context.
        pairs: Size of the context.
        side: Of the pictures, in pixels.

    Raises:
        ConfigurationError: There are not so many that can be read.
    """
    names = named_classes(task, seed)
    known = [document for document in task.pool if document.text in names]
    found: list[Example] = []
    for place in shuffled(f"{seed}/members", len(known)):
        picture = read_picture(known[place].image, side)
        if picture is not None:
            found.append(Example(picture, NAMES[names[known[place].text]]))
        if len(found) == 2 * pairs:
            return tuple(found)
    raise ConfigurationError(
        f"{task.name}: {len(names)} classes have fewer than {2 * pairs} pictures together that can "
        "be read; give fewer pairs"
    )
