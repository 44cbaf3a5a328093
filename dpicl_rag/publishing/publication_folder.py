"""The folder of a publication under way: what was begun, and what was released."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.files.run_files import cut_tail, whole_lines, write_line, write_whole
from dpicl_rag.knowledge.bundle import PublishedItem, item_of

_JOURNAL = "journal.jsonl"
_ROOM = bytes(2**20)


class ReleaseFolder:
    """Items of one release, each begun at most once, so that nothing is paid for twice.

    The order is: begin, pay, release, write. An item that was begun and not written is lost: what
    it cost is spent, and nobody has seen it. Before it is begun there is room for it on the disk,
    and where the ledger cannot note its first payment it was not begun.

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
        head, *begun = [json.loads(line) for line in lines] or [{"digest": digest}]
        if head["digest"] != digest:
            raise ConfigurationError(
                f"{self._place}: was begun with other items, budget or corpus; the same command "
                "goes on with it, or remove that folder: what it has paid for is lost then"
            )
        cut_tail(self._journal, whole)
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

    @contextmanager
    def begun(self, number: int) -> Iterator[None]:
        """Note an item that is paid for in the block. It is on the disk when that begins."""
        size = None if number in self._begun else self._begin(number)
        try:
            yield
        except LedgerError:
            if size is not None:
                cut_tail(self._journal, size)
                self._begun.remove(number)
            raise

    def write(self, number: int, item: PublishedItem) -> None:
        """Keep an item that was released."""
        with on_disk(self._folder):
            self._start()
            write_whole(self._folder / self.file(number), item.content())

    def end(self) -> None:
        """Remove what is of no use once the bundle is written: earlier releases, the journal."""
        for room in self._place.glob("*.new"):
            room.unlink()
        self._journal.unlink(missing_ok=True)
        for before in range(1, self._release):
            shutil.rmtree(self._folder / f"release-{before}", ignore_errors=True)

    def _begin(self, number: int) -> int:
        """Note an item; the bytes of the journal before."""
        with on_disk(self._folder):
            self._start()
            # Room for its draft: a full disk is seen now, and not when it is paid.
            (self._folder / f"{self.file(number)}.new").write_bytes(_ROOM)
            size = self._journal.stat().st_size
            write_line(self._journal, {"begun": number})
        self._begun.add(number)
        return size

    def _start(self) -> None:
        if not self._started:
            self._place.mkdir(exist_ok=True)
            write_line(self._journal, {"digest": self._digest})
            self._started = True


def was_left(folder: Path, release: int, digest: str) -> bool:
    """True of a release by this plan whose process was killed when its bundle was written."""
    lines, _ = whole_lines(folder / f"release-{release}" / _JOURNAL)
    return bool(lines) and json.loads(lines[0])["digest"] == digest


@contextmanager
def on_disk(folder: Path) -> Iterator[None]:
    """Raise ConfigurationError, with what is to be done, where a folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"{folder}: cannot be written ({error.strerror}); see that there is space, and run "
            "the same command again"
        ) from None
