"""A made-up model that answers the items of the rehearsal by a script, and notes what it read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.languages.languages import SILENT
from dpicl_rag.languages.sentences import mail_as_read
from dpicl_rag.rehearsal.rehearsal_items import RehearsalItem, rehearsal_items

Script = Callable[[RehearsalItem, bool], str]
"""From an item, and whether its prompt shows that a document may tell nothing, to what is said."""

_END = 0
_YES_OR_NO = ("Yes", "No", "Ja", "Nein", "Oui", "Non", "Sí", "Sì")


def right(item: RehearsalItem) -> str:
    """What the document tells."""
    assert item.right is not None
    found = re.search(item.right, item.document, re.IGNORECASE)
    said = [found.group()] if found else [word for word in _YES_OR_NO if item.is_right(word)]
    return f"It is {said[0]}" if found else f"{said[0]} it is"


def knowing(item: RehearsalItem, shown: bool) -> str:
    """Right where a document tells; silent where it does not, if it was shown how."""
    if item.right is not None:
        return right(item)
    return SILENT if shown else "It is the miller"


def talking(item: RehearsalItem, shown: bool) -> str:
    """Right where a document tells; else it makes something up."""
    return knowing(item, shown=False)


def mute(item: RehearsalItem, shown: bool) -> str:
    """Silent wherever it was shown how."""
    return SILENT if shown else knowing(item, shown)


class RehearsedModel:
    """A ``LanguageModel`` that reads words.

    Args:
        script: What it says.
        fingerprint: Its own.
        context_length: Most tokens of a row.

    Attributes:
        asked: Items that it has answered, and whether it was shown silence, in this order.
        together: How many documents were read at once, each time.
    """

    speaks = True

    def __init__(
        self, script: Script, fingerprint: str = "rehearsed", context_length: int = 1 << 20
    ) -> None:
        self.tokenizer = _Words()
        self.fingerprint = fingerprint
        self.context_length = context_length
        self.asked: list[tuple[RehearsalItem, bool]] = []
        self.together: list[int] = []
        self._script = script

    def digest(self, passages: Sequence[str], most: int) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode("\n\n".join(passages))[:most])

    def read(self, prefix, inputs, *, room, on_progress=None):
        self.together.append(len(inputs) - 1)
        assert all(len(prefix) + len(own) + room <= self.context_length for own in inputs)
        return _Rows(self, SILENT in self.tokenizer.decode(prefix), inputs[1:])

    def say(self, document: str, asked: str, shown: bool, most: int) -> Continuation:
        read = mail_as_read if shown else str
        one = next(
            item
            for item in rehearsal_items()
            if item.question in asked and read(item.document).startswith(document)
        )
        self.asked.append((one, shown))
        tokens = [*self.tokenizer.encode(self._script(one, shown)), _END][:most]
        return Continuation(tuple(tokens), (0.0,) * len(tokens))


class _Rows:
    def __init__(self, model: RehearsedModel, shown: bool, inputs: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._shown = shown
        self._documents = [model.tokenizer.decode(own) for own in inputs]

    def extend(self, token_ids):
        raise AssertionError("the public row says nothing in a rehearsal")

    score = extend

    def continue_each(self, token_ids, most, asked):
        suffix = self._model.tokenizer.decode(token_ids)
        each = zip(self._documents, asked, strict=True)
        return [
            self._model.say(own, suffix, self._shown, most) if one else Continuation((), ())
            for own, one in each
        ]


class _Words:
    """A token for every word with the white space before it, as they come; 0 ends an answer."""

    start_tokens = ()
    stop_tokens = frozenset({_END})

    def __init__(self) -> None:
        self._texts = [""]
        self._ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        return [self._id(word) for word in re.findall(r"\s*\S+|\s+", text)]

    encode_template = encode

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self._texts[id] for id in token_ids)

    def chat(self, messages):
        return None

    def _id(self, word: str) -> int:
        if word not in self._ids:
            self._ids[word] = len(self._texts)
            self._texts.append(word)
        return self._ids[word]
