"""The release of a synthesis: records, each a DP output, and the public numbers beside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import write_whole
from dpicl_rag.prompts import Example
from dpicl_rag.results import notebook_table, privacy_rows
from dpicl_rag.retrieval.stored_record import SyntheticOrigin

if TYPE_CHECKING:
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.retrieval.embeddings import Embedder
    from dpicl_rag.stores.chroma import ChromaCollection

RecordStoppedBy = Literal["end", "length", "budget", "interrupted"]
"""The end of a record: a stop token or string, its length, the budget, or a kill of the run."""

RECORDS_FILE = "records.jsonl"
"""File of the records in the folder of a finished run, beside the journal."""

_VERSION = 1
_SHOWN = 20  # records in a notebook


@dataclass(frozen=True, slots=True)
class SyntheticRecord:
    """A text that was drawn privately. All of it is public.

    Attributes:
        text: The text, public words of its template included.
        label: The public label that it was written for.
        key: The released key word that it was written about.
        tokens: How many tokens were drawn.
        stopped_by: Why it ended.
    """

    text: str
    label: str | None
    key: str | None
    tokens: int
    stopped_by: RecordStoppedBy

    def fields(self, run: str) -> dict[str, Any]:
        """Public metadata of it in a corpus."""
        about = self.key or self.label or ""
        return {"synthetic": True, "key": about, "run": run, "tokens": self.tokens}


@dataclass(frozen=True)
class Synthesis:
    """Records that were drawn under one budget. Whatever is done with them costs nothing more.

    Attributes:
        records: In the order of the plan.
        epsilon: All of them together are (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho of the whole run; None where it is accounted for in another way.
        settings: How they were made: the settings of the plan, all of them public.
    """

    records: tuple[SyntheticRecord, ...]
    epsilon: float
    delta: float
    rho: float | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        shown = [(one.label or one.key or "", one.text) for one in self.records[:_SHOWN]]
        first = f", the first {_SHOWN} of them here" if len(self.records) > _SHOWN else ""
        rows = [*privacy_rows(self.epsilon, self.delta, self.rho), *shown]
        return notebook_table(f"{len(self.records)} synthetic records{first}", rows)

    def write(self, path: str | Path) -> None:
        """Write the records as JSONL, and the public numbers beside them (``<path>.json``)."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(_numbers(file), f"{self._head()}\n".encode())
        write_whole(file, self._lines().encode())

    @staticmethod
    def read(path: str | Path) -> Synthesis:
        """Read the files of `write`.

        Raises:
            ConfigurationError: A file is missing or damaged.
        """
        file = Path(path)
        try:
            head = json.loads(_numbers(file).read_text(encoding="utf-8"))
            lines = file.read_text(encoding="utf-8").split("\n")
            records = tuple(SyntheticRecord(**json.loads(line)) for line in lines if line)
            if head["version"] != _VERSION:
                raise ConfigurationError(f"{file}: written by another version of this library")
            return Synthesis(records, head["epsilon"], head["delta"], head["rho"], head["settings"])
        except OSError as error:
            raise ConfigurationError(f"{file}: it, or {file.name}.json, cannot be read") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"{file}: it, or {file.name}.json, is damaged") from error

    def as_examples(self, question: str = "Which label fits?") -> tuple[Example, ...]:
        """The labelled records as worked examples of a prompt, in their order.

        Args:
            question: What each example asks about its text.
        """
        return tuple(
            Example(record.text, question, record.label)
            for record in self.records
            if record.label is not None and record.text
        )

    @property
    def run(self) -> str:
        """Names this synthesis: a hash of what it is."""
        return hashlib.sha256(f"{self._head()}\n{self._lines()}".encode()).hexdigest()[:16]

    def into_corpus(
        self, name: str, path: str | Path | None = None, *, embedder: Embedder | None = None
    ) -> Corpus | ChromaCollection:
        """Put the finished records into a corpus, or a Chroma collection that any client may read.

        Args:
            name: Of the corpus, or ``chroma:FOLDER-OR-URL#COLLECTION``.
            path: Folder of the corpora; the user's data folder if None.
            embedder: Embedding model; the packaged one if None.

        Returns:
            The corpus. It is public, so it may be given as knowledge.

        Raises:
            CorpusError: Another corpus of the name is there.
        """
        from dpicl_rag.synthesis.public_records import into_corpus

        origin = SyntheticOrigin(self.run, self.epsilon, self.delta)
        finished = {
            f"{origin.run}-{number}": (record.text, record.fields(origin.run))
            for number, record in enumerate(self.records)
            if record.text and record.stopped_by != "interrupted"
        }
        return into_corpus(finished, origin, name, path, embedder=embedder)

    def _head(self) -> str:
        numbers = {"version": _VERSION, "epsilon": self.epsilon, "delta": self.delta}
        settings = {"rho": self.rho, "settings": dict(self.settings)}
        return json.dumps({**numbers, **settings}, indent=2, allow_nan=False)

    def _lines(self) -> str:
        # Escaped, so that half characters survive and no line break hides in a line.
        return "".join(f"{json.dumps(asdict(record))}\n" for record in self.records)


def _numbers(file: Path) -> Path:
    return file.with_name(file.name + ".json")
