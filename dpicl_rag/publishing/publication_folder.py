"""The folder of a publication under way: what was begun, and what was released."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import cut_tail, whole_lines, write_line, write_whole
from dpicl_rag.knowledge.bundle import PublishedItem, item_of

_JOURNAL = "journal.jsonl"


class ReleaseFolder:
    """Items of one release, each begun at most once, so that nothing is paid for twice.

    The order is: begin, pay, release, write. An item that was begun and not written is lost: what
    it cost is spent, and nobody has seen it.

    Args:
        folder: Of the bundle.
        release: Its number there.
        digest: Of the plan and its corpus.

    Raises:
        ConfigurationError: It was begun by another plan.
    """

    def __init__(self, folder: Path, release: int, digest: str) -> None:
        self._folder, self._release, self._digest = folder, release, digest
        self._place = folder / f"release-{release}"
        self._journal = self._place / _JOURNAL
        lines, whole = whole_lines(self._journal)
        cut_tail(self._journal, whole)
        head, *begun = [json.loads(line) for line in lines] or [{"digest": digest}]
        if head["digest"] != digest:
            raise ConfigurationError(
                f"{self._place}: was begun with other items, budget or corpus; the same command "
                "goes on with it, or remove that folder: what it has paid for is lost then"
            )
        self._started = bool(lines)
        self._begun = {line["begun"] for line in begun}

    def __repr__(self) -> str:
        return f"ReleaseFolder({str(self._place)!r})"

    def file(self, number: int) -> str:
        """Name of the file of an item, from the bundle's folder."""
        return f"{self._place.name}/item-{number + 1}.json"

    def item(self, number: int) -> PublishedItem | None:
        """An item that was released; None where it was not."""
        file = self._folder / self.file(number)
        return item_of(file.read_bytes()) if file.exists() else None

    def was_begun(self, number: int) -> bool:
        """True where an item may have been paid for, or need not be."""
        return number in self._begun or self.item(number) is not None

    def is_lost(self, number: int) -> bool:
        """True of an item that may have been paid for, and that nobody has seen."""
        return number in self._begun and self.item(number) is None

    def begin(self, number: int) -> None:
        """Note that an item is about to be paid for. It is on the disk when this returns."""
        self._start()
        if number not in self._begun:
            write_line(self._journal, {"begun": number})
            self._begun.add(number)

    def write(self, number: int, item: PublishedItem) -> None:
        """Keep an item that was released."""
        self._start()
        write_whole(self._folder / self.file(number), item.content())

    def end(self) -> None:
        """Remove what is of no use once the bundle is written: earlier releases, the journal."""
        self._journal.unlink(missing_ok=True)
        for before in range(1, self._release):
            shutil.rmtree(self._folder / f"release-{before}", ignore_errors=True)

    def _start(self) -> None:
        if not self._started:
            self._place.mkdir(exist_ok=True)
            write_line(self._journal, {"digest": self._digest})
            self._started = True
