"""Finds a secret string in whatever a framework was told.

A `LeakProbe` collects everything that left the private path: callback arguments, cache keys,
traces, logs, warnings, printed text, outputs, reprs and errors. `findings` names the places where
the secret shows.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpicl_rag.auditing.channels import Channels, chain_of
from dpicl_rag.mechanisms.randomness import Randomness
from tests.support.around import Around

SECRET = "quillon-vexatrix-8841907"
TOKENS = 4
"""Of an answer: enough for streams that are closed before their end."""

# Objects of these packages hold private text by design. What they show to others counts
# (repr, str, dumps); what a debugger could dig out of their attributes does not.
_HOLDERS = ("dpicl_rag", "langchain_dpicl_rag", "llama_index_dpicl_rag", "tests", "chromadb")
_LEAVES = (types.ModuleType, types.FunctionType, types.MethodType, type, int, float, complex)
_DEPTH = 12


class LeakProbe(Channels):
    """Collects values and tells where the secret shows.

    Args:
        secret: A string that occurs nowhere but in the private documents.
    """

    def __init__(self, secret: str = SECRET) -> None:
        super().__init__()
        self._needles = _spellings(secret)
        self._findings: list[str] = []
        self.places: list[str] = []

    @property
    def findings(self) -> list[str]:
        """Places where the secret showed; never the secret itself."""
        return self._findings

    def see(self, place: str, value: Any) -> None:
        """Look through a value now: its text, what it holds and how it is dumped."""
        self.places.append(place)
        if any(self._shows(text) for text in _texts(value, set(), _DEPTH)):
            self._findings.append(place)

    def see_error(self, place: str, error: BaseException) -> None:
        """Look through an error: message, notes, attributes, causes, formatted traceback."""
        self.see(place, "".join(traceback.format_exception(error)))
        for one in chain_of(error):
            self.see(place, [repr(one), str(one), one.args, vars(one)])

    def _shows(self, text: str) -> bool:
        folded = text.casefold()
        return any(needle in folded for needle in self._needles)


class Comparison(LeakProbe):
    """Records all that it is shown, in order to compare it with what another run showed.

    Args:
        folder: Its name is left out, and its files are recorded.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def see(self, place: str, value: Any) -> None:
        """Record the text of a value, of what it holds, and how it is dumped."""
        self.places.append(place)
        Channels.see(self, place, "\n".join(_texts(value, set(), _DEPTH)))

    def see_error(self, place: str, error: BaseException) -> None:
        """Record types and messages, without the way through the code."""
        for one in chain_of(error):
            self.see(place, [repr(one), str(one), one.args, vars(one)])


class SpyModel(Around):
    """A language model that remembers what its rows were given.

    The counterpart of the probe: it shows that the secret did reach the model.

    Args:
        model: The model that does the work.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.prompts: list[str] = []

    def read(self, prefix: Any, inputs: Any, **options: Any) -> Any:
        decode = self._model.tokenizer.decode  # the tiny model's inputs are token ids
        self.prompts += [decode(list(token_ids)) for token_ids in (prefix, *inputs)]
        return self._model.read(prefix, inputs, **options)


@dataclasses.dataclass(frozen=True)
class Drive:
    """One adapter in one mode.

    Attributes:
        name: Shown as the test's name.
        run: Called with a `Stage`; sync or async. What it returns is looked through as output.
        reads: Whether the model must have read the secret.
    """

    name: str
    run: Callable[[Stage], Any]
    reads: bool = True


@dataclasses.dataclass
class Stage:
    """What a drive works with.

    Attributes:
        model: A tiny model with a spy on it.
        documents: Plain texts; each holds the secret.
        question: A public question.
        probe: Where the drive may report more than what it returns.
        folder: An empty folder.
        randomness: Coins of every answer.
    """

    model: SpyModel
    documents: list[str]
    question: str
    probe: LeakProbe
    folder: Any
    randomness: Randomness

    def object(self, place: str, value: Any) -> None:
        """Report an object that a user holds: its repr and str."""
        self.probe.see(f"repr of {place}", repr(value))
        self.probe.see(f"str of {place}", str(value))


def _spellings(secret: str) -> tuple[str, ...]:
    raw = secret.encode()
    # Base64 depends on the position modulo 3; the ends are cut off as they mix with neighbours.
    encoded = [
        base64.b64encode(b"\0" * shift + raw).decode()[4:-4].casefold() for shift in range(3)
    ]
    return (secret.casefold(), raw.hex(), *encoded)


def _texts(value: Any, seen: set[int], depth: int) -> Iterator[str]:
    """Every text that can be read off a value."""
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, (bytes, bytearray)):
        yield value.decode("utf-8", "replace")
        return
    if value is None or isinstance(value, _LEAVES) or depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    if not isinstance(value, (dict, list, tuple, set, frozenset)):
        yield from _shown(value)
    for part in _parts(value):
        yield from _texts(part, seen, depth - 1)


def _shown(value: Any) -> Iterator[str]:
    """What an object tells about itself."""
    for show in (repr, str, _model_dump):
        try:
            yield str(show(value))
        except Exception as error:  # an object that cannot be shown shows its error instead
            yield str(error)


def _model_dump(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else ""


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if type(value).__module__.split(".")[0] in (*_HOLDERS, *sys.stdlib_module_names, "torch"):
        return []
    fields = getattr(value, "__dict__", None)
    slots = [
        getattr(value, name)
        for name in getattr(type(value), "__slots__", ())
        if isinstance(name, str) and hasattr(value, name)
    ]
    return [*(fields.values() if isinstance(fields, dict) else ()), *slots]
