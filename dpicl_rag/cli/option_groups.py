"""Options that commands share, in groups: a dataclass each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, get_args

import typer

from dpicl_rag.cli import options
from dpicl_rag.cli.options import FieldOptions
from dpicl_rag.configuration import UNITS, PrivacyConfig
from dpicl_rag.requests import CONVERSATION, FIELDS, Kind, Request

T = TypeVar("T")


def of_command_line(kind: Kind) -> tuple[str, ...]:
    """Fields of a request that are options of its command."""
    own = (*CONVERSATION, "labels", "vocabulary", "threshold")
    return tuple(name for name in FIELDS[kind] if name not in own)


@dataclass(frozen=True)
class Place:
    """A corpus, and where it is."""

    corpus: options.CorpusName
    path: options.StorePath = None
    embedder: options.Embedding = None


@dataclass(frozen=True)
class Source(Place):
    """The units of a corpus that are read for a question."""

    units: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Read about this many units, the closest: a threshold is chosen from noisy "
            "counts, which come out of --epsilon, and the last of them pass by secret coins. "
            f"{UNITS} by default.",
        ),
    ] = None
    threshold: options.ThresholdOption = None
    top_k: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="UNITS",
            help="Use this many units, the closest, in place of a threshold. It costs twice as "
            "much and rules out individual accounting.",
        ),
    ] = None
    private_top_k: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="UNITS",
            help="As --units, by halving: closer to the number, but units further away pay too.",
        ),
    ] = None
    sample: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="Keep each unit that was found by a secret coin of its own, with this "
            "probability.",
        ),
    ] = None

    def __post_init__(self) -> None:
        options.at_most_one(
            {
                "--units": self.units,
                "--threshold": self.threshold,
                "--top-k": self.top_k,
                "--private-top-k": self.private_top_k,
            }
        )


@dataclass(frozen=True)
class AskedSource(Source):
    """The same; what a bundle or a label head answers needs no corpus."""

    corpus: options.CorpusOrNone = ""


@dataclass(frozen=True)
class Units(Place):
    """All units of a corpus, or those near enough to a question."""

    threshold: options.ThresholdOption = None


_OF_ALL = ("epsilon", "delta", "accounting", "utility", "unit_tokens")

SettingOptions = Annotated[Mapping[str, Any], FieldOptions(PrivacyConfig, _OF_ALL)]
"""Settings of labels and counts that were made, by name."""

ANSWER_SETTINGS = (*_OF_ALL, "unsupported", "agreement", "false_answers", "max_tokens")

AnswerOptions = Annotated[Mapping[str, Any], FieldOptions(PrivacyConfig, ANSWER_SETTINGS)]
"""Settings of answers that were made, by name."""

SurveySettingOptions = Annotated[
    Mapping[str, Any], FieldOptions(PrivacyConfig, ("epsilon", "delta"))
]
"""Settings of surveys that were made, by name."""

ReadingOptions = Annotated[Mapping[str, Any], FieldOptions(PrivacyConfig, ("max_calls", "polish"))]
"""Settings of a reader that were made, by name."""

MaxCallsOptions = Annotated[Mapping[str, Any], FieldOptions(PrivacyConfig, ("max_calls",))]
"""Settings of a reader for labels, counts and surveys, which have no words, by name."""

AskingOptions = Annotated[
    Mapping[str, Any], FieldOptions(Request, (*of_command_line("answer"), "anyway"))
]
"""Fields of any question that were given, by name; the question and its kind stand beside them."""

ChoosingOptions = Annotated[Mapping[str, Any], FieldOptions(Request, of_command_line("label"))]
"""Fields of a label that were given, by name."""

CountingOptions = Annotated[Mapping[str, Any], FieldOptions(Request, of_command_line("count"))]
"""Fields of a count that were given, by name."""

TallyingOptions = Annotated[Mapping[str, Any], FieldOptions(Request, of_command_line("tally"))]
"""Fields of a tally that were given, by name."""

SurveyingOptions = Annotated[
    Mapping[str, Any],
    FieldOptions(Request, tuple(name for name in of_command_line("survey") if name != "by")),
]
"""Fields of a survey that were given, by name; where there is a reader, it reads the units."""


@dataclass(frozen=True)
class Paying:
    """The ledger and the caller whose budgets pay, and the memory of what was paid for before."""

    caller: options.CallerOption = None
    ledger: options.LedgerPath = None
    no_ledger: Annotated[
        bool,
        typer.Option(
            "--no-ledger",
            help="Record and remember nothing, keep to no budget, whatever ledger is named.",
        ),
    ] = False
    no_memory: Annotated[
        bool,
        typer.Option(
            "--no-memory", help="Neither read the answers that were released before nor keep this."
        ),
    ] = False
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Read the remembered answers to all callers, whose questions may then show in an "
            "answer. By default only those to --caller.",
        ),
    ] = False

    def __post_init__(self) -> None:
        for name, without in {
            "--no-memory": self.no_memory,
            "--no-ledger": self.no_ledger,
        }.items():
            options.at_most_one({"--shared": self.shared, name: without})

    @property
    def remembers(self) -> bool:
        """True where what was released before is read, and this kept."""
        return not (self.no_memory or self.no_ledger)


@dataclass(frozen=True)
class Answering(Paying):
    """The models that answer, and the public words beside the documents."""

    model: options.Model = None
    reader: options.ReaderOption = None
    workers: options.Workers = None
    prefix: Annotated[
        str, typer.Option(help="Public words that every answer begins with. They cost nothing.")
    ] = ""
    public: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A corpus made with `ingest --public`: it informs the answer at no cost. May be "
            "given more than once.",
        ),
    ] = None

    def paying(self) -> Paying:
        """The ledger and the caller alone, where no language model answers."""
        return Paying(**{field.name: getattr(self, field.name) for field in fields(Paying)})


def expanded(command: Callable[..., T]) -> Callable[..., T]:
    """Make options of the fields of a command's dataclass parameters.

    Typer reads options from a signature, so the command gets one in which they all stand.
    """
    given = _parameters(command)
    groups = {p.name: found for p in given if (found := _group(p.annotation)) is not None}
    flat = [
        option.replace(kind=option.KEYWORD_ONLY)
        for one in given
        for option in (groups[one.name].parameters() if one.name in groups else [one])
    ]

    grouped = {option.name for group in groups.values() for option in group.parameters()}

    @functools.wraps(command)
    def run(**values: Any) -> T:
        every = {name: values.pop(name) for name in [*values] if name in grouped}
        for name, group in groups.items():
            values[name] = group.given(every)
        return command(**values)

    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return run


@dataclass(frozen=True, slots=True)
class _DataclassGroup:
    """A dataclass, made of the options that are its fields."""

    kind: Any

    def parameters(self) -> list[inspect.Parameter]:
        return _parameters(self.kind)

    def given(self, values: Mapping[str, Any]) -> Any:
        return self.kind(**{field.name: values[field.name] for field in fields(self.kind)})


def _group(annotation: Any) -> _DataclassGroup | FieldOptions | None:
    """The group of options that a parameter stands for, if it is one."""
    if is_dataclass(annotation):
        return _DataclassGroup(annotation)
    return next((one for one in get_args(annotation) if isinstance(one, FieldOptions)), None)


def _parameters(maker: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(maker, eval_str=True).parameters.values())
