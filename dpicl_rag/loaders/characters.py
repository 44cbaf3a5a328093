"""Characters from bytes of unknown encoding, and whether the bytes follow from them."""

from __future__ import annotations

import codecs
import hashlib
import quopri
import re
from base64 import b64decode, b64encode
from contextlib import suppress

from charset_normalizer import from_bytes

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

# What is said to be in the first is written in the second, which holds it (as in WHATWG's table).
_USED: dict[str, tuple[str, ...]] = {
    "iso8859-9": ("cp1254",),
    "iso8859-11": ("cp874",),
    "tis-620": ("cp874",),
    "gb2312": ("gb18030",),
    "gbk": ("gb18030",),
    "euc_kr": ("cp949",),
    "shift_jis": ("cp932",),
    "big5": ("cp950", "big5hkscs"),
    "euc_jp": ("euc_jp", "euc_jis_2004"),
    "iso2022_jp": ("iso2022_jp", "iso2022_jp_ext"),
}
_WESTERN = ("ascii", "iso8859-1", "cp1252")
_JAPANESE = ("iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_ext")
# A text of so many letters beyond ASCII is UTF-8 by no accident, whatever it is said to be.
_FEWEST_UTF8 = 4
_MICROSOFT = re.compile(r"(?:windows|ibm|cp|ms|dos)[-_]?(\d{3,4})")
_ENCODED_WORD = r"=\?([^?\s*]+)(?:\*[^?\s]*)?\?([bBqQ])\?([^?\n]*)\?="
_ENCODED_WORDS = re.compile(rf"{_ENCODED_WORD}(?:[ \t]*{_ENCODED_WORD})*")
_JAPANESE_SIGNS = re.compile(rb"\x1b\$[@B]((?:[\x21-\x7e]{2})*)")

