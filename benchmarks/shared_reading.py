"""One model for many contenders that ask the same questions of the same documents.

A row is a function of its own unit, whatever stands beside it. So what a row says at one place of
an answer is computed once, and given to every contender that gets there. Tokens may come in other
pieces than a contender asked for, which moves last bits on some processors.

What experts say by themselves, and how likely labels are to them, is kept in a file, if there is
one: another seed, another epsilon and another rule of counting read nothing anew. The file has what
made-up documents say, in the clear.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from dpicl_rag.language_models.base import Input, LanguageModel, Progress, WrappedModel
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.language_models.transformers_rows import TransformersRows
from dpicl_rag.mechanisms.step import DenseStep, Step

Tokens = tuple[int, ...]

_PLACES = 48  # of an answer that a group keeps: 64 rows of 49,152 tokens are 13 MB each


@dataclass
class _Group:
    """Rows that are read together, and what they said at each place."""

    rows: TransformersRows
    places: dict[Input, int]
    read: Tokens = ()
    said: dict[Tokens, DenseStep] = field(default_factory=dict)

    def after(self, path: Tokens) -> DenseStep:
        """What the rows predict after some tokens."""
        if path not in self.said:
            step = self.rows.extend(path[self._rewind(path) :])
            assert isinstance(step, DenseStep)
            if len(self.said) >= _PLACES:
                del self.said[next(iter(self.said))]
            # What the model gave is a view of what it writes over.
            self.said[path] = DenseStep(step.public.clone(), step.experts.clone())
            self.read = path
        return self.said[path]

    def sentences(self, path: Tokens, most: int, asked: set[int]) -> dict[int, Continuation]:
        """What some rows go on with, each by itself.

        Args:
            path: Tokens that are read first.
            most: Tokens of a sentence.
            asked: The rows.
        """
        # From the question on: what it says is no news (`SentenceEnd.at`).
        self.rows.rewind(len(self.read))
        self.read = ()
        mask = [place in asked for place in range(len(self.places))]
        found = self.rows.continue_each(path, most, mask)
        return {place: found[place] for place in asked}

    def labels(self, path: Tokens, labels: Sequence[Tokens]) -> DenseStep:
        """How likely labels are to the rows after some tokens."""
        if self.read != path:
            self.said.pop(path, None)
            self.after(path)
        step = self.rows.score(labels)
        assert isinstance(step, DenseStep)
        return step

    def _rewind(self, path: Tokens) -> int:
        """How many tokens of a path are read already; others are forgotten."""
        pairs = zip(self.read, path[:-1], strict=False)
        common = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        common = min(len(self.read), len(path) - 1) if common is None else common
        if common < len(self.read):
            self.rows.rewind(len(self.read) - common)
        return common


class KeptWords:
    """What experts said by themselves, and how likely labels were to them, by all that they read.

    Args:
        file: One JSON object a line; without one words are kept in memory alone.

    Attributes:
        said: Continuations.
        labels: Log-probabilities.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.said: dict[str, Continuation] = {}
        self.labels: dict[str, tuple[float, ...]] = {}
        for one in map(json.loads, _whole_lines(file) if file and file.exists() else []):
            if "labels" in one:
                self.labels[one["read"]] = tuple(one["labels"])
            else:
                told = (tuple(one[name]) for name in ("tokens", "log_probs", "ends"))
                self.said[one["read"]] = Continuation(*told)

    def keep_said(self, found: Mapping[str, Continuation]) -> None:
        """Add what was said."""
        self.said.update(found)
        self._write(
            {"read": read, "tokens": one.tokens, "log_probs": one.log_probs, "ends": one.ends}
            for read, one in found.items()
        )

    def keep_labels(self, found: Mapping[str, tuple[float, ...]]) -> None:
        """Add how likely labels were."""
        self.labels.update(found)
        self._write({"read": read, "labels": own} for read, own in found.items())

    def _write(self, found: Iterable[Mapping[str, Any]]) -> None:
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.writelines(f"{json.dumps(one)}\n" for one in found)


def _whole_lines(file: Path) -> list[bytes]:
    """The lines of a file, from which half a line is cut that a killed process left."""
    held = file.read_bytes()
    whole = held[: held.rfind(b"\n") + 1]
    if len(whole) < len(held):
        os.truncate(file, len(whole))
    return whole.splitlines()


class _LateStep(DenseStep):
    """A step that is computed when somebody looks. Labels stand behind one that nobody looks at."""

    def __init__(self, made: Callable[[], DenseStep]) -> None:
        self._made = cache(made)

    @cached_property
    def public(self) -> torch.Tensor:  # type: ignore[override]
        """The public row."""
        return self._made().public

    @cached_property
    def experts(self) -> torch.Tensor:  # type: ignore[override]
        """Rows of the experts."""
        return self._made().experts


