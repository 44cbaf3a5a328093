"""Characters from bytes of unknown encoding, and whether the bytes follow from them."""

from __future__ import annotations

import codecs
import hashlib

from dpicl_rag.loaders.records import clean

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The marks by which a file is known to be UTF-16."""


def decode(raw: bytes) -> str:
    """The characters of a whole file; never fails.

    UTF-16 and UTF-8 by their marks, else as `characters`.
    """
    if raw[:2] in UTF16:
        return raw.decode("utf-16", "replace")
    return _guess(raw.removeprefix(codecs.BOM_UTF8))[0]


def decode_as(raw: bytes, charset: str | None) -> str:
    """The characters of bytes by what they are said to be in, else as `decode`."""
    if charset:
        try:
            return raw.decode(charset)
        except (LookupError, ValueError):
            pass
    return decode(raw)


def characters(raw: bytes) -> tuple[str, str]:
    """The characters of a name or of a cell, and a mark that separates it from equal readings.

    UTF-8. Where that fails: UTF-8 with the broken bytes replaced if it has more good characters
    beyond ASCII than broken ones, else Windows-1252 (a superset of Latin-1's printable part).

    Args:
        raw: The bytes.

    Returns:
        The text, and a hash of the bytes where the text stands for others as well; else nothing.
    """
    if raw.isascii() and b"\x00" not in raw:
        return raw.decode(), ""
    text, is_lossy = _guess(raw)
    shown = clean(text)
    return shown, fingerprint(raw) if is_lossy or shown != text else ""


def characters_of(text: str) -> tuple[str, str]:
    """`characters` of a text that has broken bytes as surrogates, as file names and headers do."""
    try:
        return characters(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return written(text)


def written(text: str) -> tuple[str, str]:
    """`characters` of a text that has surrogates only where they were written, as in JSON."""
    if text.isascii() and "\x00" not in text:
        return text, ""
    shown = clean(text)
    return shown, fingerprint(text.encode("utf-8", "surrogatepass")) if shown != text else ""


def fingerprint(raw: bytes) -> str:
    """A short hash."""
    return hashlib.sha256(raw).hexdigest()[:32]


def _guess(raw: bytes) -> tuple[str, bool]:
    """The text, and whether bytes were lost."""
    try:
        return raw.decode("utf-8"), False
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    if sum(character > "\x7f" for character in text) > 2 * broken:
        return text, True
    try:
        return raw.decode("cp1252"), False
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace"), True
