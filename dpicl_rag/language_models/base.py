"""The interface of language models: a step for every token, nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from dpicl_rag.language_models.sentence_end import Continuation
    from dpicl_rag.language_models.tokenizer import Tokenizer
    from dpicl_rag.mechanisms.step import Step


Progress = Callable[[float, float | None], None]
"""Called with what is done so far, and with the whole; None where that is not known.

Of an answer the whole is 1: how many experts there are is private. Records, texts and queries are
counted."""

Input = Hashable
"""The input of one expert, as its engine takes it: token ids today, an image tomorrow.

Opaque to the core; falsy where there is nothing to read."""


class Tenths:
    """A counter of what is read, out of ``total``; it reports every tenth once.

    Other steps would tell how many documents there are, or how many passes they took.
    """

    def __init__(self, total: int, on_progress: Progress | None) -> None:
        self._total = total
        self._on_progress = on_progress
        self._done = self._shown = 0

    def __call__(self, more: int) -> None:
        """So many more are read."""
        self._done += more
        self._show(self._done)

    def within(self, more: int) -> Progress:
        """For the next ones: called with the part of them that is read."""
        return lambda part, _: self._show(self._done + part * more)

    def _show(self, done: float) -> None:
        # All ten are shown of nothing too.
        while self._shown < 10 and 10 * done >= (self._shown + 1) * self._total:
            self._shown += 1
            if self._on_progress is not None:
                self._on_progress(self._shown / 10, 1.0)


class GrowingRows(Protocol):
    """The public row and the experts; all grow by the same tokens.

    Where rows are computed elsewhere, every method may raise ``EngineUnavailableError`` after a
    public deadline: never is a row left out for what is not its own.
    """

    def extend(self, token_ids: Sequence[int]) -> Step:
        """Append the same tokens to every row.

        Args:
            token_ids: One or more token ids.

        Returns:
            Log-probabilities of the next token.
        """
        ...


class Rows(GrowingRows, Protocol):
    """Rows that can say, too, how likely whole continuations are."""

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Likelihood of each continuation in each row; the rows stay as they were.

        Args:
            continuations: Non-empty sequences of token ids.

        Returns:
            Log-probabilities of the continuations, normalised over them in float64.
        """
        ...


@runtime_checkable
class BlockRows(Rows, Protocol):
    """Rows that read several tokens in one pass and can forget the last ones."""

    def extend_each(self, token_ids: Sequence[int], keep: int) -> list[Step]:
        """Append the same tokens to every row.

        On some processors the last bits of a row follow from the pieces in which tokens come, so
        pieces must be public.

        Args:
            token_ids: One or more token ids.
            keep: How many of the last of them are asked for.

        Returns:
            Log-probabilities of what follows each of the last ``keep`` tokens.
        """
        ...

    def rewind(self, tokens: int) -> None:
        """Forget the last ``tokens`` appended tokens."""
        ...


@runtime_checkable
class SpeakingRows(Rows, Protocol):
    """Rows that can go on each by itself."""

    def continue_each(
        self, token_ids: Sequence[int], most: int, asked: Sequence[bool]
    ) -> list[Continuation]:
        """Continuations of experts after the same tokens; the rows stay as they were.

        Args:
            token_ids: One or more token ids, which the rows read first.
            most: How many tokens are said after them at most. Public.
            asked: Which experts are asked. A function of each one's own unit.

        Returns:
            One of each expert, at least to the end of its first sentence; nothing of those that
            are not asked. The public row's is left out.
        """
        ...


@runtime_checkable
class Speaking(Protocol):
    """A language model whose rows are ``SpeakingRows``."""

    @property
    def speaks(self) -> bool:
        """True where they are."""
        ...


def speaks(model: LanguageModel) -> bool:
    """Ability of a model's rows to go on each by itself."""
    return isinstance(model, Speaking) and model.speaks


class LanguageModel(Protocol):
    """A causal language model with its tokenizer."""

    @property
    def tokenizer(self) -> Tokenizer:
        """Turns prompts, labels and answers into tokens and back."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies weights, dtype and tokenizer; part of every cache key."""
        ...

    @property
    def context_length(self) -> int:
        """Most tokens that one row may hold."""
        ...

    def digest(self, passages: Sequence[str], most: int) -> Input:
        """The input of one expert from its unit's passages, the earliest first.

        A function of the unit and of public numbers alone. Retrievers put a unit's best passage
        first, so the best ones are used.

        Args:
            passages: Texts of one unit, or of one group of units.
            most: Most tokens that it may take of a row.
        """
        ...

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> Rows:
        """Read the prefix and one input in every row, and keep the state.

        Args:
            prefix: Token ids that every row begins with; read once.
            inputs: What ``digest`` gave, one for each row. The first is the public row's: it is
                read by itself, and what is kept of it with it.
            room: How many tokens will be appended to every row at most.
            on_progress: Called with the part that is read.
        """
        ...


@runtime_checkable
class SingleRowModel(Protocol):
    """A language model that reads one row faster where it is known to be the only one."""

    def single_row(self) -> LanguageModel:
        """The same model for rows that are read without others, such as the public row's.

        Which of the two reads must follow from nothing private: their last bits differ.
        """
        ...


def single_row(model: LanguageModel) -> LanguageModel:
    """The model for rows that are read without others, see `SingleRowModel`; itself, if none."""
    return model.single_row() if isinstance(model, SingleRowModel) else model


@runtime_checkable
class Copying(Protocol):
    """A language model whose rows can be made to favour words of their own input."""

    def copying(self, bias: float, *, public: bool = False) -> LanguageModel:
        """The same model with that preference.

        It moves each expert's row by a function of the expert's own input alone.

        Args:
            bias: Added to the log-probability of words of the input, in nats, before the row is
                normalised again; 0 or more.
            public: Whether the public row, which is the first, does so too: where it reads
                something. Else it is not moved at all.
        """
        ...


M = TypeVar("M", bound=LanguageModel)


class WrappedModel(ABC, Generic[M]):
    """Base of models that read in a way of their own what another model digests."""

    def __init__(self, model: M) -> None:
        self.tokenizer = model.tokenizer
        self.fingerprint = model.fingerprint
        self.context_length = model.context_length
        self._model = model
        self._copies: dict[tuple[float, bool], Self] = {}

    def copying(self, bias: float, *, public: bool = False) -> Self:
        """As the model does; what one bias reads is kept apart."""
        model: LanguageModel = self._model
        if not isinstance(model, Copying):
            return self
        way = bias, public
        if way not in self._copies:
            self._copies[way] = self._wrapping(model.copying(bias, public=public))
        return self._copies[way]

    @abstractmethod
    def _wrapping(self, model: LanguageModel) -> Self:
        """Its like, around another model."""

    def digest(self, passages: Sequence[str], most: int) -> Input:
        """As the model does."""
        return self._model.digest(passages, most)
