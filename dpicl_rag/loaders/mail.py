"""One mail: headers, text and the keys of its thread."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from email.policy import default as modern
from email.utils import parseaddr, parsedate_to_datetime

from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import (
    characters_of,
    decode_as,
    decode_html,
    decode_words,
    fingerprint,
)
from dpicl_rag.loaders.mail_parts import (
    CALENDAR,
    NO_BODIES,
    Attached,
    Attachment,
    MailPart,
    parse_attachments,
    parsed_message,
    read_attachments,
    text_of_part,
)
from dpicl_rag.loaders.mbox import is_spam
from dpicl_rag.loaders.quotes import own_words
from dpicl_rag.loaders.records import Options, Record, ThreadKeys, UnreadableError, clean, tidy
from dpicl_rag.loaders.threads import is_forward, is_reply, thread_keys, thread_offers

_KNOWN_HEADERS = frozenset(
    ["from", "to", "cc", "subject", "date", "message-id", "received", "return-path", "sender"]
)
_BETWEEN_ADDRESSES = re.compile(r"[\s<>,;:\"()\[\]]+")
_ID = re.compile(r"<([^<>\s]{1,998})>")
_BETWEEN_IDS = re.compile(r"[\s,;<>]+")
# The header parser's time grows faster than a value's length; longer values are left as they are.
_LONGEST_VALUE = 4_000
_SIGNATURES = (
    "application/pgp-signature",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
)


@dataclass(frozen=True, slots=True, repr=False)
class ParsedMail:
    """A message without what is to be converted of it; other fields are its record's. Private.

    Attributes:
        top: The lines of its headers that are shown.
        body: Its text.
        is_spam: Gmail's labels say that it is spam, trash or a draft.
    """

    top: str
    body: str
    metadata: Mapping[str, str]
    thread: ThreadKeys
    attachments: Sequence[Attached]
    fields: Sequence[str] = ()
    exact: Mapping[str, str] = field(default_factory=dict)
    is_spam: bool = False


def parse_mail(raw: bytes, unit: str | None) -> ParsedMail:
    """Parse one message: a function of its bytes, public lengths of which are read.

    Quoted mail and the signature are cut. Under the unit "thread" they are cut from answers only,
    and only where something else is there: what an answer quotes stands elsewhere in its thread,
    whereas the point of a forward is what it quotes.

    Args:
        raw: The message as it is stored.
        unit: One that names a header adds that header to the metadata.

    Raises:
        UnreadableError: There is no record of it. Whatever the bytes are, nothing else is raised
            but MemoryError.
    """
    if not raw.strip():
        raise UnreadableError(reasons.EMPTY)
    try:
        return _parse(raw, unit)
    except (UnreadableError, MemoryError):
        raise
    except Exception:  # the parsers of the standard library fail in many ways on broken mail
        raise UnreadableError(reasons.BROKEN_MESSAGE) from None


def record_of_mail(parsed: ParsedMail, position: str, options: Options) -> Record:
    """A record of a message; the texts of its attachments stand behind its own."""
    if parsed.is_spam and not options.spam:
        raise UnreadableError(reasons.SPAM)
    attached, unread = read_attachments(parsed.attachments, options)
    if not parsed.body and not parsed.metadata["subject"] and not attached:
        raise UnreadableError(reasons.EMPTY)
    return Record(
        position=position,
        text=tidy("\n\n".join([parsed.top, parsed.body, *attached])),
        metadata=parsed.metadata,
        identity=f"message {parsed.thread.message_id}",
        thread=parsed.thread,
        fields=parsed.fields,
        exact=parsed.exact,
        unread=unread,
        said=tidy(f"{parsed.top}\n\n{parsed.body}") if attached else "",
    )


def _parse(raw: bytes, unit: str | None) -> ParsedMail:
    # The headers that matter are read by the new policy, in _value.
    message = parsed_message(raw)
    values: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in message.raw_items():
        values[name.lower()].append(str(value))
    names = tuple(values)
    if _KNOWN_HEADERS.isdisjoint(names):
        raise UnreadableError(reasons.NO_HEADERS)
    asked = {"subject", "from", "to", "date", "message-id", *([unit.lower()] if unit else [])}
    charsets = (part.get_content_charset() for part in message.walk() if isinstance(part, MailPart))
    charset = next((one for one in charsets if one), None)
    headers = {name: _value(name, values[name][0], charset) for name in asked if name in values}
    labels = _value("subject", values["x-gmail-labels"][0]) if "x-gmail-labels" in values else ""
    subject = " ".join(headers.get("subject", "").split())
    body = tidy("\n\n".join(_texts(message)))
    # Headers may come twice, and ids are bytes: characters that were guessed could be another's.
    ids, answered = _ids(values["message-id"]), _ids(values["references"] + values["in-reply-to"])
    is_answer = is_reply(subject) or (answered and not is_forward(subject))
    by_thread = unit in (None, "thread")
    if body and (is_answer or not by_thread):
        # A thread keeps what is nothing but quotes. In another's unit nothing would protect them.
        body = own_words(body) or (body if by_thread else "")
    shown = {"Subject": subject, "From": headers.get("from", ""), "Date": headers.get("date", "")}
    metadata = {
        "subject": subject,
        "from": headers.get("from", ""),
        "to": headers.get("to", ""),
        "date": headers.get("date", ""),
        "message_id": headers.get("message-id", ""),
        "sender": sender(headers.get("from", "")),
    }
    fields: tuple[str, ...] = ()
    if unit and unit not in (*metadata, "thread", "document"):
        metadata[unit] = headers.get(unit.lower(), "")
        # The names serve the report only, so they are kept only where it may show them.
        fields = () if metadata[unit] else (*list(metadata)[:-1], "thread", *names)
    return ParsedMail(
        top="\n".join(f"{name}: {value}" for name, value in shown.items() if value),
        body=body,
        metadata=metadata,
        thread=ThreadKeys(
            ids[0] if ids else hashlib.sha256(raw).hexdigest(),
            (*answered, *ids[1:], *_gmail_thread(values["x-gm-thrid"])),
            subject,
            _timestamp(metadata["date"]),
            sender(values["from"][0]) if values["from"] else "",
            _addresses(values["to"] + values["cc"]),
        ),
        attachments=tuple(parse_attachments(_attached(message, has_text=bool(body)))),
        fields=fields,
        exact=_exact(unit, values, metadata),
        is_spam=is_spam(labels),
    )


def message_id(header: bytes) -> str:
    """The id that its headers give a message; empty where it is known by its bytes alone."""
    try:
        named = parsed_message(header).raw_items()
        given = [str(value) for name, value in named if name.lower() == "message-id"]
    except Exception:  # see parse_mail
        return ""
    return next(iter(_ids(given)), "")


def keys_of_stored(metadata: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys and offers of a message, as in ``Origin``, as far as its metadata tell.

    Nothing of what is no mail.
    """
    if "message_id" not in metadata:
        return (), ()
    headers = {name: str(metadata.get(name, "")) for name in ("subject", "date", "from", "to")}
    ids = _ids([str(metadata["message_id"])])[:1]
    message = ThreadKeys(
        ids[0] if ids else "",
        (),
        headers["subject"],
        _timestamp(headers["date"]),
        sender(headers["from"]),
        _addresses([headers["to"]]),
    )
    return thread_keys(message)[0 if ids else 1 :], thread_offers(message)