class SharedModel(WrappedModel[TransformersModel]):
    """A model whose rows are read once for all who ask the same question.

    Args:
        model: Reads.
        words: Kept when it forgets.
    """

    def __init__(self, model: TransformersModel, words: KeptWords | None = None) -> None:
        super().__init__(model)
        self._groups: dict[tuple[Tokens, int, bool], list[_Group]] = {}
        self._words = words or KeptWords()
        self._way = (0.0, False)
        self.speaks = True

    def forget(self) -> None:
        """Drop what was read: another question comes."""
        self._groups.clear()
        for other in self._copies.values():
            other.forget()

    def copying(self, bias: float, *, public: bool = False) -> SharedModel:
        """See ``WrappedModel.copying``."""
        found = super().copying(bias, public=public)
        found._way = (bias, public)
        return found

    def _wrapping(self, model: LanguageModel) -> SharedModel:
        assert isinstance(model, TransformersModel)
        return SharedModel(model, self._words)

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> _SharedRows:
        """See ``LanguageModel.read``; nothing is read before what is not known is asked for."""
        return _SharedRows(self, tuple(prefix), inputs, room)

    def step(self, prefix: Tokens, inputs: Sequence[Input], room: int, path: Tokens) -> DenseStep:
        """What the public row and the experts predict after some tokens."""
        public, *experts = inputs
        told = self._public(prefix, public, room).after(path).public
        found = self._find(prefix, public, experts, room, public=False)
        rows = [group.after(path).experts[place] for group, place in found]
        return DenseStep(told, torch.stack(rows) if rows else told.new_zeros(0, len(told)))

    def labels(
        self,
        prefix: Tokens,
        inputs: Sequence[Input],
        room: int,
        path: Tokens,
        labels: Sequence[Tokens],
    ) -> DenseStep:
        """How likely labels are to the public row and the experts after some tokens."""
        public, *experts = inputs
        told = self._public(prefix, public, room).labels(path, labels).public
        known = self._words.labels
        reads = self._reads(experts, prefix, path, tuple(labels))
        for group, places in self._new(reads, known, prefix, public, room):
            found = group.labels(path, labels).experts
            self._words.keep_labels(
                {read: tuple(found[place].tolist()) for place, read in places.items()}
            )
        rows = [told.new_tensor(known[reads[own]]) for own in experts]
        return DenseStep(told, torch.stack(rows) if rows else told.new_zeros(0, len(told)))

    def sentences(
        self,
        prefix: Tokens,
        inputs: Sequence[Input],
        room: int,
        path: Tokens,
        most: int,
    ) -> list[Continuation]:
        """What each expert goes on with after some tokens."""
        public, *experts = inputs
        reads = self._reads(experts, prefix, path, most)
        for group, places in self._new(reads, self._words.said, prefix, public, room):
            said = group.sentences(path, most, set(places))
            self._words.keep_said({read: said[place] for place, read in places.items()})
        return [self._words.said[reads[own]] for own in experts]

    def _reads(self, experts: Sequence[Input], *given: Any) -> dict[Input, str]:
        """By each expert's input, a name of all that it reads and how."""
        how = self.fingerprint, self._way, given
        return {own: hashlib.sha256(repr((how, own)).encode()).hexdigest() for own in experts}

    def _new(
        self,
        reads: Mapping[Input, str],
        known: Collection[str],
        prefix: Tokens,
        public: Input,
        room: int,
    ) -> list[tuple[_Group, dict[int, str]]]:
        """Where those are read of whom nothing is known, and under which name each is kept."""
        new = {own: read for own, read in reads.items() if read not in known}
        together: dict[int, tuple[_Group, dict[int, str]]] = {}
        found = self._find(prefix, public, list(new), room, public=False)
        for (group, place), read in zip(found, new.values(), strict=True):
            together.setdefault(id(group), (group, {}))[1][place] = read
        return list(together.values())

    def _public(self, prefix: Tokens, public: Input, room: int) -> _Group:
        ((alone, _),) = self._find(prefix, public, [public], room, public=True)
        return alone

    def _find(
        self, prefix: Tokens, beside: Input, inputs: Sequence[Input], room: int, *, public: bool
    ) -> list[tuple[_Group, int]]:
        """Where each input is read; what nobody has read yet is read now."""
        groups = self._groups.setdefault((prefix, room, public), [])
        known = {own for group in groups for own in group.places}
        new = list(dict.fromkeys(own for own in inputs if own not in known))
        if new:
            reader = self._model.single_row() if public else self._model
            rows = reader.read(prefix, new if public else [beside, *new], room=room)
            groups.append(_Group(rows, {own: place for place, own in enumerate(new)}))
        where = {own: (group, place) for group in groups for own, place in group.places.items()}
        return [where[own] for own in inputs]


class _SharedRows:
    """The rows of one contender: see ``BlockRows``."""

    def __init__(
        self, model: SharedModel, prefix: Tokens, inputs: Sequence[Input], room: int
    ) -> None:
        self._model = model
        self._prefix = prefix
        self._inputs = tuple(inputs)
        self._room = room
        self._path: Tokens = ()

    def extend(self, token_ids: Sequence[int]) -> Step:
        """See ``Rows.extend``."""
        path = self._path = (*self._path, *token_ids)
        given = self._prefix, self._inputs, self._room
        return _LateStep(lambda: self._model.step(*given, path))

    def extend_each(self, token_ids: Sequence[int], keep: int) -> list[Step]:
        """See ``BlockRows.extend_each``."""
        first = len(token_ids) - keep + 1
        steps = [self.extend(token_ids[:first])]
        return [*steps, *(self.extend((token,)) for token in token_ids[first:])]

    def continue_each(
        self, token_ids: Sequence[int], most: int, asked: Sequence[bool]
    ) -> list[Continuation]:
        """See ``SpeakingRows.continue_each``."""
        path = (*self._path, *token_ids)
        public, *experts = self._inputs
        some = [own for own, one in zip(experts, asked, strict=True) if one]
        given = self._prefix, (public, *some), self._room
        said = iter(self._model.sentences(*given, path, most))
        return [next(said) if one else Continuation((), ()) for one in asked]

    def rewind(self, tokens: int) -> None:
        """See ``BlockRows.rewind``."""
        self._path = self._path[: len(self._path) - tokens]

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """See ``Rows.score``."""
        given = self._prefix, self._inputs, self._room
        return self._model.labels(*given, self._path, [tuple(one) for one in continuations])
