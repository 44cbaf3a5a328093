"""The writer's own words in a mail, without quoted mail and without a signature."""

from __future__ import annotations

import re

from mailparser_reply import EmailMessage, EmailReply
from mailparser_reply.constants import OUTLOOK_MAIL_SEPARATOR

from dpicl_rag.loaders.records import tidy

# The other languages of the library have patterns that are ordinary English ("Tak", "/word",
# a single line that begins with "Data:") and would cut text that is no quote.
_LANGUAGES = ("en", "de", "fr", "es", "it", "nl", "ja", "ko", "zh")
# Patterns of the library take time to the fourth power of a line's length. No line that introduces
# a quote is longer than this, so longer ones are hidden from it; so is a text of book length.
_LONGEST_HEADER_LINE = 160
_LONGEST_BODY = 500_000
_MARK = "\ue000"
_HIDDEN = re.compile(f"{_MARK}(\\d+){_MARK}")
# "Thanks," may begin the writer's last words or the answer itself. It is a signature only if what
# follows looks like one.
_SIGNATURE_LINES = 8
_SIGNATURE_FIRST_LINE = 30
_RULE = re.compile(f"([^\n]){OUTLOOK_MAIL_SEPARATOR}")
_RULES = 8


class _Mail(EmailMessage):  # type: ignore[misc]  # the library is untyped
    """A mail whose text is normalised without a deprecated call.

    The library gives ``re.sub`` its flags in the place of the count, which Python 3.13 warns of.
    They have always counted as 8, so as many rules are dropped: a mail that is read again must
    come out as the one that is stored.
    """

    text: str

    def _normalize_text(self) -> None:
        lines = "\n".join(line.strip() for line in self.text.split("\n"))
        self.text = _RULE.sub(r"\1\n", lines, count=_RULES)


def own_words(body: str) -> str:
    """Cut quoted mail and the signature from the text of a mail.

    Cut are lines that begin with ``>``, all that follows "-----Original Message-----" or a block of
    From, Sent and Subject lines, and all that follows "On ... wrote:", unless its quote is marked
    with ``>``: then answers between and below the quoted lines are kept.

    Args:
        body: Text of a mail.

    Returns:
        The rest; empty if there is nothing else.
    """
    hidden: list[str] = []

    def hide(line: str) -> str:
        if len(line) <= _LONGEST_HEADER_LINE or line.startswith(">"):
            return line[:_LONGEST_HEADER_LINE]
        hidden.append(line)
        return f"{_MARK}{len(hidden) - 1}{_MARK}"

    body = tidy(body).replace(_MARK, "")
    if len(body) > _LONGEST_BODY:
        return tidy(_unquoted(body))
    message = _Mail(
        text="\n".join(hide(line) for line in body.split("\n")),
        languages=list(_LANGUAGES),
        keep_hyphen_lists=True,
    ).read()
    kept: list[str] = []
    for reply in message.replies:
        if not reply.headers:
            kept.append(_unquoted(_unsigned(reply)))
            continue
        quoted = reply.content.removeprefix(reply.headers).lstrip()
        if not quoted.startswith(">"):
            break
        kept.append(_unquoted(quoted))
    return tidy(_HIDDEN.sub(lambda match: hidden[int(match[1])], "\n\n".join(kept)))


def _unquoted(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.startswith(">"))


def _unsigned(reply: EmailReply) -> str:
    content: str = reply.content
    lines = reply.signatures.split("\n")
    if len(lines) > _SIGNATURE_LINES or len(lines[0]) > _SIGNATURE_FIRST_LINE:
        return content
    return content.removesuffix(reply.signatures)
