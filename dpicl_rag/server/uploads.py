"""Uploads of owners: from a file into a corpus that is served at once."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout

from dpicl_rag.answering.worker_threads import in_thread
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.adding import Ingested
from dpicl_rag.corpora.folder import beside
from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders import LoadReport, LoadResult, load
from dpicl_rag.loaders.characters import fingerprint
from dpicl_rag.loaders.shared_keys import MOST_UNITS
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.jobs import Job
from dpicl_rag.server.service import Service
from dpicl_rag.server.settings import CorpusSettings

_LONGEST = 120  # characters of a file's name
_SKIPPED = 20  # named in the account of an ingest


@dataclass(frozen=True, slots=True)
class Unit:
    """Options for reading an upload, as in ``load``; the defaults where None.

    Attributes:
        unit: What is protected as one.
        text_field: Column that holds a table's text.
        key_field: Column that names a table's rows.
        header: Where the names of a table's columns are.
        records: The list in a JSON object that holds the records.
    """

    unit: str | None = None
    text_field: str | None = None
    key_field: str | None = None
    header: int | list[str] | None = None
    records: str | None = None


Received = tuple[Path, Unit]
"""The file of an upload on disk, and how it is to be read."""
Claim = Callable[[], None]
"""Makes a corpus ready to be filled."""


@dataclass
class Uploads:
    """The store that uploads are put into.

    Attributes:
        path: Folder of the corpora; the user's data folder if None.
        embedder: Of all corpora that are made here.
        settings: Of these corpora.
        most_bytes: Of an upload. Public.
    """

    path: str | Path | None
    embedder: Embedder
    settings: CorpusSettings = field(default_factory=CorpusSettings.create)
    most_bytes: int = 200 * 2**20
    _opened: list[Corpus] = field(default_factory=list)
    _begun: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._folder = beside(self.path, "uploads")
        self._lock = FileLock(f"{self._folder}.lock", thread_local=False, mode=0o600)
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(Refusal), self.alone():
            pass  # what a killed server has left: whoever uploaded it does so again, and it goes on

    def __repr__(self) -> str:
        return f"Uploads({str(self.path)!r})"

    @property
    def config(self) -> PrivacyConfig:
        """The settings of an answer of what is uploaded here. Public."""
        return PrivacyConfig.create(**self.settings.privacy)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The one upload into the store, of all servers; its file is gone when the block has ended.

        Raises:
            Refusal: Another server has one.
        """
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            told = "another server reads an upload into this store; wait until it has ended"
            raise Refusal(409, told, code="job_running") from None
        try:
            yield
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._lock.release()

    def is_taken(self, corpus: str, service: Service) -> bool:
        """True for a name that is not served, was not begun here, and is that of another corpus.

        It is, if the store or the ledger knows it: what a ledger knows has a budget, and was asked.
        """
        if corpus in service.corpora or corpus in self._begun:
            return False
        return corpus in Corpus.names(self.path) or service.ledger.knows(corpus)

    def give_budget(self, corpus: str, service: Service, epsilon: float | None) -> None:
        """Give a corpus its budget, before there is anything to answer from.

        Args:
            corpus: Its name.
            service: Where it will be served.
            epsilon: What all its answers may reveal, ever; None leaves the budget that there is. A
                new corpus that has none may reveal in all what the settings let one answer reveal.
        """
        self._begun.add(corpus)
        if epsilon is None and corpus in service.corpora:
            return
        service.ledger.set_budget(
            corpus=corpus,
            epsilon=self.config.epsilon if epsilon is None else epsilon,
            delta=self.config.delta,
            only_if_none=epsilon is None,
        )

    def keep(self, corpus: str, name: str, content: IO[bytes]) -> Path:
        """Copy an upload to a private file.

        The same name and corpus are always the same path: so a table that is uploaded again takes
        the place of what was read from it before. Another name is another path, also where what is
        shown of it is the same.

        Args:
            corpus: Where it shall go.
            name: As the client says; only its last part is shown.
            content: Its bytes.
        """
        path = self._folder / corpus / file_name(name)
        if path.name != name:
            path = path.parent / fingerprint(name) / path.name
        # The names of corpora are nobody else's business.
        for part in (self._folder, self._folder / corpus, path.parent):
            part.mkdir(exist_ok=True, mode=0o700)
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(made, "wb") as kept:
            shutil.copyfileobj(content, kept, 2**20)
        return path

    async def ingest(
        self, job: Job, service: Service, admission: Admission, received: Received, claim: Claim
    ) -> dict[str, Any]:
        """Read an upload, claim its corpus, store it there and serve that.

        Raises:
            DPICLError: As ``load`` and ``Corpus.add``. What was stored until then stays, and the
                same upload goes on from there.
        """
        embedder = _WaitingUpload(self.embedder, admission, asyncio.get_running_loop())
        return await in_thread(self._ingest, job, service, embedder, received, claim)

    def close(self) -> None:
        """Close the corpora that were opened here."""
        for corpus in self._opened:
            corpus.close()
        self._opened.clear()

    def _ingest(
        self, job: Job, service: Service, embedder: Embedder, received: Received, claim: Claim
    ) -> dict[str, Any]:
        path, unit = received
        loaded = self._load(job, path, unit)
        if loaded.report.misread:
            raise LoaderError(f"{path.name}: {loaded.report.misread}")
        if unit.unit is None and job.corpus not in Corpus.names(self.path):
            self._ask_for_unit(job, loaded.report)
        job.at("Opening the corpus")
        claim()
        target = Corpus.create(job.corpus, self.path, embedder=embedder)
        try:
            added = target.add(
                loaded.documents,
                partial(job.at, "Embedding passages"),
                ledger=service.ledger,
            )
        finally:
            target.close()
        if job.corpus not in service.corpora:
            corpus = Corpus.open(job.corpus, self.path, embedder=self.embedder)
            self._opened.append(corpus)
            service.offer(job.corpus, self.settings.served(corpus))
        units = len({document.unit for document in loaded.documents})
        return _account(loaded.report, units, added)

    def _ask_for_unit(self, job: Job, report: LoadReport) -> None:
        """End before a new corpus has its unit for good, where a column looks like a person's.

        Raises:
            ConfigurationError: One does. The job's result names the columns, for the form to offer.
        """
        if report.persons:
            job.result = {"summary": report.summary, "persons": list(report.persons)}
            raise ConfigurationError(
                f"{report.doubt}, and a corpus keeps its unit; nothing was stored. Choose what is "
                f"protected as one: all with the same {report.persons[0]}, or each row"
            )

    def _load(self, job: Job, path: Path, unit: Unit) -> LoadResult:
        try:
            return load(path, **asdict(unit), on_progress=partial(job.at, "Reading records"))
        except (LoaderError, ConfigurationError) as error:
            # The owner knows the file by its name, not by where it lay here.
            raise type(error)(str(error).replace(str(path), path.name)) from None


