"""Files and directories, and the kind of each file."""

from __future__ import annotations

import codecs
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dpicl_rag.loaders.characters import UTF16, characters
from dpicl_rag.loaders.file_kinds import KINDS, FileFormat, is_signed, signed_kind, suffix_of
from dpicl_rag.loaders.load_report import Skipped
from dpicl_rag.loaders.mbox import begins_mailbox
from dpicl_rag.loaders.records import LINK, UNREADABLE_FOLDER
from dpicl_rag.loaders.streams import open_stream

SUPPORTED = (
    "mbox, maildir, .eml, .csv, .tsv, .json, .jsonl, text and HTML files, and with the extra "
    "`files` .pdf, .docx, .pptx, .xlsx, .ods, .odt, .rtf, .epub and .msg, each also as .gz"
)

_HEAD_BYTES = 8192
_MAIL_HEADER = re.compile(
    rb"(?:Return-Path|Received|Delivered-To|Message-ID|MIME-Version|Date|From|Subject): ", re.I
)
_HEADER_LINE = re.compile(rb"[!-9;-~]+:")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read.

    Attributes:
        path: The file.
        kind: What it holds, or None if that is not supported.
        folder: The directory that is loaded; None for a file loaded by itself.
    """

    path: Path
    kind: FileFormat | None
    folder: Path | None = None

    @property
    def name(self) -> str:
        """Its name, inside the directory that is loaded."""
        return shown(self._name)

    @property
    def exact(self) -> str:
        """Mark that separates its name from equal readings; see ``Record.exact``."""
        return characters(os.fsencode(self._name))[1]

    @property
    def _name(self) -> Path:
        return self.path.relative_to(self.folder) if self.folder else Path(self.path.name)


def find_sources(path: Path) -> Iterator[Source | Skipped]:
    """The file itself, or every file below a directory in the order of their names.

    A link inside the directory is skipped: it may lead out of what the owner named, or to a text
    that is there already, which would then be two units. The path itself may be one.

    A directory that holds ``cur`` and ``new`` is a maildir: what lies in these two is mail
    whatever its name, and what lies in ``tmp`` is still being delivered and not looked at. What
    cannot be listed is skipped.
    """
    if not path.is_dir():
        yield Source(path, kind_of(path))
        return
    unread: list[OSError] = []
    for folder, folders, files in os.walk(path, onerror=unread.append):
        yield from _unreadable(unread, path)
        here = Path(folder)
        if {"cur", "new"} <= set(folders):
            folders[:] = [name for name in folders if name != "tmp"]
        links = [name for name in (*folders, *files) if os.path.islink(here / name)]
        for name in sorted(links):
            yield Skipped(shown((here / name).relative_to(path)), LINK)
        folders[:] = sorted(set(folders) - set(links))
        in_maildir = here.name in ("cur", "new") and all(
            os.path.isdir(here.parent / name) for name in ("cur", "new")
        )
        for name in sorted(set(files) - set(links)):
            file = here / name
            kind: FileFormat | None = None
            # A pipe or a socket would block the load for ever.
            if os.path.isfile(file):
                kind = "eml" if in_maildir else kind_of(file)
            yield Source(file, kind, path)
    yield from _unreadable(unread, path)


def shown(path: Path) -> str:
    """A path as characters. To the system names are bytes; any of them must print in a report."""
    return characters(os.fsencode(path))[0]


def _unreadable(errors: list[OSError], path: Path) -> Iterator[Skipped]:
    """The directories that could not be listed, once."""
    for error in errors:
        where = Path(error.filename)
        yield Skipped(shown(where.relative_to(path)), UNREADABLE_FOLDER)
    errors.clear()


def kind_of(path: Path) -> FileFormat | None:
    """The kind of a file, by its name, or by its first bytes where the name says nothing."""
    known = KINDS.get(suffix_of(path.name))
    if known is not None:
        return known
    try:
        with open_stream(path) as stream:
            return _sniff(stream.read(_HEAD_BYTES))
    except (OSError, EOFError, zlib.error):
        return None


def _sniff(head: bytes) -> FileFormat | None:
    if begins_mailbox(head):
        return "mbox"
    if is_signed(head):
        return signed_kind(head)
    if head[:2] not in UTF16 and _CONTROL.search(head):
        return None
    if _HEADER_LINE.match(head):
        block = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
        if any(_MAIL_HEADER.match(line) for line in block.splitlines()):
            return "eml"
    if head[:2] in UTF16:
        return "text"
    try:
        # The head may end inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    return "text"
