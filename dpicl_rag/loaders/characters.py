"""Characters from bytes of unknown encoding, and whether the bytes follow from them."""

from __future__ import annotations

import codecs
import hashlib
from contextlib import suppress

from dpicl_rag.loaders.records import clean

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""The marks by which a file is known to be UTF-16."""

CHARSETS = frozenset(
    """
    ascii utf-8 utf-8-sig utf-7 utf-16 utf-16-be utf-16-le utf-32 utf-32-be utf-32-le
    iso8859-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 iso8859-9
    iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16
    cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258
    cp437 cp720 cp737 cp775 cp850 cp852 cp855 cp856 cp857 cp858 cp860 cp861 cp862 cp863 cp864 cp865
    cp866 cp869 cp874 cp932 cp949 cp950 cp1006 cp1125
    big5 big5hkscs gb2312 gbk gb18030 hz iso2022_kr euc_kr johab
    euc_jp euc_jis_2004 euc_jisx0213 shift_jis shift_jis_2004 shift_jisx0213
    iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 iso2022_jp_ext
    koi8-r koi8-t koi8-u kz1048 ptcp154 tis-620
    mac-arabic mac-croatian mac-cyrillic mac-farsi mac-greek mac-iceland mac-latin2 mac-roman
    mac-romanian mac-turkish
    """.split()  # noqa: SIM905
)
"""Charsets that are read, by Python's names: those in which people write, in linear time."""

_LONGEST_CHARSET = 40


def is_charset(name: str) -> bool:
    """Test for one of `CHARSETS`, by any of its names."""
    try:
        return len(name) <= _LONGEST_CHARSET and codecs.lookup(name).name in CHARSETS
    except (LookupError, ValueError):  # unknown, or no name at all
        return False


def decode(raw: bytes) -> str:
    """The characters of a whole file; never fails.

    UTF-16 and UTF-8 by their marks, else as `characters`.
    """
    if raw[:2] in UTF16:
        return raw.decode("utf-16", "replace")
    return _guess(raw.removeprefix(codecs.BOM_UTF8))[0]


def decode_as(raw: bytes, charset: str | None) -> str:
    """The characters of bytes by what they are said to be in, else as `decode`."""
    if charset and is_charset(charset):
        with suppress(ValueError):
            return raw.decode(charset)
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
    return shown, fingerprint(text) if shown != text else ""


def fingerprint(told: bytes | str) -> str:
    """A short hash of bytes, or of characters that may be halves of some."""
    raw = told.encode("utf-8", "surrogatepass") if isinstance(told, str) else told
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
