"""Label log-probabilities of a query under any set of examples: the expensive part."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.mechanisms.step import rows_of
from dpicl_rag.prompts import label_tokens, opening_tokens
from dpicl_research.tasks import Item, Task

Subset = tuple[int, ...]
"""Positions in the context whose examples stand in one prompt, in order; empty is zero-shot."""

# Rows of one pass are padded to the longest; longer ones than this many times the shortest go to
# the next pass.
_SPREAD = 2.0


@dataclass(frozen=True, slots=True)
class Choice:
    """The answers to choose from for a query.

    Attributes:
        labels: Names, in the order of the columns.
        continuations: Their tokens after ``lead``.
        lead: Tokens that all labels begin with; they say nothing and are read once.
        right: Column of the right answer.
    """

    labels: tuple[str, ...]
    continuations: tuple[tuple[int, ...], ...]
    lead: tuple[int, ...]
    right: int


class Scorer:
    """Prompts of a task for one model.

    Args:
        model: A language model that reads tokens.
        task: The task.
        text_tokens: Texts are cut to this public number of tokens.
    """

    def __init__(self, model: LanguageModel, task: Task, text_tokens: int) -> None:
        self._model = model
        self._task = task
        self._text_tokens = text_tokens
        template = task.template
        self._encode = model.tokenizer.encode
        self._header = opening_tokens(model.tokenizer, template.header)
        self._opening = self._encode(template.opening)
        self._closing = self._encode(f"\n{template.closing}")
        self._fixed = label_tokens(model.tokenizer, task.labels, " ") if task.labels else []
        self._examples: dict[Item, list[int]] = {}

    def choice(self, query: Item) -> Choice:
        """The labels of a query and which one is right."""
        if self._task.labels:
            right = self._task.labels.index(query.answer)
            return _choice(self._task.labels, self._fixed, right)
        # The papers compare first tokens, so words that begin with the same one are one label.
        tokens = {word: self._encode(f" {word}") for word in query.candidates}
        shared = _shared(list(tokens.values()))
        first: dict[int, str] = {}
        for word, ids in tokens.items():
            first.setdefault(ids[shared], word)
        right = list(first).index(tokens[query.answer][shared])
        lead = tokens[query.answer][:shared]
        return _choice(tuple(first.values()), [[*lead, token] for token in first], right)

    def query_tokens(self, text: str) -> list[int]:
        """Tokens of a query after its opening."""
        return self._cut(text) + self._closing

    def row_tokens(self, context: Sequence[Item], subset: Subset) -> tuple[int, ...]:
        """Tokens of a row between the header and the query's text; never empty."""
        examples = (token for i in subset for token in self._example(context[i]))
        return (*examples, *self._opening)

    def check(self, context: Sequence[Item], subsets: Collection[Subset]) -> None:
        """Raise unless prompts fit the model.

        Args:
            context: The examples.
            subsets: Those of them that stand in one prompt.

        Raises:
            ConfigurationError: One does not fit; names the remedies.
        """

        def tokens(subset: Subset) -> int:
            return sum(len(self._example(context[i])) for i in subset)

        largest = max(subsets, key=tokens, default=())
        needed = len(self._header) + tokens(largest) + len(self._opening)
        needed += self._text_tokens + len(self._closing) + max(map(len, self._fixed), default=1)
        if needed > self._model.context_length:
            raise ConfigurationError(
                f"{len(largest)} examples in one prompt need {needed} tokens, and the "
                f"model's context holds {self._model.context_length}; give a smaller "
                "--text-tokens, or fewer --experts"
            )

    def score(
        self, context: Sequence[Item], query: str, choice: Choice, subsets: Sequence[Subset]
    ) -> Mapping[Subset, list[float]]:
        """Log-probabilities of the labels, normalised over them.

        Args:
            context: The examples.
            query: Text of the query.
            choice: Its labels.
            subsets: Distinct subsets of the context, each a row of the batch.

        Returns:
            A list as long as the labels for each subset.
        """
        documents = {subset: self.row_tokens(context, subset) for subset in subsets}
        tokens = [*self.query_tokens(query), *choice.lead]
        room = len(tokens) + max(map(len, choice.continuations))
        found: dict[Subset, list[float]] = {}
        for batch in _batches(documents, len(self._header)):
            rows = self._model.read(self._header, [documents[s] for s in batch], room=room)
            rows.extend(tokens)
            said = rows_of(rows.score(choice.continuations))
            found.update(zip(batch, said.tolist(), strict=True))
        return found

    def written(self, context: Sequence[Item], query: str, most: int) -> str:
        """What the model writes after a query by itself, always the likeliest token.

        Args:
            context: The examples, all in one prompt.
            query: Text of the query.
            most: Most tokens.

        Returns:
            Its first line that is not empty, without the white space around it.
        """
        row, tokens = self.row_tokens(context, tuple(range(len(context)))), self.query_tokens(query)
        rows = self._model.read(self._header, [row], room=len(tokens) + most)
        step, said = rows.extend(tokens), list[int]()
        for left in range(most, 0, -1):
            token = int(step.public.argmax())
            if token in self._model.tokenizer.stop_tokens:
                break
            said.append(token)
            if left == 1 or "\n" in self._model.tokenizer.decode(said).lstrip():
                break
            step = rows.extend([token])
        return self._model.tokenizer.decode(said).strip().split("\n")[0].strip()

    def _example(self, item: Item) -> list[int]:
        known = self._examples.get(item)
        if known is None:
            answer = self._encode(f" {item.shown}")
            known = [*self._opening, *self._cut(item.text), *self._closing, *answer]
            known += self._encode("\n\n")
            self._examples[item] = known
        return known

    def _cut(self, text: str) -> list[int]:
        return self._encode(f" {text}")[: self._text_tokens]


def _choice(labels: tuple[str, ...], tokens: Sequence[Sequence[int]], right: int) -> Choice:
    """Split off what all labels begin with, such as the space before a digit."""
    shared = _shared(tokens)
    return Choice(
        labels,
        tuple(tuple(t[shared:]) for t in tokens),
        tuple(tokens[0][:shared]),
        right,
    )


def _shared(tokens: Sequence[Sequence[int]]) -> int:
    """Number of tokens that all begin with; each keeps at least one of its own."""
    shared = 0
    while all(len(t) > shared + 1 for t in tokens) and len({t[shared] for t in tokens}) == 1:
        shared += 1
    return shared


def _batches(documents: Mapping[Subset, tuple[int, ...]], header: int) -> list[list[Subset]]:
    """Rows of similar length together, in an order that depends on the subsets alone."""
    batches: list[list[Subset]] = []
    limit = 0.0
    for subset in sorted(documents, key=lambda s: (len(documents[s]), s)):
        length = header + len(documents[subset])
        if length > limit:
            batches.append([])
            limit = _SPREAD * length
        batches[-1].append(subset)
    return batches


def shares_right(
    said: Sequence[tuple[Sequence[float], int]], prior: Sequence[float]
) -> tuple[float, float]:
    """Share of rows whose best label is the right one: as they are, and less the prompt's prior."""
    excess = [([p - q for p, q in zip(row, prior, strict=True)], right) for row, right in said]
    plain, corrected = (
        fmean(max(range(len(row)), key=row.__getitem__) == right for row, right in rows)
        for rows in (said, excess)
    )
    return plain, corrected