_META = re.compile(rb"<meta\s[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.I)
_META_BYTES = 4096
_ASCII_AGAIN = re.compile(rb"\x1b\([BJ]")

# Charsets of texts that name none, for writings other than the Latin one.
_LIKELY = "cp1251 koi8_r cp932 gb18030 big5 cp949 cp1253 cp1255 cp1256".split()  # noqa: SIM905
_BEYOND = bytes(range(128, 256))
_RUN = re.compile(rb"[\x80-\xff]{4,}")
_FEWEST_LETTERS = 2  # a row of dashes is no word
_DETECTED = 64 * 2**10

_LONGEST_CHARSET = 40


def is_charset(name: str) -> bool:
    """Test for one of `CHARSETS`, by any of its names."""
    return bool(_codec(name))


def _codec(name: str) -> str:
    """Python's name of a charset; empty where it is none of `CHARSETS`."""
    if len(name) > _LONGEST_CHARSET:
        return ""
    plain = name.strip().lower().removeprefix("x-").removesuffix("-i")
    for one in (name, _MICROSOFT.sub(r"cp\1", plain.replace("31j", "932"))):
        with suppress(LookupError, ValueError):  # unknown, or no name at all
            if codecs.lookup(one).name in CHARSETS:
                return codecs.lookup(one).name
    return ""


def decode(raw: bytes) -> str:
    """The characters of a whole text; never fails.

    UTF-16 and UTF-8 by their marks, else as `characters`; but where whole words are beyond ASCII
    and no UTF-8, the charset is that in which they are the likeliest.
    """
    if raw[:2] in UTF16:
        return raw.decode("utf-16", "replace")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    text, _ = _guess(raw)
    beyond = len(raw) - len(raw.translate(None, _BEYOND))
    foreign = sum(len(run) for run in _RUN.findall(raw) if len(set(run)) > _FEWEST_LETTERS)
    if not beyond or 2 * foreign < beyond:
        return text
    with suppress(UnicodeDecodeError):
        return raw.decode()
    found = from_bytes(raw[:_DETECTED], cp_isolation=_LIKELY).best()
    return text if found is None else decode_as(raw, found.encoding, is_certain=False)


def decode_as(raw: bytes, charset: str | None, *, is_certain: bool = True) -> str:
    """The characters of bytes by what they are said to be in, else as `decode`.

    By what is meant where that says it: ISO-8859-1 is Windows-1252, GB2312 is GBK. A few letters
    that cannot be read are replaced; where they are many, the bytes are in something else.
    """
    name = _codec(charset) if charset else ""
    if not name or name in _WESTERN:
        return decode(raw)
    if not raw.isascii() and not name.startswith(("utf-16", "utf-32")):
        with suppress(UnicodeDecodeError):
            text = raw.decode("utf-8-sig")
            if sum(character > "\x7f" for character in text) >= _FEWEST_UTF8:
                return text
    codecs_used = _USED.get(name, (name,))
    for one in codecs_used:
        with suppress(ValueError):
            return raw.decode(one)
    if name in _JAPANESE:
        return _with_signs(raw)
    text = raw.decode(codecs_used[0], "replace")
    return text if _is_readable(text) or not is_certain else decode(raw)


def decode_html(raw: bytes, charset: str | None = None) -> str:
    """The characters of HTML by what it is said to be in, else by what itself says."""
    if not (charset and is_charset(charset)):
        found = _META.search(raw[:_META_BYTES])
        charset = found[1].decode() if found else None
    # A declaration that can be read at all is in no wide characters.
    return decode_as(raw, None if (charset or "").lower().startswith("utf-16") else charset)


def decode_words(text: str) -> str:
    """A header's value with its encoded words in UTF-8, so that any parser reads them.

    A character may be cut in two by words that follow each other.
    """
    return _ENCODED_WORDS.sub(_in_utf8, text)


def _in_utf8(words: re.Match[str]) -> str:
    runs: list[tuple[str, bytes]] = []
    for charset, coding, payload in re.findall(_ENCODED_WORD, words[0]):
        raw = payload.encode("utf-8", "surrogateescape")
        try:
            is_plain = coding in "qQ"
            part = quopri.decodestring(raw, header=True) if is_plain else b64decode(raw + b"==")
        except ValueError:
            return words[0]
        if runs and runs[-1][0].lower() == charset.lower():
            part = runs.pop()[1] + part
        runs.append((charset, part))
    said = "".join(decode_as(raw, charset) for charset, raw in runs)
    # Of what cannot be read two that differ stay two.
    if "\ufffd" in clean(said) or not all(is_charset(charset) for charset, _ in runs):
        return words[0]
    return f"=?utf-8?b?{b64encode(said.encode()).decode()}?="


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
    if raw.isascii() and _JAPANESE_SIGNS.search(raw):
        return decode_as(raw, "iso2022_jp"), True
    try:
        return raw.decode("utf-8"), False
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
    if _is_readable(text):
        return text, True
    try:
        return raw.decode("cp1252"), False
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace"), True


def _is_readable(text: str) -> bool:
    """Test for a text of which a few letters were lost."""
    return sum(character > "\x7f" for character in text) > 2 * text.count("\ufffd")


def _with_signs(raw: bytes) -> str:
    """ISO-2022-JP with the signs that NEC and IBM added, which Python's codecs lack."""

    def decoded(run: re.Match[bytes]) -> bytes:
        pairs = run[1]
        shifted = bytearray()
        for row, cell in zip(pairs[::2], pairs[1::2], strict=True):  # as Shift JIS numbers them
            lead = (row + 1) // 2 + (0x70 if row < 0x5F else 0xB0)
            odd = cell + (0x20 if cell > 0x5F else 0x1F)
            shifted += bytes((lead, odd if row % 2 else cell + 0x7E))
        return bytes(shifted).decode("cp932", "replace").encode()

    return _ASCII_AGAIN.sub(b"", _JAPANESE_SIGNS.sub(decoded, raw)).decode("utf-8", "replace")
