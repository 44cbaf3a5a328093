"""Options that commands share, in groups: a dataclass each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar

import typer

from dpicl_rag import configuration
from dpicl_rag.cli import options

T = TypeVar("T")

_BY_ITSELF = configuration.PrivacyConfig.create()


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
            "counts, which come out of --epsilon, and what passes is thinned by secret coins. 64 "
            "by default.",
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
    private_threshold: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="UNITS",
            help="As --units, without thinning: many more may pass.",
        ),
    ] = None
    private_top_k: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="UNITS",
            help="As --private-threshold, by halving: closer to the number, but units further "
            "away pay too.",
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
                "--private-threshold": self.private_threshold,
                "--private-top-k": self.private_top_k,
            }
        )


@dataclass(frozen=True)
class Units(Place):
    """All units of a corpus, or those near enough to a question."""

    threshold: options.ThresholdOption = None
    sample: Annotated[
        float,
        typer.Option(
            metavar="RATE",
            help="Ask each unit by a secret coin of its own, with this probability: fewer are "
            "read, and intervals are wider.",
        ),
    ] = 1.0


@dataclass(frozen=True)
class Settings:
    """Fields of `PrivacyConfig`, by default as they are there."""

    epsilon: options.Epsilon = options.EPSILON
    delta: options.Delta = options.DELTA
    accounting: Annotated[
        configuration.Accounting | None,
        typer.Option(
            help="Charge each unit what it revealed, or all the same. Individual where it is "
            "sound, by default."
        ),
    ] = None
    utility: Annotated[
        configuration.UtilityName | None,
        typer.Option(
            help="What a document says about a token; surplus for answers and log_prob for labels "
            "by default."
        ),
    ] = None
    unit_tokens: Annotated[int, typer.Option(help="Most tokens read of each unit.")] = (
        _BY_ITSELF.unit_tokens
    )

    def made(self) -> dict[str, Any]:
        """Settings by name, without those that nobody made and that have no default here."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class AnswerSettings(Settings):
    """Those of answers that are longer than a label."""

    unsupported: Annotated[
        configuration.Unsupported | None,
        typer.Option(
            help="What becomes of an answer that the documents do not support. mark: it is shown, "
            "and called a guess. refuse: a fixed sentence takes its place. ignore: nobody asks "
            "whether they do. mark by default, and refuse for clients of a server and agents."
        ),
    ] = None
    agreement: Annotated[
        configuration.AgreementName | None,
        typer.Option(
            help="auto: release a sentence that enough documents give independently, else draw "
            "word by word. only: release nothing else. off: draw word by word from the start, "
            "which is dearer. By default auto where each unit pays for itself. The budget needs "
            "delta for it (budget set --thresholds)."
        ),
    ] = None
    max_tokens: Annotated[int, typer.Option(help="Most tokens of an answer.")] = (
        _BY_ITSELF.max_tokens
    )


@dataclass(frozen=True)
class Paying:
    """Whose budget pays, and what was paid for before."""

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
        """Whether what was released before is read, and this kept."""
        return not (self.no_memory or self.no_ledger)


@dataclass(frozen=True)
class Answering(Paying):
    """Who answers."""

    model: options.Model = None
    reader: options.ReaderOption = None
    max_calls: options.MaxCalls = None
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


def expanded(command: Callable[..., T]) -> Callable[..., T]:
    """Make options of the fields of a command's dataclass parameters.

    Typer reads options from a signature, so the command gets one in which they all stand.
    """
    given = _parameters(command)
    groups: dict[str, Any] = {p.name: p.annotation for p in given if is_dataclass(p.annotation)}
    flat = [
        option.replace(kind=option.KEYWORD_ONLY)
        for parameter in given
        for option in (
            _parameters(groups[parameter.name]) if parameter.name in groups else [parameter]
        )
    ]

    @functools.wraps(command)
    def run(**values: Any) -> T:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return command(**values)

    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return run


def _parameters(maker: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(maker, eval_str=True).parameters.values())
