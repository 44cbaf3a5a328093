"""``publish``: one budget buys a bundle of releases, which anybody may read without the corpus."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpicl_rag.cli import asking, console, data_folder, option_groups, options
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.requests import ReadBy, Request

if TYPE_CHECKING:
    from dpicl_rag.knowledge import PublishedItem

_RELEASED = "interrupted; the same command goes on, and what was released is paid for"


@dataclass(frozen=True)
class Wanted:
    """The items of a bundle. All of them are public."""

    survey: Annotated[
        bool,
        typer.Option("--survey/--no-survey", help="What the documents are about, with shares."),
    ] = True
    question: Annotated[
        list[str] | None,
        typer.Option("--question", help="A question to answer; may be given more than once."),
    ] = None
    questions: Annotated[
        Path | None,
        typer.Option("--questions", metavar="FILE", help="Questions to answer, one on each line."),
    ] = None
    count: Annotated[
        list[str] | None,
        typer.Option("--count", metavar="QUESTION", help="Count the units that say yes."),
    ] = None
    tally: Annotated[
        list[str] | None,
        typer.Option(
            "--tally",
            metavar="QUESTION=A,B,...",
            help="Count the units that say each label. Choose them without looking at the "
            "documents.",
        ),
    ] = None
    tally_by: Annotated[
        ReadBy,
        typer.Option("--tally-by", help="What reads units for it: the model, or stored vectors."),
    ] = "vectors"
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME[=A,B,...]",
            help="Count the units that have each of these values in a metadata column, or each "
            "value that enough of them have. A unit has one.",
        ),
    ] = None
    label_column: Annotated[
        list[str] | None,
        typer.Option(
            "--label-column",
            metavar="NAME=A,B,...",
            help="A label head of the texts that have these labels in a metadata column: new texts "
            "get one of them, by `classify --published`. A unit has one.",
        ),
    ] = None
    remembered: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Also the N remembered answers that were asked for most often, which cost nothing "
            "more. Their questions become public.",
        ),
    ] = 0
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also the records of this finished run of `synthesise corpus`, which had a budget "
            "of its own.",
        ),
    ] = None

    def requests(self) -> list[Request]:
        """What is asked of the documents, each question once."""
        from dpicl_rag.knowledge.bundle import ABOUT

        lines = () if self.questions is None else _lines(self.questions)
        asked = dict.fromkeys((*(self.question or ()), *lines))
        found = [Request.of(None, question=ABOUT)] if self.survey else []
        found += [Request.of("tally", by=self.tally_by, **_split(one)) for one in self.tally or ()]
        found += [Request.of_column(one) for one in self.column or ()]
        found += [Request.of_column(one, "label-head") for one in self.label_column or ()]
        found += [Request.of("count", question=one) for one in self.count or ()]
        return found + [Request.of(None, question=one) for one in asked]

    @property
    def model_reads(self) -> bool:
        """True where a language model reads documents."""
        by_model = bool(self.tally) and self.tally_by == "model"
        return bool(self.question or self.questions or self.count) or by_model


@console.reported(_RELEASED)
@option_groups.expanded
def publish(
    corpus: options.CorpusArgument,
    into: Annotated[Path, typer.Option("--into", metavar="FOLDER", help="Folder of the bundle.")],
    wanted: Wanted,
    *,
    epsilon: Annotated[
        float, typer.Option(help="Privacy of all items together; less is more private.")
    ] = 2.0,
    delta: options.Delta = options.DELTA,
    unit: Annotated[
        str | None,
        typer.Option(help="What one privacy unit is, for who reads the bundle, such as thread."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Release anew, and pay anew, where FOLDER holds a bundle already."
        ),
    ] = False,
    answering: option_groups.Answering,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the price of each item, and ask nothing.")
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Publish themes, counts and answers of a corpus for one budget, into a folder.

    The folder has nothing but what was released: give it to whom you like. `ask --published` and
    `serve --published` read it, for nothing and without the corpus. Interrupted, the same command
    goes on, and pays for nothing twice.
    """
    requests = wanted.requests()
    place = option_groups.Place(corpus, path, embedder)
    config = PrivacyConfig.create(delta=delta)
    with ExitStack() as stack:
        opened = stack.enter_context(asking.opened_corpus(place, quiet))
        from dpicl_rag.publishing import plan_publication, publish

        if plan:
            llm = stack.enter_context(
                asking.planning_model(config, answering.reader, opened.name, answering)
            )
            planned = plan_publication(llm, opened, requests, epsilon=epsilon, delta=delta)
            asking.print_plan(planned, as_json=as_json)
            return
        # A survey is of vectors, but by a model that can be silent; the default one cannot.
        reads = wanted.model_reads or answering.model is not None
        paying = answering if reads else answering.paying()
        llm = stack.enter_context(asking.asked_model(opened, place, config, paying, quiet))
        bar = stack.enter_context(console.Bar("Publishing", quiet=quiet, counts=True))
        made = publish(
            llm,
            opened,
            into,
            requests,
            epsilon=epsilon,
            delta=delta,
            beside=_beside(opened.name, wanted, answering),
            unit=unit,
            again=again,
            on_progress=bar.update,
        )
    cost = {"epsilon": made.epsilon, "delta": made.delta, "rho": made.rho}
    beside = {"lost": made.lost, "changes": made.changes, "release": made.release}
    if as_json:
        console.write_json({"folder": str(into), "items": len(made.items), **cost, **beside})
        return
    screen = console.stdout()
    for item in made.items:
        screen.print(console.printable(item.asked), style="bold", soft_wrap=True)
        screen.print(console.printable(item.text), soft_wrap=True)
    for change in made.changes:
        screen.print(console.printable(change), style="dim", soft_wrap=True)
    if made.lost:
        lost = "; ".join(made.lost)
        console.note(f"paid for and lost, as an earlier run was ended in between: {lost}")
    screen.print(f"{len(made.items)} items in {into}, release {made.release}", soft_wrap=True)
    spent = f"spent at most: epsilon {epsilon:g}, delta {delta:g}, rho {made.rho:.4g}"
    note = " (not recorded)" if answering.no_ledger else ""
    screen.print(f"{spent}{note}, all together", style="dim", soft_wrap=True)


def _beside(corpus: str, wanted: Wanted, answering: option_groups.Answering) -> list[PublishedItem]:
    """Items that were released before: remembered answers of the caller, and records."""
    from dpicl_rag.knowledge.answer_file import MemoryScope, part_of
    from dpicl_rag.publishing import records_item, remembered_items
    from dpicl_rag.synthesis.released_records import RECORDS_FILE, Synthesis

    found: list[PublishedItem] = []
    if wanted.remembered:
        caller = None if answering.shared else answering.caller or ""
        with data_folder.open_answers(answering.ledger) as answers:
            scope = MemoryScope(corpus, caller, part_of(None))
            found += remembered_items(answers.most_asked(scope, wanted.remembered))
    if wanted.records is not None:
        found.append(records_item(Synthesis.read(wanted.records / RECORDS_FILE)))
    return found


def _split(given: str) -> dict[str, object]:
    """The question and the labels of a tally.

    Raises:
        BadParameter: There are fewer than two labels.
    """
    question, _, labels = given.rpartition("=")
    found = tuple(one.strip() for one in labels.split(",") if one.strip())
    if len(set(found)) < 2:
        raise typer.BadParameter("give QUESTION=A,B with two labels or more", param_hint="--tally")
    return {"question": question.strip(), "labels": found}


def _lines(file: Path) -> list[str]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(
            f"{file} cannot be read; give a text file with a question on each line"
        ) from None
    return [line.strip() for line in lines if line.strip()]
