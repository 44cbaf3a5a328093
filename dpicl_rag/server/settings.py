"""Settings of a corpus: of searches in it and of answers from it, as a table of a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError

if TYPE_CHECKING:
    from dpicl_rag.retrieval.vectors import VectorSource
    from dpicl_rag.server.service import ServedCorpus


class CorpusSettings(PrivacyConfig):
    """Settings of answers from one corpus, and of searches in it.

    Attributes:
        threshold: In place of the private search for about ``units``.
        top_k: The same.
        system: Of the template.
        answer_prefix: The same.
    """

    threshold: float | None = Field(None, strict=True)
    top_k: int | None = Field(None, strict=True)
    system: str | None = Field(None, strict=True)
    answer_prefix: str | None = Field(None, strict=True)

    @property
    def privacy(self) -> dict[str, Any]:
        """Fields of ``PrivacyConfig`` that were set."""
        return self.model_dump(include={*PrivacyConfig.model_fields}, exclude_unset=True)

    def served(self, source: VectorSource) -> ServedCorpus:
        """A corpus with these settings."""
        from dpicl_rag.prompts import PromptTemplate
        from dpicl_rag.retrieval import retriever_over
        from dpicl_rag.server.service import ServedCorpus

        search = retriever_over(
            source, units=self.units, threshold=self.threshold, top_k=self.top_k
        )
        words = self.model_dump(include={"system", "answer_prefix"}, exclude_none=True)
        return ServedCorpus(search, self.privacy, PromptTemplate(**words), counted=source)


def read_settings(path: Path) -> dict[str, CorpusSettings]:
    """Corpora by name, each a table of the file.

    Raises:
        ConfigurationError: The file cannot be read, or a setting is wrong.
    """
    tables = read_toml(path, f"{path} cannot be read; check the path")
    if not tables:
        raise ConfigurationError(f"{path} names no corpus; write [corpus-name] and its settings")
    found = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigurationError(
                f"{path}: {name} stands outside a table; write [corpus-name] above the settings "
                "of each corpus"
            )
        try:
            found[name] = CorpusSettings.create(**table)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}, [{name}]: {error}") from None
    return found


def read_toml(path: Path, unreadable: str) -> dict[str, Any]:
    """The tables and values of a TOML file.

    Raises:
        ConfigurationError: It cannot be read, or is no TOML file.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(unreadable) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is no TOML file: {error}") from None
