"""Published bundles: a folder of what was released once under one budget, read without a corpus.

A folder has ``manifest.json``, with the guarantee of the whole, and a file of JSON for each item.
The manifest has the SHA-256 of every file, and its own: what was changed by hand or on the way is
refused. Checksums tell no forger from an owner: who may write the folder may write both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from dpicl_rag.errors import KnowledgeError
from dpicl_rag.files.run_files import write_whole
from dpicl_rag.knowledge.answer_memory import (
    LEAST,
    NEIGHBOURS,
    asks_the_same,
    nearest_rows,
    same_words,
)

if TYPE_CHECKING:
    from dpicl_rag.retrieval.embeddings import Embedder

MANIFEST = "manifest.json"
ABOUT = "What are the documents about?"
"""The question of a survey that asks none."""

_READ_OTHERWISE = ("records", "label-head")
"""Kinds of items that answer no question by their text."""

_FORMAT, _VERSION = "dpicl-rag bundle", 1
_CLOSE = 0.85
"""Cosine of a question with one in other words whose answer it gets. No document confirms it, so
it is higher than a memory's: of "Who wrote the invoices?" with "Who is in charge of invoices?" it
is 0.80."""


@dataclass(frozen=True, slots=True)
class PublishedItem:
    """One release of a bundle. Public.

    Attributes:
        kind: Of the request, such as an answer, a count, a survey, a label head; or ``records``.
        question: What units were asked; None of a survey of whole units, and of records.
        text: For people.
        numbers: What was released, as JSON: estimates with intervals, themes, sums, records.
        epsilon: It is (epsilon, delta)-DP by itself.
        delta: See ``epsilon``.
        rho: zCDP that this release paid for it at most; 0 where it was released and paid before.
        supported: Whether documents support it, see `PrivateAnswer`; None where nobody asks.
        before: Whether it had been released before, under another budget than the bundle's.
    """

    kind: str
    question: str | None
    text: str
    numbers: Mapping[str, Any]
    epsilon: float
    delta: float
    rho: float
    supported: bool | None = None
    before: bool = False

    @property
    def asked(self) -> str:
        """Its question in words."""
        return self.question or ABOUT

    @property
    def released(self) -> str | Mapping[str, Any]:
        """What it says: its text, or its numbers where its text only names them."""
        return self.numbers if self.kind in _READ_OTHERWISE else self.text

    @property
    def whole_text(self) -> str:
        """Its question and its text."""
        return f"{self.asked}\n{self.text}"

    def content(self) -> bytes:
        """Its file."""
        return (json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True)
class Bundle:
    """Released items of one corpus: `Knowledge`, and answers that are free.

    Attributes:
        corpus: Name of the corpus that it was made from.
        unit: What one privacy unit is, in words, or the field whose value makes one.
        epsilon: All items but those released before are together (epsilon, delta)-DP for every
            unit. A later release of the same corpus is another, and both add up.
        delta: See ``epsilon``.
        rho: zCDP of the same.
        adjacency: What makes two corpora neighbours.
        published: The day, UTC.
        release: 1 for the first in its folder, and one more for each that took its place.
        items: In the order in which they were asked for.
        lost: Questions that were paid for and not written, as the program was killed in between.
        changes: What is new or gone or other than in the release before, a line each.
    """

    corpus: str
    unit: str
    epsilon: float
    delta: float
    rho: float
    adjacency: str
    published: str
    release: int
    items: tuple[PublishedItem, ...]
    lost: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    embedder: Embedder | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def open(folder: str | Path, *, embedder: Embedder | None = None) -> Bundle:
        """Read a bundle. Neither its corpus nor a model of language is needed.

        Args:
            folder: Where it was published.
            embedder: Embedding model of questions; the packaged one if None.

        Raises:
            KnowledgeError: There is none, or a file is missing or other than it was published.
        """
        head, files = _read(Path(folder))
        return Bundle(
            **{name: head[name] for name in _HEAD},
            items=tuple(item_of(files[one["file"]]) for one in head["items"]),
            lost=tuple(head["lost"]),
            changes=tuple(head["changes"]),
            embedder=embedder,
        )

    @staticmethod
    def packed(folder: str | Path) -> bytes:
        """The files of a bundle in one ZIP archive; errors are those of ``open``."""
        packed = BytesIO()
        with ZipFile(packed, "w") as archive:
            for file, content in _read(Path(folder))[1].items():
                archive.writestr(file, content)
        return packed.getvalue()

    def write(self, folder: Path, files: Sequence[str]) -> None:
        """Write the manifest, by which the items that are in the folder become the bundle.

        Args:
            folder: Of the bundle.
            files: Of the items, which are written.
        """
        found = [
            {
                "file": file,
                "sha256": _digest(item.content()),
                "kind": item.kind,
                "asked": item.asked,
            }
            for file, item in zip(files, self.items, strict=True)
        ]
        beside = {"lost": list(self.lost), "changes": list(self.changes), "items": found}
        head = {"format": _FORMAT, "version": _VERSION, "guarantee": self.guarantee}
        head |= {name: getattr(self, name) for name in _HEAD} | beside
        signed = {**head, "sha256": _digest(_canonical(head))}
        text = json.dumps(signed, indent=2, ensure_ascii=False)
        write_whole(folder / MANIFEST, f"{text}\n".encode())

    @property
    def guarantee(self) -> str:
        """One sentence on what all of it may have revealed of one unit."""
        before = sum(item.before for item in self.items)
        others = f" {before} of them had been released and paid for before." if before else ""
        return (
            f"All items of this release together are ({self.epsilon:g}, {self.delta:g})-"
            f"differentially private for every unit ({self.unit}); other releases of the same "
            f"documents add up with it.{others}"
        )

    def find(self, question: str, kind: str | None = None) -> PublishedItem | None:
        """The item that answers a question: asked in the same words, or for the same in others.

        Args:
            question: Public.
            kind: Of the item; None takes any.

        Returns:
            None where nothing was published that answers it.
        """
        wanted = [item for item in self._telling if kind in (None, item.kind)]
        words = same_words(question)
        for item in wanted:
            if same_words(item.asked) == words:
                return item
        near = self._near(question, _CLOSE) if wanted else []
        same = (one for one in near if one in wanted and asks_the_same(question, one.asked))
        return next(same, None)

    def nearest(self, question: str, most: int = NEIGHBOURS) -> list[PublishedItem]:
        """Items whose questions are near to this one, the nearest first."""
        return self._near(question, LEAST)[:most]

    def fields_of(self, item: PublishedItem) -> dict[str, Any]:
        """Metadata of an item where it is a document of others."""
        own = {"kind": item.kind, "epsilon": item.epsilon, "delta": item.delta}
        return {**own, "corpus": self.corpus, "published": self.published}

    def recall(self, question: str) -> list[str]:
        """Public texts near to a question, as `Knowledge.recall` has them: answers alone."""
        near = [item for item in self.nearest(question) if item.kind == "answer"]
        return [f"Question: {item.asked}\nAnswer: {item.text}" for item in near]

    @property
    def records(self) -> PublishedItem | None:
        """The synthetic records in it, if there are any."""
        return next((one for one in self.items if one.kind == "records"), None)

    def records_near(self, question: str, most: int) -> list[str]:
        """Synthetic records near to a question, the nearest first; they are public."""
        texts = [one["text"] for one in self.records.numbers["records"]] if self.records else []
        rows = np.asarray(self._model.embed(texts), dtype=np.float32) if texts else None
        near = [] if rows is None else nearest_rows(question, rows, self._model, -1.0)
        return [texts[at] for at in near[:most]]

    @cached_property
    def _telling(self) -> list[PublishedItem]:
        """Items that answer a question: no sums or records, nor what documents do not support."""
        found = [one for one in self.items if one.kind not in _READ_OTHERWISE]
        return [one for one in found if one.supported is not False]

    def _near(self, question: str, least: float) -> list[PublishedItem]:
        if not self._telling:
            return []
        rows = nearest_rows(question, self._rows, self._model, least)
        return [self._telling[at] for at in rows]

    @cached_property
    def _model(self) -> Embedder:
        if self.embedder is not None:
            return self.embedder
        from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder

        return SentenceTransformerEmbedder()

    @cached_property
    def _rows(self) -> npt.NDArray[np.float32]:
        asked = [item.asked for item in self._telling]
        return np.asarray(self._model.embed(asked, query=True), dtype=np.float32)


_HEAD = ("corpus", "unit", "epsilon", "delta", "rho", "adjacency", "published", "release")


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest of a folder, as it was signed, and the bytes of its files, each read once.

    Raises:
        KnowledgeError: There is none, or a file is other than it was signed.
    """
    raw = _bytes(folder)
    head = _manifest(folder, raw)
    try:
        return head, {MANIFEST: raw, **{one["file"]: _item(folder, one) for one in head["items"]}}
    except KnowledgeError:
        if _bytes(folder) == raw:
            raise
    return _read(folder)  # another release took its place meanwhile


