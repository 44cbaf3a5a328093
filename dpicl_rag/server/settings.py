"""Settings of the corpora that a server offers, from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.retrieval import UNITS, retriever_over
from dpicl_rag.retrieval.vectors import VectorSource
from dpicl_rag.server.service import ServedCorpus
from dpicl_rag.server.setting_names import PROMPT, SEARCH


@dataclass(frozen=True)
class CorpusSettings:
    """Settings of searches in one corpus, and of answers from it.

    Attributes:
        privacy: Fields of ``PrivacyConfig``.
        search: ``threshold`` or ``top_k``, in place of the private search for about ``units``.
        prompt: ``system`` and ``answer_prefix`` of the template.
    """

    privacy: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    prompt: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(table: Mapping[str, Any]) -> CorpusSettings:
        """From one table of the file.

        Raises:
            ConfigurationError: A setting is unknown or outside its range.
        """
        search = {name: table[name] for name in SEARCH & set(table)}
        prompt = {name: table[name] for name in PROMPT & set(table)}
        privacy = {name: value for name, value in table.items() if name not in SEARCH | PROMPT}
        PrivacyConfig.create(**privacy)
        return CorpusSettings(privacy, search, prompt)

    def served(self, source: VectorSource) -> ServedCorpus:
        """A corpus with these settings."""
        units = self.privacy.get("units", UNITS)
        search = retriever_over(source, units=units, **self.search)
        return ServedCorpus(search, self.privacy, PromptTemplate(**self.prompt), counted=source)


def read_settings(path: Path) -> dict[str, CorpusSettings]:
    """Corpora by name, each a table of the file.

    Raises:
        ConfigurationError: The file cannot be read, or a setting is wrong.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"{path} cannot be read; check the path") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is no TOML file: {error}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigurationError(
                f"{path}: {name} stands outside a table; write [corpus-name] above the settings "
                "of each corpus"
            )
    if not tables:
        raise ConfigurationError(f"{path} names no corpus; write [corpus-name] and its settings")
    return settings_of(tables, path)


def settings_of(tables: Mapping[str, Mapping[str, Any]], path: Path) -> dict[str, CorpusSettings]:
    """Corpora by name, from tables of a file.

    Raises:
        ConfigurationError: A setting is wrong.
    """
    found = {}
    for name, table in tables.items():
        try:
            found[name] = CorpusSettings.of(table)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, [{name}]: {error}") from None
    return found
