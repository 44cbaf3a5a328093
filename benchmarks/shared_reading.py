"""One model for many contenders that ask the same questions of the same documents.

A row is a function of its own unit, whatever stands beside it. So what a row says at one place of
an answer is computed once, and given to every contender that gets there. Tokens may come in other
pieces than a contender asked for, which moves last bits on some processors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    sentences: dict[tuple[Tokens, int, int], Continuation] = field(default_factory=dict)

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

    def sentence(self, path: Tokens, most: int, place: int, asked: set[int]) -> Continuation:
        """What one row goes on with by itself.

        Args:
            path: Tokens that are read first.
            most: Tokens of a sentence.
            place: The row.
            asked: All rows that are asked for.
        """
        if (path, most, place) not in self.sentences:
            # From the question on: what it says is no news (`SentenceEnd.at`).
            self.rows.rewind(len(self.read))
            self.read = ()
            mask = [other in asked for other in range(len(self.places))]
            found = self.rows.continue_each(path, most, mask)
            for other in asked:
                self.sentences[path, most, other] = found[other]
        return self.sentences[path, most, place]

    def _rewind(self, path: Tokens) -> int:
        """How many tokens of a path are read already; others are forgotten."""
        pairs = zip(self.read, path[:-1], strict=False)
        common = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        common = min(len(self.read), len(path) - 1) if common is None else common
        if common < len(self.read):
            self.rows.rewind(len(self.read) - common)
        return common


class SharedModel(WrappedModel[TransformersModel]):
    """A model whose rows are read once for all who ask the same question.

    Args:
        model: Reads.
    """

    def __init__(self, model: TransformersModel) -> None:
        super().__init__(model)
        self._groups: dict[tuple[Tokens, int, bool], list[_Group]] = {}
        self.speaks = True

    def forget(self) -> None:
        """Drop what was read: another question comes."""
        self._groups.clear()
        for other in self._copies.values():
            other.forget()

    def _wrapping(self, model: LanguageModel) -> SharedModel:
        assert isinstance(model, TransformersModel)
        return SharedModel(model)

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> _SharedRows:
        """See ``LanguageModel.read``."""
        public, experts = inputs[0], inputs[1:]
        ((alone, _),) = self._find(tuple(prefix), public, [public], room, public=True)
        return _SharedRows(alone, self._find(tuple(prefix), public, experts, room, public=False))

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

    def __init__(self, public: _Group, experts: Sequence[tuple[_Group, int]]) -> None:
        self._public = public
        self._experts = experts
        self._path: Tokens = ()

    def extend(self, token_ids: Sequence[int]) -> Step:
        """See ``Rows.extend``."""
        self._path = (*self._path, *token_ids)
        public = self._public.after(self._path).public
        rows = [group.after(self._path).experts[place] for group, place in self._experts]
        return DenseStep(public, torch.stack(rows) if rows else public.new_zeros(0, len(public)))

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
        together: dict[int, set[int]] = {}
        for (group, place), one in zip(self._experts, asked, strict=True):
            if one:
                together.setdefault(id(group), set()).add(place)
        return [
            group.sentence(path, most, place, together[id(group)]) if one else Continuation((), ())
            for (group, place), one in zip(self._experts, asked, strict=True)
        ]

    def rewind(self, tokens: int) -> None:
        """See ``BlockRows.rewind``."""
        self._path = self._path[: len(self._path) - tokens]

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Labels are not asked for."""
        raise NotImplementedError
