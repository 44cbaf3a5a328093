"""One mail: headers, text and the keys of its thread."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from email import message_from_bytes
from email.message import Message
from email.policy import default as modern
from email.utils import parseaddr, parsedate_to_datetime

from dpicl_rag.loaders.attachments import Attachment, read_attachments
from dpicl_rag.loaders.characters import characters_of, decode, decode_as, fingerprint
from dpicl_rag.loaders.load_report import Skipped
from dpicl_rag.loaders.markup import text_of_html
from dpicl_rag.loaders.quotes import own_words
from dpicl_rag.loaders.records import (
    BROKEN_MESSAGE,
    EMPTY,
    MAX_RECORD_BYTES,
    NO_HEADERS,
    TOO_LARGE,
    Entry,
    Options,
    Record,
    ThreadKeys,
    clean,
    tidy,
)
from dpicl_rag.loaders.subjects import is_forward, is_reply
from dpicl_rag.loaders.threads import thread_keys, thread_offers

_KNOWN_HEADERS = frozenset(
    ["from", "to", "cc", "subject", "date", "message-id", "received", "return-path", "sender"]
)
_BETWEEN_ADDRESSES = re.compile(r"[\s<>,;:\"()\[\]]+")
_ID = re.compile(r"<([^<>\s]{1,998})>")
_BETWEEN_IDS = re.compile(r"[\s,;<>]+")
# The header parser's time grows faster than a value's length; longer values are left as they are.
_LONGEST_VALUE = 4_000
_DEEPEST_PART = 20
_SIGNATURES = (
    "application/pgp-signature",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
)


def read_mail(raw: bytes, position: str, options: Options) -> Entry:
    """Make a record of one message.

    The texts of its attachments stand behind its own. Quoted mail and the signature are cut, unless
    nothing else is there. Under the unit "thread" they are cut from answers only: what an answer
    quotes stands elsewhere in its thread, whereas the point of a forward is what it quotes.

    Args:
        raw: The message as it is stored.
        position: Where it stands, for the report.
        options: A ``unit`` that names a header adds that header to the metadata.

    Returns:
        A record, or why there is none. Whatever the bytes are, nothing is raised.
    """
    if len(raw) > MAX_RECORD_BYTES:
        return Skipped(position, TOO_LARGE)
    if not raw.strip():
        return Skipped(position, EMPTY)
    try:
        return _read(raw, position, options)
    except Exception:  # the parsers of the standard library fail in many ways on broken mail
        return Skipped(position, BROKEN_MESSAGE)


def _read(raw: bytes, position: str, options: Options) -> Entry:
    # The tree of parts is read by the old policy: under the new one a malformed Content-Type
    # raises in the middle. The headers that matter are read by the new one, in _value.
    message = message_from_bytes(raw)
    given: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in message.raw_items():
        given[name.lower()].append(str(value))
    headers = {name: _value(name, values[0]) for name, values in given.items()}
    if not _KNOWN_HEADERS & headers.keys():
        return Skipped(position, NO_HEADERS)
    subject = " ".join(headers.get("subject", "").split())
    body = tidy("\n\n".join(_texts(message)))
    # Headers may come twice, and ids are bytes: characters that were guessed could be another's.
    own, answered = _ids(given["message-id"]), _ids(given["references"] + given["in-reply-to"])
    is_answer = is_reply(subject) or (answered and not is_forward(subject))
    if body and (is_answer or options.unit not in (None, "thread")):
        body = own_words(body) or body
    attached, unread = read_attachments(_attached(message), options)
    if not body and not subject and not attached:
        return Skipped(position, EMPTY)
    shown = {"Subject": subject, "From": headers.get("from", ""), "Date": headers.get("date", "")}
    top = "\n".join(f"{name}: {value}" for name, value in shown.items() if value)
    own_id = own[0] if own else hashlib.sha256(raw).hexdigest()
    metadata = {
        "subject": subject,
        "from": headers.get("from", ""),
        "to": headers.get("to", ""),
        "date": headers.get("date", ""),
        "message_id": headers.get("message-id", ""),
        "sender": sender(headers.get("from", "")),
    }
    fields: tuple[str, ...] = ()
    if options.unit and options.unit not in (*metadata, "thread", "document"):
        metadata[options.unit] = headers.get(options.unit.lower(), "")
        # The names serve the report only, so they are kept only where it may show them.
        fields = () if metadata[options.unit] else (*list(metadata)[:-1], "thread", *headers)
    return Record(
        position=position,
        text=tidy("\n\n".join([top, body, *attached])),
        metadata=metadata,
        identity=f"message {own_id}",
        thread=ThreadKeys(
            own_id,
            (*answered, *own[1:]),
            subject,
            _timestamp(metadata["date"]),
            sender(given["from"][0]) if "from" in headers else "",
            _addresses(given["to"] + given["cc"]),
        ),
        fields=fields,
        exact=_exact(options.unit, given, metadata),
        unread=unread,
        said=tidy(f"{top}\n\n{body}") if attached else "",
    )


def message_id(header: bytes) -> str:
    """The id that its headers give a message; empty where it is known by its bytes alone."""
    try:
        named = message_from_bytes(header).raw_items()
        given = [str(value) for name, value in named if name.lower() == "message-id"]
    except Exception:  # see read_mail
        return ""
    return next(iter(_ids(given)), "")


def keys_of_stored(metadata: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys and offers of a message, as in ``Origin``, as far as its metadata tell.

    Nothing of what is no mail.
    """
    if "message_id" not in metadata:
        return (), ()
    told = {name: str(metadata.get(name, "")) for name in ("subject", "date", "from", "to")}
    ids = _ids([str(metadata["message_id"])])[:1]
    message = ThreadKeys(
        ids[0] if ids else "",
        (),
        told["subject"],
        _timestamp(told["date"]),
        sender(told["from"]),
        _addresses([told["to"]]),
    )
    return thread_keys(message)[0 if ids else 1 :], thread_offers(message)