def sender(value: str) -> str:
    """The address of a From header in lower case, or its text where it holds no address."""
    try:
        address = parseaddr(value[:_LONGEST_VALUE])[1]
    except Exception:  # nested comments exhaust the parser's stack
        address = ""
    return " ".join((address if "@" in address else value).split()).lower()


def _value(name: str, value: object, charset: str | None = None) -> str:
    """A header's characters, with encoded words and stray 8-bit characters decoded.

    Args:
        name: Of the header.
        value: As it is written.
        charset: Of the text below, in which many write these characters, too.
    """
    text = str(value)
    # The parser keeps bytes beyond ASCII as surrogates.
    text = decode_as(text.encode("utf-8", "surrogateescape"), None if text.isascii() else charset)
    text = "".join(text.splitlines())
    if "=?" in text and len(text) <= _LONGEST_VALUE:
        try:
            text = str(modern.header_factory(name, decode_words(text)))
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
    ids: list[str] = []
    for value in values:
        bare = _ID.sub(" ", value)
        words = [word for word in _BETWEEN_IDS.split(bare) if word]
        alone = value.split(maxsplit=1)
        if not all("@" in word for word in words):  # a sentence, or an id of another form
            words = alone if len(alone) == 1 and "<" not in value else []
        ids += [*_ID.findall(value), *words]
    return tuple(dict.fromkeys(ids))