class _WaitingUpload:
    """An embedder that waits for the engine like an answer, for each batch. For worker threads."""

    def __init__(
        self, inner: Embedder, admission: Admission, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._inner = inner
        self._turns = admission
        self._loop = loop

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the embedder."""
        return self._inner.fingerprint

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """Vectors of one batch, in its turn."""
        turn = self._turns.take(lambda: self._inner.embed(texts, query=query))
        return asyncio.run_coroutine_threadsafe(turn, self._loop).result()


def file_name(given: str) -> str:
    """The last part of a client's path, printable and short; its ending shows the kind."""
    last = PurePosixPath(given.replace("\\", "/")).name
    name = "".join(letter for letter in last if letter.isprintable()).strip()
    while len(name.encode()) > _LONGEST:
        name = name[1:]
    return "upload" if not name.strip(".") or name.startswith(".") else name


def _account(report: LoadReport, units: int, added: Ingested) -> dict[str, Any]:
    withheld = len(added.withheld)
    note = (
        f" Withheld: {withheld:,} that would make more than {MOST_UNITS} units one; "
        "`dpicl-rag ingest` asks about them."
    )
    return {
        "summary": report.summary + (note if withheld else ""),
        "withheld": withheld,
        "read": report.read,
        "loaded": report.loaded,
        "skipped": len(report.skipped),
        "first_skipped": [
            {"position": one.position, "reason": one.reason} for one in report.skipped[:_SKIPPED]
        ],
        "units": units,
        "passages": added.passages,
        "known": added.known,
    }
