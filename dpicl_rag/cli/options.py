"""Options that several commands share, and those that are made from fields of a model."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpicl_rag.configuration import PrivacyConfig

ENVIRONMENT = {name: f"DPICL_RAG_{name.upper()}" for name in ("epsilon", "delta", "max_calls")}
"""Variables of the environment that stand for an option."""


@dataclass(frozen=True, slots=True)
class FieldOptions:
    """Fields of a model as options; a command is handed those that were given, by name."""

    model: type[BaseModel]
    names: tuple[str, ...]

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Parameters as Typer reads them; None stands for the model's own default."""
        for name in self.names:
            field = self.model.model_fields[name]
            flag = field.annotation is bool
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if flag else None,
                annotation=Annotated[bool if flag else _or_none(field), option(name, field)],
            )

    def given(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that were given, of those of all options."""
        # Not by equality: 0 is given, and False is not.
        every = ((name, values[name]) for name in self.names)
        return {name: one for name, one in every if one is not None and one is not False}


def option(name: str, field: FieldInfo) -> Any:
    """The option of a field."""
    shown = (
        False
        if field.default in (None, False)
        else f"{field.default:g}"
        if isinstance(field.default, float)
        else str(field.default)
    )
    return typer.Option(
        f"--{name.replace('_', '-')}",
        help=field.description,
        envvar=ENVIRONMENT.get(name),
        show_default=shown,
    )


def _or_none(field: FieldInfo) -> Any:
    kind: Any = field.annotation
    return kind if NoneType in get_args(kind) else kind | None


_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MOST_S = 366 * 86_400


def seconds(text: str) -> int:
    """The seconds of an interval.

    Args:
        text: A whole number and ``s``, ``m``, ``h`` or ``d``.

    Raises:
        BadParameter: It is none, or is too short or too long.
    """
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip().lower())
    if found is None:
        raise typer.BadParameter("give a time such as 90s, 10m, 1h or 1d")
    count = int(found[1]) * _SECONDS[found[2]]
    if not LEAST_S <= count <= _MOST_S:
        raise typer.BadParameter(f"give a time from {LEAST_S}s to 366d")
    return count


_BY_ITSELF = PrivacyConfig.create()
EPSILON, DELTA = _BY_ITSELF.epsilon, _BY_ITSELF.delta


def _named(name: str, metavar: str, help: str, variable: str | None = None, **more: Any) -> Any:
    """An option of a value, which a variable of the environment may give."""
    envvar = None if variable is None else f"DPICL_RAG_{variable}"
    return typer.Option(name, metavar=metavar, help=help, envvar=envvar, **more)


_CORPUS = "Name of the corpus, or chroma:FOLDER-OR-URL#COLLECTION."
CorpusArgument = Annotated[str, typer.Argument(metavar="NAME", help=_CORPUS)]
CorpusName = Annotated[str, _named("--corpus", "NAME", _CORPUS, "CORPUS")]
CorpusOrNone = Annotated[str, _named("--corpus", "NAME", _CORPUS, "CORPUS", show_default="")]
AnyCorpus = Annotated[str | None, _named("--corpus", "NAME", f"Of one corpus. {_CORPUS}")]
ChargedOption = Annotated[
    str | None,
    typer.Option(
        "--corpus", help="Charge the ledger's budget of this corpus; otherwise nothing is kept."
    ),
]
CostPlan = Annotated[bool, typer.Option("--plan", help="Say what it would cost; read nothing.")]
QuestionArgument = Annotated[str, typer.Argument(help="The question. It is public.")]
QuestionOption = Annotated[str, typer.Option("--question", help="The question. It is public.")]
Labels = Annotated[
    list[str], typer.Option("--label", help="One of the labels; give it twice or more.")
]
TextField = Annotated[
    str | None, typer.Option(metavar="FIELD", help="Column of PATH that holds the text.")
]
StorePath = Annotated[
    str | None,
    _named("--path", "FOLDER", "Folder of the corpora; your data folder by default.", "STORE"),
]
_EMBEDDER = (
    "Embedding model of the corpus: a Hugging Face id or a folder; all-MiniLM-L6-v2 by default."
)
Embedding = Annotated[str | None, _named("--embedder", "MODEL", _EMBEDDER, "EMBEDDER")]
_DEVICE = "Where passages are embedded, such as cuda:1 or cpu; a GPU by default where there is one."
EmbeddingDevice = Annotated[str | None, _named("--device", "DEVICE", _DEVICE)]
_LEDGER = "Where spending is recorded; ledger.sqlite in your data folder by default."
LedgerPath = Annotated[Path | None, _named("--ledger", "FILE", _LEDGER, "LEDGER")]
_KEYS = "File of the keys' hashes; keys.sqlite in your data folder by default."
KeysPath = Annotated[Path | None, _named("--keys", "FILE", _KEYS, "KEYS")]
NoLedger = Annotated[
    bool,
    typer.Option(
        "--no-ledger", help="Record nothing, keep to no budget, whatever ledger is named."
    ),
]
CallerOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who asks, for budgets per caller.")
]
Model = Annotated[
    str | None,
    _named(
        "--model",
        "MODEL",
        "Language model: small, medium or large (1.5, 4 and 7.6 billion parameters), a Hugging "
        "Face id, a ./FOLDER, or a server's address, openai+http://HOST:PORT/v1#MODEL; a toy by "
        "default.",
        "MODEL",
    ),
]
ReaderOption = Annotated[
    str | None,
    _named(
        "--reader",
        "ADDRESS",
        "A chat model that reads each unit in the language model's place: "
        "chat+http://HOST:PORT/v1#MODEL (its key is in DPICL_RAG_READER_KEY). It is sent the "
        "documents.",
        "READER",
    ),
]
SurveyReader = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A chat model by whose phrases units vote, in place of their vectors: "
        "chat+http://HOST:PORT/v1#MODEL. It is sent the documents.",
    ),
]
_BUNDLE = "A bundle of `dpicl-rag publish`: what it has is answered from there, for nothing."
Published = Annotated[Path | None, _named("--published", "FOLDER", _BUNDLE)]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Spread what is read over N Ray workers, each with its copy of the model: of the "
        "cluster that RAY_ADDRESS names, or of this machine. The answer is the same.",
    ),
]
Epsilon = Annotated[float, option("epsilon", PrivacyConfig.model_fields["epsilon"])]
Delta = Annotated[float, option("delta", PrivacyConfig.model_fields["delta"])]
MaxCalls = Annotated[int | None, option("max_calls", PrivacyConfig.model_fields["max_calls"])]
# None tells that another option may stand instead.
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        help="Use the units whose cosine with the question reaches this. Choose it without "
        "looking at the corpus."
    ),
]
_DELETIONS = "Delete also where more than half of what a source held is gone."
Deletions = Annotated[bool, typer.Option("--deletions", help=_DELETIONS)]
_TOKEN = "A command that prints a token for a mail server (XOAUTH2), in place of a password."  # noqa: S105 - no token
TokenCommand = Annotated[
    str | None, _named("--token-command", "COMMAND", _TOKEN, "IMAP_TOKEN_COMMAND")
]
_CERTIFICATES = "Certificates of mail servers to trust, in PEM form; the system's by default."
CaFile = Annotated[Path | None, _named("--ca-file", "FILE", _CERTIFICATES, "IMAP_CA")]
Sync = Annotated[
    int | None,
    _named(
        "--sync",
        "INTERVAL",
        "Bring the corpora up to date with their files and mailboxes every so often, such as 10m "
        "(s, m, h, d), as `dpicl-rag sync` does, while questions are answered.",
        "SYNC",
        parser=seconds,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def at_most_one(values: Mapping[str, object]) -> None:
    """Refuse options that exclude each other.

    Raises:
        typer.BadParameter: More than one was given.
    """
    given = [name for name, value in values.items() if value is not None and value is not False]
    if len(given) > 1:
        raise typer.BadParameter(f"give {given[0]} or {given[1]}, not both", param_hint=given[1])


def at_least_two(labels: Sequence[str]) -> None:
    """Refuse a choice among fewer labels.

    Raises:
        typer.BadParameter: There are fewer than two.
    """
    if len(labels) < 2:
        raise typer.BadParameter("give at least two labels", param_hint="--label")


def epsilon_of(rho: float | None, delta: float = DELTA, *, gaussian: bool = False) -> float | None:
    """Epsilon of a zCDP rho, or of one of Gaussian noise alone; None of what has none."""
    from dpicl_rag.accounting import rho_to_epsilon

    return None if rho is None else rho_to_epsilon(rho, delta, gaussian=gaussian)


LEAST_S = 10