def _gmail_thread(values: Sequence[str]) -> tuple[str, ...]:
    """The conversation in which Gmail has a message, as an id; Gmail's header is the first."""
    number = values[0].strip() if values else ""
    return (f"x-gm-thrid {number}",) if number.isdecimal() and number.isascii() else ()


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


def _texts(part: MailPart) -> list[str]:
    """The texts of a message in order; of alternatives the plain one, else the last, the best.

    A calendar says what no alternative does.
    """
    kind = part.get_content_type()
    if part.is_multipart():
        found = [(child.get_content_type(), _texts(child)) for child in _within(part)]
        filled = [(kind, texts) for kind, texts in found if any(text.strip() for text in texts)]
        if kind == "multipart/alternative" and filled:
            calendars = [texts for kind, texts in filled if kind == CALENDAR]
            others = [texts for kind, texts in filled if kind != CALENDAR]
            plain = [texts for kind, texts in filled if kind == "text/plain"]
            best = plain[:1] or others[-1:]
            return [text for texts in best + calendars for text in texts]
        return [text for _, texts in filled for text in texts]
    return [text_of_part(kind, _decoded(part), is_mail=True)] if _is_text(part) else []


def _decoded(part: MailPart) -> str:
    raw = part.get_payload(decode=True)
    read = decode_html if part.get_content_type() == "text/html" else decode_as
    return read(raw if isinstance(raw, bytes) else b"", part.get_content_charset())


def _is_text(part: MailPart) -> bool:
    """Test for a part whose text is that of its message."""
    if part.depth and _is_attached(part):
        return False
    # A multipart without parts lost its boundary; its text is there all the same.
    main = part.get_content_maintype()
    return main == "multipart" or (main == "text" and part.get_content_type() not in NO_BODIES)


def _is_attached(part: MailPart) -> bool:
    return part.get_content_disposition() == "attachment" or bool(part.get_filename())


def _attached(part: MailPart, *, has_text: bool) -> Iterator[Attachment]:
    """Parts that are not the text of a message in order, but pictures within it and signatures."""
    kind = part.get_content_type()
    if part.is_multipart() and part.get_content_maintype() == "multipart":
        for child in _within(part):
            yield from _attached(child, has_text=has_text)
        return
    if _is_text(part) or kind in _SIGNATURES:
        return
    is_within = part.get_content_disposition() != "attachment" or "content-id" in part
    if has_text and part.get_content_maintype() == "image" and is_within:
        return
    raw = None if part.is_multipart() else part.get_payload(decode=True)
    name = " ".join(_value("subject", part.get_filename() or "").split())
    charset = part.get_content_charset()
    yield Attachment(name, kind, raw if isinstance(raw, bytes) else None, charset)


def _within(part: MailPart) -> list[MailPart]:
    """The parts of a multipart."""
    children = part.get_payload() if part.get_content_maintype() == "multipart" else ()
    return [child for child in children if isinstance(child, MailPart)]
