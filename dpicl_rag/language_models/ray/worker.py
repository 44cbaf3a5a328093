"""The actor of a shard, whose methods return bytes and codes alone.

Ray copies the words of an error, and the way it took, to the driver's log. So no method raises.
Objects of more than 100 KB go through Ray's object store, which may write them to disk. So
messages are cut into parts of a public size.
"""

from __future__ import annotations

import logging
import os
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.load_language_model import load_language_model
from dpicl_rag.language_models.openai_compatible.server_address import Address
from dpicl_rag.language_models.out_of_memory import NotEnoughMemoryError, enough_memory
from dpicl_rag.language_models.ray.commands import Reply
from dpicl_rag.language_models.ray.shard import BehindError, Shard, bits_of

PART = 64 << 10
"""Most bytes of a part of a message."""

_HEAD = struct.Struct("<QI")
_KEPT = 16  # messages and replies, for a driver that asks again

ModelSource = str | Path | Callable[[], Any] | None
"""Source of a process's model: an id or folder, a function, or the packaged default."""


def load(source: ModelSource) -> LanguageModel:
    """A language model of this process.

    Raises:
        ConfigurationError: The source is a loaded model, or a server.
        ModelError: It cannot be loaded.
    """
    if isinstance(source, str) and Address.meant(source):
        raise ConfigurationError("a server needs no workers: ask it from this process")
    if source is None or isinstance(source, (str, Path)):
        return load_language_model(source)
    if not callable(source):
        raise ConfigurationError(
            "every worker loads the model by itself: give a Hugging Face id, a folder, or a "
            "function that returns a model"
        )
    return load_language_model(source())


def parts_of(number: int, message: bytes) -> list[bytes]:
    """A message in parts, one at least; each says which message it is of, and how many there are.

    They are bytes alone, which Ray passes on as they are.
    """
    cuts = range(0, max(1, len(message)), PART)
    head = _HEAD.pack(number, len(cuts))
    return [head + message[at : at + PART] for at in cuts]


def read_part(part: bytes) -> tuple[int, int, bytes]:
    """Number of the message, how many parts it has, and what is in this one."""
    number, parts = _HEAD.unpack_from(part)
    return number, parts, part[_HEAD.size :]


class Worker:
    """See the module. Numbers name messages, so that a repeated one gets the reply of the first.

    Args:
        source: Where the model comes from, pickled: a function may be missing here.
        threads: Of torch; the order of additions may follow from it.
    """

    def __init__(self, source: bytes, threads: int) -> None:
        self._source = source
        self._threads = threads
        self._shard: Shard | None = None
        self._bits = ""
        self._torn: OrderedDict[int, dict[int, bytes]] = OrderedDict()
        self._replies: OrderedDict[int, list[bytes]] = OrderedDict()

    def __repr__(self) -> str:
        return "Worker()"

    def hello(self) -> str:
        """Load the model.

        Returns:
            The digest of its bits; empty where it cannot be loaded.
        """
        try:
            if self._shard is None:
                import torch

                torch.set_num_threads(self._threads)
                model = load(pickle.loads(self._source))  # noqa: S301 - from the driver
                self._bits = bits_of(model)
                self._shard = Shard(model)
        except BaseException:
            return ""
        return self._bits

    def part(self, at: int, part: bytes) -> None:
        """Take a part of a message that is not the last."""
        number, _, found = read_part(part)
        self._torn.setdefault(number, {})[at] = found
        while len(self._torn) > _KEPT:
            self._torn.popitem(last=False)

    def run(self, last: bytes) -> bytes:
        """Act on a message, of which the last part is given.

        Returns:
            The first part of the reply.
        """
        number, parts, end = read_part(last)
        if number not in self._replies:
            found = [*self._torn.pop(number, {}).values(), end]
            reply = self._reply(found) if len(found) == parts else Reply("torn")
            self._replies[number] = parts_of(number, pickle.dumps(reply))
            while len(self._replies) > _KEPT:
                self._replies.popitem(last=False)
        return self._replies[number][0]

    def more(self, number: int, at: int) -> bytes:
        """Another part of a reply; nothing where it is not kept any more."""
        kept = self._replies.get(number, [])
        return kept[at] if at < len(kept) else b""

    def _reply(self, found: list[bytes]) -> Reply:
        try:
            if self._shard is None:
                return Reply("behind")  # it has not been greeted
            commands = pickle.loads(b"".join(found))  # noqa: S301 - from the driver alone
            with enough_memory():
                return Reply("done", self._shard.act(commands))
        except BehindError:
            return Reply("behind")
        except NotEnoughMemoryError:
            return Reply("memory")
        except BaseException:
            return Reply("failed")


class Actor(Worker):
    """A worker in a process of its own, which says nothing in Ray's log files.

    What libraries print may quote or count what they read.
    """

    def __init__(self, source: bytes, threads: int) -> None:
        logging.disable(logging.CRITICAL)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        super().__init__(source, threads)
