"""Parts of a message, cut to public lengths before the standard library looks into them.

Its parser takes time that grows with the square of a header's length, and with the depth of parts.
"""

from __future__ import annotations

from email import message_from_bytes
from email.message import Message
from email.policy import Policy, compat32
from typing import Any

from dpicl_rag.loaders.characters import is_charset
from dpicl_rag.loaders.records import TOO_MANY_PARTS, UnreadableError

LONGEST_HEADER = 64 * 2**10
"""Of a header's value the first so many characters are read."""
LONGEST_CONTENT_HEADER = 4_000
"""Of one that tells about content (``Content-Type`` and its like), whose parameters are parsed."""
MOST_HEADERS = 1_000
"""So many headers of a message or of a part are read."""
MOST_PARTS = 1_000
"""A message of more parts is skipped."""
DEEPEST_PART = 20
"""A part within so many parts is not looked into."""

_MANY_PARTS = ("multipart/", "message/")


class MailPart(Message):
    """A message or a part of one.

    Args:
        policy: As for its base.

    Attributes:
        depth: How many parts it is in.
    """

    def __init__(self, policy: Policy = compat32) -> None:
        super().__init__(policy)
        self.depth = 0
        self._root = self
        self._parts = 0

    def set_raw(self, name: str, value: str) -> None:
        """See the base; called for each header as it is written."""
        if len(self) < MOST_HEADERS:
            is_content = name.lower().startswith("content-")
            most = LONGEST_CONTENT_HEADER if is_content else LONGEST_HEADER
            super().set_raw(name, value[:most])

    def attach(self, payload: Any) -> None:
        """See the base; called for each part before it is parsed.

        Raises:
            UnreadableError: The message has too many.
        """
        payload.depth, payload._root = self.depth + 1, self._root
        self._root._parts += 1
        if self._root._parts > MOST_PARTS:
            raise UnreadableError(TOO_MANY_PARTS)
        super().attach(payload)

    def get_content_type(self) -> str:
        """See the base; what is too deep has no parts."""
        kind = super().get_content_type()
        is_deep = self.depth >= DEEPEST_PART and kind.startswith(_MANY_PARTS)
        return "application/octet-stream" if is_deep else kind

    def get_param(
        self, param: str, failobj: Any = None, header: str = "content-type", unquote: bool = True
    ) -> Any:
        """See the base; of charsets only those of a public list."""
        value = super().get_param(param, failobj, header, unquote)
        if param == "charset" and value is not failobj:
            name = value[2] if isinstance(value, tuple) else value
            return value if is_charset(name) else failobj
        return value


def parsed_message(raw: bytes) -> MailPart:
    """The tree of a message's parts.

    Raises:
        UnreadableError: It has too many.
    """
    # By the old policy: under the new one a malformed Content-Type raises in the middle.
    return message_from_bytes(raw, MailPart)
