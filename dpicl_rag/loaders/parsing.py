"""Mail, HTML and calendars, parsed in a child process, many at a time.

A batch is a matter of speed alone: one at which its process breaks off is parsed once more in a
process that begins with it (`dpicl_rag.conversion.child`), and what becomes of it there is its own.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from threading import Lock
from typing import Any

from dpicl_rag.conversion import Conversions
from dpicl_rag.conversion.child import FileReader
from dpicl_rag.conversion.confinement import ProcessLimits
from dpicl_rag.conversion.conversions import REASONS, Outcome
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import decode, decode_html
from dpicl_rag.loaders.mail import ParsedMail, parse_mail, record_of_mail
from dpicl_rag.loaders.mail_parts import Attached
from dpicl_rag.loaders.markup import text_of_calendar, text_of_html
from dpicl_rag.loaders.records import (
    MAX_RECORD_BYTES,
    LoaderItem,
    Options,
    RecordOrSkipped,
    Skipped,
    ThreadKeys,
    Unparsed,
    UnreadableError,
    tidy,
)
from dpicl_rag.loaders.text_files import record_of_text

LIMITS = ProcessLimits(cpu_seconds=60, text=64 * 2**20)
"""On one message, and on one HTML file."""

BATCH = 200
"""Messages or HTML files that are parsed in one process."""
BATCH_BYTES = 4 * 2**20

_idle: list[tuple[int, Conversions]] = []  # of this process: a load that follows need not wait
_lock = Lock()


@contextmanager
def parser(while_waiting: Callable[[], None]) -> Iterator[Conversions | None]:
    """A child that parses, for one load; None where processes cannot fork."""
    if not hasattr(os, "fork"):
        yield None
        return
    child = _taken() or Conversions(LIMITS, "dpicl_rag.loaders.parsing")
    child.while_waiting = while_waiting
    try:
        yield child
    finally:  # what it was asked it has answered, or it was closed
        child.while_waiting = lambda: None
        with _lock:
            if is_kept := not _idle:
                _idle.append((os.getpid(), child))
        if not is_kept:
            child.close()


def parsed(items: Iterable[LoaderItem], options: Options) -> Iterator[RecordOrSkipped]:
    """Records of items, in their order, or why there are none."""
    batch: list[LoaderItem] = []
    size = 0
    for item in items:
        if isinstance(item, Unparsed) and len(item.raw) > MAX_RECORD_BYTES:
            item = Skipped(item.position, reasons.TOO_LARGE)
        if not batch and not isinstance(item, Unparsed):
            yield item
            continue
        batch.append(item)
        size += len(item.raw) if isinstance(item, Unparsed) else 0
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield from _parsed(batch, options)
            batch, size = [], 0
    yield from _parsed(batch, options)


def _parsed(batch: Sequence[LoaderItem], options: Options) -> Iterator[RecordOrSkipped]:
    answers = {
        kind: iter(_answers(kind, [one for one in batch if _kind(one) == kind], options))
        for kind in READERS
    }
    for one in batch:
        yield _entry(one, next(answers[one.kind]), options) if isinstance(one, Unparsed) else one


def _kind(one: LoaderItem) -> str:
    return one.kind if isinstance(one, Unparsed) else ""


def _answers(kind: str, those: Sequence[LoaderItem], options: Options) -> Sequence[bytes | Outcome]:
    contents = [
        _question_of_mail(one.raw, options.unit) if kind == "mail" else one.raw
        for one in those
        if isinstance(one, Unparsed)
    ]
    if options.parser is None:
        return [READERS[kind].read(content) for content in contents]
    if not contents:
        return []
    answers = options.parser.convert_all(kind, contents)
    # Where a public text breaks off as well, no process can be had: that is nobody's message.
    if Outcome.BROKE_OFF in answers and options.parser.convert_all("html", [b"."]) != [b"."]:
        raise LoaderError(
            "no process can be started to parse mail and HTML; see that there is memory and room "
            "for temporary files, and run the same command again"
        )
    return answers


def _entry(unparsed: Unparsed, answer: bytes | Outcome, options: Options) -> RecordOrSkipped:
    try:
        if isinstance(answer, Outcome):
            raise UnreadableError(REASONS[answer])
        if unparsed.kind == "mail":
            entry: RecordOrSkipped = record_of_mail(_mail_in(answer), unparsed.position, options)
        else:
            entry = record_of_text(answer.decode(), unparsed.raw, unparsed.position)
    except UnreadableError as error:
        return Skipped(unparsed.position, str(error))
    if isinstance(entry, Skipped):
        return entry
    return replace(entry, file=unparsed.file, exact={**unparsed.exact, **entry.exact})


def _taken() -> Conversions | None:
    with _lock:
        for kept in _idle:
            if kept[0] == os.getpid():  # of a process that forked it is the parent's
                _idle.remove(kept)
                return kept[1]
    return None


@atexit.register
def _close() -> None:
    while (one := _taken()) is not None:
        one.close()


def _question_of_mail(raw: bytes, unit: str | None) -> bytes:
    """A message and the unit that is asked for, as one file of kind ``mail``."""
    return json.dumps(unit).encode() + b"\n" + raw


def _mail_in(answer: bytes) -> ParsedMail:
    """The message that an answer holds.

    Raises:
        UnreadableError: There is no record of it.
    """
    fields: dict[str, Any] = json.loads(answer)
    if reason := fields.get("reason"):
        raise UnreadableError(reason)
    fields["thread"] = ThreadKeys(**_tuples(fields["thread"]))
    fields["attachments"] = [
        Attached(**{**one, "raw": base64.b64decode(one["raw"])}) for one in fields["attachments"]
    ]
    return ParsedMail(**fields)


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}


def _parse_mail(content: bytes) -> bytes:
    unit, _, raw = content.partition(b"\n")
    try:
        fields = asdict(parse_mail(raw, json.loads(unit)))
    except UnreadableError as error:
        fields = {"reason": str(error)}
    for one in fields.get("attachments", ()):
        one["raw"] = base64.b64encode(one["raw"]).decode()
    return json.dumps(fields).encode()


def _parse_html(content: bytes) -> bytes:
    return tidy(text_of_html(decode_html(content))).encode("utf-8", "replace")


def _parse_calendar(content: bytes) -> bytes:
    return tidy(text_of_calendar(decode(content))).encode("utf-8", "replace")


READERS = {
    "mail": FileReader(_parse_mail),
    "html": FileReader(_parse_html),
    "calendar": FileReader(_parse_calendar),
}
"""In the child process."""