def _bytes(folder: Path) -> bytes:
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError:
        raise KnowledgeError(
            f"{folder}: holds no bundle; make one with `dpicl-rag publish CORPUS --into {folder}`"
        ) from None


def _manifest(folder: Path, raw: bytes) -> dict[str, Any]:
    try:
        head = json.loads(raw)
    except ValueError:
        raise _changed(folder, MANIFEST) from None
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise _changed(folder, MANIFEST)
    if head.get("version") != _VERSION:
        raise KnowledgeError(f"{folder}: the bundle is of another version of this library")
    if head.pop("sha256", None) != _digest(_canonical(head)):
        raise _changed(folder, MANIFEST)
    return head


def _item(folder: Path, signed: Mapping[str, str]) -> bytes:
    """The file of an item, as the manifest has signed it."""
    try:
        content = (folder / signed["file"]).read_bytes()
    except OSError:
        raise _changed(folder, signed["file"]) from None
    if _digest(content) != signed["sha256"]:
        raise _changed(folder, signed["file"])
    return content


def item_of(content: bytes) -> PublishedItem:
    """The item that a file holds, as `PublishedItem.content` wrote it."""
    return PublishedItem(**json.loads(content))


def _changed(folder: Path, file: str) -> KnowledgeError:
    return KnowledgeError(
        f"{folder / file}: is not as it was published (SHA-256); get the bundle from its owner anew"
    )


def _canonical(head: Mapping[str, Any]) -> bytes:
    return json.dumps(head, sort_keys=True, ensure_ascii=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
