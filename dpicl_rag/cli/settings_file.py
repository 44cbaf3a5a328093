"""The settings file: what people would repeat on every command line.

It gives defaults to options, so what is written on a command line or in the environment comes
first. It is read from the user's own configuration folder, or where ``--config`` says, and never
from the folder that one works in: a file there could send documents to a model of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from platformdirs import user_config_path
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from dpicl_rag import _validate
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.cli import options
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server.settings import CorpusSettings, read_toml

ENVIRONMENT = "DPICL_RAG_CONFIG"

_OPTIONS: Mapping[str, Any] = {
    "store": options.StorePath,
    "ledger": options.LedgerPath,
    "keys": options.KeysPath,
    "embedder": options.Embedding,
    "model": options.Model,
    "reader": options.ReaderOption,
    "max_calls": options.MaxCalls,
    "corpus": options.CorpusName,
    "epsilon": options.Epsilon,
    "delta": options.Delta,
    "sync": options.Sync,
}
_current: ChosenSettings | None = None


class CorpusTable(CorpusSettings):
    """A corpus of the file: settings of its answers, and its budget.

    Attributes:
        budget: Epsilon of all answers of a period together, where the ledger has no budget.
        period: How often it renews.
        strict: Whether every answer is refused once the budget is reached by the public bound.
        answers: An answer takes one part in so many of what is left of its delta for thresholds.
        gaussian: Whether it is for Gaussian noise alone, see ``budget set``.
    """

    budget: float | None = Field(default=None, gt=0, allow_inf_nan=False, strict=True)
    period: Literal["lifetime", "day", "month", "year"] = "lifetime"
    strict: bool = Field(default=False, strict=True)
    answers: int = Field(default=SHARES.answers, ge=1, strict=True)
    gaussian: bool = Field(default=False, strict=True)

    @model_validator(mode="after")
    def _belong_together(self) -> CorpusTable:
        of_budget = {"period", "strict", "answers", "gaussian"}
        for name in sorted(of_budget & self.model_fields_set):
            if self.budget is None:
                raise ValueError(f"{name} is that of a budget; give that too")
        return self

    @property
    def budget_settings(self) -> dict[str, Any]:
        """The budget as `Ledger.set_budget` takes it."""
        names = ("period", "strict", "answers", "gaussian")
        kept = {name: getattr(self, name) for name in names}
        return {"epsilon": self.budget, "delta": options.DELTA, **kept}


def _read_table(found: Any) -> Any:
    return CorpusTable.create(**found) if isinstance(found, dict) else found


class SettingsFile(BaseModel):
    """Defaults of options, see their help; and what ``serve`` offers where it is not said.

    That is a table of settings for each corpus. Budgets among them are for every command.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    store: str | None = None
    ledger: str | None = None
    keys: str | None = None
    embedder: str | None = None
    model: str | None = None
    reader: str | None = None
    max_calls: int | None = None
    corpus: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    sync: str | None = None
    corpora: dict[str, Annotated[CorpusTable, BeforeValidator(_read_table)]] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _refuse_settings_out_of_range(self) -> SettingsFile:
        settings = self.model_dump(include={*PrivacyConfig.model_fields}, exclude_none=True)
        PrivacyConfig.create(**settings)
        return self

    @staticmethod
    def read(path: Path) -> SettingsFile:
        """Read a file.

        Raises:
            ConfigurationError: It cannot be read, or a setting is unknown or out of its range.
        """
        unreadable = f"the settings file {path} cannot be read; check --config and {ENVIRONMENT}"
        found = read_toml(path, unreadable)
        try:
            return SettingsFile(**found)
        except ValidationError as error:
            sentence = _validate.sentence_of(error, SettingsFile.model_fields)
            raise ConfigurationError(f"{path}, {sentence}") from None


@dataclass(frozen=True, slots=True)
class ChosenSettings:
    """The settings file of one command line."""

    path: Path
    settings: SettingsFile

    @staticmethod
    def at(given: Path | None) -> ChosenSettings:
        """The file that is named, or the user's own if there is one.

        Raises:
            ConfigurationError: As `SettingsFile.read`.
        """
        path = given or own_path()
        absent = given is None and not path.exists()
        return ChosenSettings(path, SettingsFile() if absent else SettingsFile.read(path))

    def budgets(self) -> dict[str, CorpusTable]:
        """Tables with a budget, by the name that answers of the corpus are booked under."""
        tables = self.settings.corpora.items()
        return {_booked(name): table for name, table in tables if table.budget is not None}


def choose(given: Path | None) -> ChosenSettings:
    """Find the file of the command that runs; arguments and errors as of `Found.at`."""
    global _current
    _current = ChosenSettings.at(given)
    return _current


def current() -> ChosenSettings:
    """The file of the command that runs."""
    return _current or ChosenSettings(own_path(), SettingsFile())


def own_path() -> Path:
    """The file of the user's own configuration folder."""
    return user_config_path("dpicl-rag", appauthor=False) / "dpicl-rag.toml"


def defaults_of(settings: SettingsFile, group: Any) -> dict[str, Any]:
    """Defaults for the commands of a group, as contexts take them (``default_map``)."""
    given = settings.model_dump(exclude_none=True, exclude={"corpora"})
    found: dict[str, Any] = {}
    for path, setting, parameter in _parameters(group):
        if setting in given:
            place = found
            for name in path:
                place = place.setdefault(name, {})
            place[parameter] = given[setting]
    return found


def variables() -> dict[str, str]:
    """The environment variable of each setting."""
    return {name: str(_info(alias).envvar) for name, alias in _OPTIONS.items()}


def _parameters(
    group: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Path of a command, setting and name of the parameter that it is the default of."""
    helps = {_info(alias).help: name for name, alias in _OPTIONS.items()}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _parameters(command, (*path, name))
            continue
        for parameter in command.params:
            if parameter.param_type_name != "option":
                continue  # who deletes a corpus names it
            setting = helps.get(getattr(parameter, "help", None))
            if setting is not None and parameter.name is not None:
                yield (*path, name), setting, parameter.name


def _booked(name: str) -> str:
    if not name.startswith("chroma:"):
        return name
    from dpicl_rag.stores.chroma import CollectionAddress

    address = CollectionAddress.of(name)
    return name if address is None else address.name


def _info(alias: Any) -> Any:
    return get_args(alias)[1]
