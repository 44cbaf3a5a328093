"""Parsers of mail and HTML, in the child process: what they find, and back from it."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any

from dpicl_rag.conversion.child import FileReader
from dpicl_rag.loaders.attachments import Attached
from dpicl_rag.loaders.characters import decode
from dpicl_rag.loaders.mail import ParsedMail, parse_mail
from dpicl_rag.loaders.markup import text_of_html
from dpicl_rag.loaders.records import ThreadKeys, UnreadableError, tidy


def question_of_mail(raw: bytes, unit: str | None) -> bytes:
    """A message and the unit that is asked for, as one file of kind ``mail``."""
    return json.dumps(unit).encode() + b"\n" + raw


def mail_in(answer: bytes) -> ParsedMail:
    """The message that an answer holds.

    Raises:
        UnreadableError: There is no record of it.
    """
    told: dict[str, Any] = json.loads(answer)
    if reason := told.get("reason"):
        raise UnreadableError(reason)
    told["thread"] = ThreadKeys(**_tuples(told["thread"]))
    told["attachments"] = [
        Attached(**{**one, "raw": base64.b64decode(one["raw"])}) for one in told["attachments"]
    ]
    return ParsedMail(**told)


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}


def _parse_mail(content: bytes) -> bytes:
    unit, _, raw = content.partition(b"\n")
    try:
        told = asdict(parse_mail(raw, json.loads(unit)))
    except UnreadableError as error:
        told = {"reason": str(error)}
    for one in told.get("attachments", ()):
        one["raw"] = base64.b64encode(one["raw"]).decode()
    return json.dumps(told).encode()


def _parse_html(content: bytes) -> bytes:
    return tidy(text_of_html(decode(content))).encode("utf-8", "replace")


READERS = {"mail": FileReader(_parse_mail), "html": FileReader(_parse_html)}
