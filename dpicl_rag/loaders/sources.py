"""Sources of a load: the paths that are given, the files in them, and the kinds of files."""

from __future__ import annotations

import codecs
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import UTF16, characters
from dpicl_rag.loaders.mbox import begins_mailbox
from dpicl_rag.loaders.records import Skipped
from dpicl_rag.loaders.streams import open_stream

FileFormat = Literal[
    "mbox", "eml", "csv", "json", "jsonl", "text", "html", "calendar",
    "pdf", "docx", "pptx", "odt", "rtf", "epub", "sheet", "msg",
]  # fmt: skip

CONVERTED: frozenset[FileFormat] = frozenset(
    ["pdf", "docx", "pptx", "odt", "rtf", "epub", "sheet", "msg"]
)
"""Kinds that `dpicl_rag.conversion` reads, with the extra ``files``."""

_ENDINGS: dict[FileFormat, str] = {
    "mbox": ".mbox .mbx",
    "eml": ".eml .emlx",
    "csv": ".csv .tsv",
    "json": ".json",
    "jsonl": ".jsonl .ndjson",
    "text": ".txt .text .md .markdown .rst .log",
    "html": ".html .htm",
    "calendar": ".ics",
    "pdf": ".pdf",
    "docx": ".docx .docm",
    "pptx": ".pptx .pptm",
    "odt": ".odt",
    "rtf": ".rtf",
    "epub": ".epub",
    "sheet": ".xlsx .xlsm .xls .xlsb .ods",
    "msg": ".msg",
}
KINDS = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings.split()}
"""Kinds by endings in lower case."""

# How files of known kinds begin that are no text, though all their bytes may be characters.
_SIGNATURES = (
    b"%PDF-", b"{\\rtf", b"%!PS", b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a", b"(\xb5/\xfd",
    b"\x89PNG", b"GIF87a", b"GIF89a", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*", b"RIFF", b"OggS",
    b"ID3\x02", b"ID3\x03", b"ID3\x04", b"fLaC", b"\x7fELF", b"MZ\x90", b"\xca\xfe\xba\xbe",
    b"SQLite format 3\x00", b"PAR1", b"\x93NUMPY", b"AT&TFORM",
)  # fmt: skip
_BY_SIGNATURE: dict[bytes, FileFormat] = {b"%PDF-": "pdf", b"{\\rtf": "rtf"}
# NUL stands in no text. Of the others a log or a damaged text may have some, but few.
_CONTROL = re.compile(rb"[\x01-\x07\x0e-\x19\x1c-\x1f]")
_FEW = 3
_LARGEST_PART = 50  # one in so many bytes
_HEAD_BYTES = 8192
_MAIL_HEADER = re.compile(
    rb"(?:Return-Path|Received|Delivered-To|Message-ID|MIME-Version|Date|From|Subject): ", re.I
)
_HEADER_LINE = re.compile(rb"[!-9;-~]+:")
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x19\x1c-\x1f]")

SUPPORTED = (
    "mbox, maildir, .eml, .emlx, .csv, .tsv, .json, .jsonl, .ics, text and HTML files, and with "
    "the extra `files` .pdf, .docx, .pptx, .xlsx, .ods, .odt, .rtf, .epub and .msg, each also as "
    ".gz"
)


@dataclass(frozen=True, slots=True)
class SourceFile:
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


def find_sources(path: Path) -> Iterator[SourceFile | Skipped]:
    """The file itself, or every file below a directory in the order of their names.

    A link inside the directory is skipped: it may lead out of what the owner named, or to a text
    that is there already, which would then be two units. The path itself may be one.

    A directory that holds ``cur`` and ``new`` is a maildir: what lies in these two is mail
    whatever its name, and what lies in ``tmp`` is still being delivered and not looked at. A
    directory whose name ends in ``.mbox`` is a mailbox of Apple Mail: its messages are read, and
    none of its other files, which are their attachments and notes of the program. What cannot be
    listed is skipped.
    """
    if not path.is_dir():
        yield SourceFile(path, kind_of(path))
        return
    unread: list[OSError] = []
    for folder, folders, files in os.walk(path, onerror=unread.append):
        yield from _unreadable(unread, path)
        here = Path(folder)
        if {"cur", "new"} <= set(folders):
            folders[:] = [name for name in folders if name != "tmp"]
        links = [name for name in (*folders, *files) if os.path.islink(here / name)]
        for name in sorted(links):
            yield Skipped(shown((here / name).relative_to(path)), reasons.LINK)
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
            if kind not in ("eml", "mbox") and _is_in_mailbox(file, path):
                yield Skipped(shown(file.relative_to(path)), reasons.OF_A_MAILBOX)
                continue
            yield SourceFile(file, kind, path)
    yield from _unreadable(unread, path)