def sender(value: str) -> str:
    """The address of a From header in lower case, or its text where it holds no address."""
    try:
        address = parseaddr(value[:_LONGEST_VALUE])[1]
    except Exception:  # nested comments exhaust the parser's stack
        address = ""
    return " ".join((address if "@" in address else value).split()).lower()


def _value(name: str, value: object) -> str:
    """A header's characters, with encoded words and stray 8-bit characters decoded."""
    text = str(value)
    # The parser keeps bytes beyond ASCII as surrogates.
    text = decode(text.encode("utf-8", "surrogateescape"))
    text = "".join(text.splitlines())
    if "=?" in text and len(text) <= _LONGEST_VALUE:
        try:
            text = str(modern.header_factory(name, text))
        except Exception:  # a malformed value is kept as it stands
            text = str(text)
    return clean(text).strip()


def _exact(
    unit: str | None, given: Mapping[str, Sequence[str]], metadata: Mapping[str, str]
) -> dict[str, str]:
    """Mark that separates the unit's value from equal readings; see ``Record.exact``."""
    values = given.get(
        {"sender": "from", "message_id": "message-id"}.get(unit or "", unit or "").lower()
    )
    if unit is None or not values:
        return {}
    raw = sender(values[0]) if unit == "sender" else values[0]
    exact = characters_of(raw)[1]
    if not exact and "\ufffd" in metadata.get(unit, ""):  # encoded words can be broken, too
        exact = fingerprint(raw.encode("utf-8", "surrogateescape"))
    return {unit: exact} if exact else {}


def _ids(values: Iterable[str]) -> tuple[str, ...]:
    """The ids in headers. Bare words are ids where all have an @, or one stands alone."""
    found: list[str] = []
    for value in values:
        bare = _ID.sub(" ", value)
        words = [word for word in _BETWEEN_IDS.split(bare) if word]
        alone = value.split(maxsplit=1)
        if not all("@" in word for word in words):  # a sentence, or an id of another form
            words = alone if len(alone) == 1 and "<" not in value else []
        found += [*_ID.findall(value), *words]
    return tuple(dict.fromkeys(found))


def _addresses(values: Iterable[str]) -> tuple[str, ...]:
    """Texts in headers that look like addresses, in lower case. They lead no parser astray."""
    words = (word for value in values for word in _BETWEEN_ADDRESSES.split(value.lower()))
    return tuple(dict.fromkeys(word.strip("'") for word in words if "@" in word))


def _timestamp(date: str) -> float | None:
    try:
        when = parsedate_to_datetime(date)
        # A date without a zone must not depend on this machine's.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError, OSError):
        return None


def _texts(part: Message, depth: int = 0) -> list[str]:
    """The texts of a message in order; of alternatives the plain one, else the last, the best."""
    kind = part.get_content_type()
    payload = part.get_payload()
    if isinstance(payload, list):
        if part.get_content_maintype() != "multipart" or depth >= _DEEPEST_PART:
            return []
        children = [child for child in payload if isinstance(child, Message)]
        found = [(child.get_content_type(), _texts(child, depth + 1)) for child in children]
        filled = [(kind, texts) for kind, texts in found if any(text.strip() for text in texts)]
        if kind == "multipart/alternative" and filled:
            plain = [texts for kind, texts in filled if kind == "text/plain"]
            return plain[0] if plain else filled[-1][1]
        return [text for _, texts in filled for text in texts]
    if depth and _is_attached(part):
        return []
    # A multipart without parts lost its boundary; its text is there all the same.
    if kind not in ("text/plain", "text/html") and part.get_content_maintype() != "multipart":
        return []
    text = _decoded(part)
    return [text_of_html(text) if kind == "text/html" else text]


def _decoded(part: Message) -> str:
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return str(part.get_payload())
    return decode_as(raw, part.get_content_charset())


def _is_attached(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or bool(part.get_filename())


def _attached(part: Message, depth: int = 0) -> Iterator[Attachment]:
    """The attachments of a message in order, but for pictures within its text and signatures."""
    kind = part.get_content_type()
    payload = part.get_payload()
    if isinstance(payload, list) and part.get_content_maintype() == "multipart":
        for child in payload if depth < _DEEPEST_PART else ():
            if isinstance(child, Message):
                yield from _attached(child, depth + 1)
        return
    is_message = kind == "message/rfc822"
    if not depth or not (is_message or _is_attached(part)) or kind in _SIGNATURES:
        return
    is_within = part.get_content_disposition() != "attachment" or "content-id" in part
    if part.get_content_maintype() == "image" and is_within:
        return
    raw = None if is_message else part.get_payload(decode=True)
    name = " ".join(_value("subject", part.get_filename() or "").split())
    charset = part.get_content_charset()
    yield Attachment(name, kind, raw if isinstance(raw, bytes) else None, charset)
