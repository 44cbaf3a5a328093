"""Office files and books before they are unpacked: passwords, and what they unpack to."""

from __future__ import annotations

import io
import re
import zipfile

from dpicl_rag.conversion.outcomes import NotConvertedError, Outcome
from dpicl_rag.conversion.process_limits import MAX_UNPACKED_BYTES

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")  # [MS-OFFCRYPTO] 2.3.4.4
# A book may list its fonts there; where it lists texts, these are locked.
_LOCKED_TEXT = re.compile(rb'URI="[^"]*\.(?:x?html?|xml|opf|ncx)"', re.I)
_ENTRY_BYTES = 2**20


def is_compound(content: bytes) -> bool:
    """Whether a file is a compound file: of older Office programs, or of newer ones locked.

    Raises:
        NotConvertedError: It is locked.
    """
    if not content.startswith(_OLE):
        return False
    if _ENCRYPTED_PACKAGE in content:
        raise NotConvertedError(Outcome.PASSWORD)
    return True


def check_package(content: bytes) -> bytes:
    """Refuse what its reader would misread, or would choke on.

    Raises:
        NotConvertedError: A password, damage, or it says that it unpacks to more than it may.
    """
    if is_compound(content):
        raise NotConvertedError(Outcome.DAMAGED)
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, NotImplementedError):
        raise NotConvertedError(Outcome.DAMAGED) from None
    if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED_BYTES:
        raise NotConvertedError(Outcome.UNPACKS)
    if any(entry.flag_bits & 1 for entry in archive.infolist()):
        raise NotConvertedError(Outcome.PASSWORD)
    manifest = _entry(archive, "META-INF/manifest.xml")  # OpenDocument 1.3, part 2, 4.4
    if b"encryption-data" in manifest or _LOCKED_TEXT.search(
        _entry(archive, "META-INF/encryption.xml")
    ):
        raise NotConvertedError(Outcome.PASSWORD)
    return b""


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        with archive.open(name) as file:
            return file.read(_ENTRY_BYTES)
    except KeyError:
        return b""