def _is_in_mailbox(file: Path, top: Path) -> bool:
    folders = (top.name, *file.relative_to(top).parts[:-1])
    return any(name.lower().endswith(".mbox") for name in folders)


def shown(path: Path) -> str:
    """A path as characters. To the system names are bytes; any of them must print in a report."""
    return characters(os.fsencode(path))[0]


def _unreadable(errors: list[OSError], path: Path) -> Iterator[Skipped]:
    """The directories that could not be listed, once."""
    for error in errors:
        where = Path(error.filename)
        yield Skipped(shown(where.relative_to(path)), reasons.UNREADABLE_FOLDER)
    errors.clear()


def existing_paths(paths_given: object) -> list[Path]:
    """Paths that are there, in the order given.

    Raises:
        LoaderError: One does not exist or cannot be read, or lies in another: what is read twice
            would be two units.
        ConfigurationError: What is given is no path.
    """
    one = isinstance(paths_given, str | os.PathLike)
    if not one and (isinstance(paths_given, bytes) or not isinstance(paths_given, Iterable)):
        raise _no_path(paths_given)
    paths = [_path(item) for item in ([paths_given] if one else list(paths_given))]  # type: ignore[call-overload]
    if not paths:
        raise ConfigurationError("load was given no path; name a file or a directory")
    for path in paths:
        _require(path)
    # In this order, what holds a path comes before it.
    places = sorted((path.resolve(), at) for at, path in enumerate(paths))
    for (holder, first), (inner, second) in pairwise(places):
        if inner.is_relative_to(holder):
            raise LoaderError(
                f"{shown(paths[second])} is named twice, as itself and by {shown(paths[first])}; "
                "name it once"
            )
    return paths


def _path(item: object) -> Path:
    if isinstance(item, str | os.PathLike):
        path = os.fspath(item)
        if isinstance(path, str):
            return Path(path)
    raise _no_path(item)


def _no_path(item: object) -> ConfigurationError:
    return ConfigurationError(
        f"load takes the path of a file or a directory, or a list of paths, not "
        f"{type(item).__name__}; hand documents that are there over to Corpus.add"
    )


def _require(path: Path) -> None:
    try:
        if path.is_dir():
            next(path.iterdir(), None)
        elif path.is_file():
            path.open("rb").close()
        else:
            raise LoaderError(f"{shown(path)} does not exist, or is neither a file nor a directory")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid path"
        raise LoaderError(f"{shown(path)} cannot be read: {reason}") from None


def suffix_of(name: str) -> str:
    """The ending of a file's name in lower case, without that of an archive of gzip."""
    return Path(name.lower().removesuffix(".gz")).suffix


def unsupported(name: str) -> str:
    """Reason why a file of no supported kind is not read, with the remedy where it is known."""
    way = reasons.WAYS_OUT.get(suffix_of(name))
    return f"{reasons.UNSUPPORTED}; {way}" if way else reasons.UNSUPPORTED


def signed_kind(head: bytes) -> FileFormat | None:
    """The kind of a file that says by its first bytes what it is."""
    return next((kind for sign, kind in _BY_SIGNATURE.items() if head.startswith(sign)), None)


def is_signed(head: bytes) -> bool:
    """Test for a file that begins as one that is no text."""
    return head.startswith(_SIGNATURES)


def is_binary(raw: bytes) -> bool:
    """Test for bytes of a file that are no text: a function of them alone.

    They begin as those of a known kind do, or have a NUL outside UTF-16, or more control characters
    than one in 50 bytes.
    """
    if is_signed(raw):
        return True
    if raw[:2] in UTF16:
        lost = raw.decode("utf-16", "replace").count("\ufffd")
        return _are_many(lost, len(raw) // 2)
    return b"\x00" in raw or _are_many(len(_CONTROL.findall(raw)), len(raw))


def _are_many(found: int, size: int) -> bool:
    return found > max(_FEW, size // _LARGEST_PART)


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
    if head[:2] not in UTF16 and _NO_TEXT.search(head):
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
