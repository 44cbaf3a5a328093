"""The memory of released answers of one corpus and one caller, and equality of questions."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError, KnowledgeError
from dpicl_rag.knowledge.answer_file import AnswerFile, Entry, MemoryScope, part_of
from dpicl_rag.languages.question_slots import same_asked, slots_of
from dpicl_rag.languages.sentences import ends_sentence
from dpicl_rag.languages.small_talk import without_courtesies
from dpicl_rag.ledger.scope import require_name
from dpicl_rag.normal_forms import normal_form
from dpicl_rag.results import AgreedPart

if TYPE_CHECKING:
    from dpicl_rag.results import Paid, PrivateAnswer
    from dpicl_rag.retrieval.embeddings import Embedder


NEIGHBOURS = 4
LEAST = 0.5


_PARTS = TypeAdapter(tuple[AgreedPart, ...])
_OF_PARTS = " parts"  # behind the form of their answer


_ENDING = " .?!\u061f\u3002"  # the Arabic question mark and the ideographic full stop have no NFKC


_BETWEEN = re.compile(r"(?<=[.!?:])\s+")


class NotRememberedWarning(UserWarning):
    """An answer was released and could not be kept; it is paid for all the same."""


class AnswerMemory:
    """Answers released before, for who may read them: a `Knowledge`.

    What was released once is public for good (post-processing), so it may inform the public row of
    every later answer, and answer the same question again at no cost.

    Questions may be confidential between callers. A memory reads the entries of its own caller
    alone, unless it is shared; and those of its own filter, which says whose documents were read.

    Args:
        path: The file, made with mode 0600 where there is none. One file may hold the memories of
            many corpora and callers: an `AnswerFile` that is open, which stays open.
        corpus: The corpus whose answers are remembered.
        caller: Who asks; the one that the model is made with.
        key: The key of a server that asks. The answers to one key are not another's, also if both
            were made under one name.
        where: Filter on metadata of the retriever, if it has one.
        shared: Read the answers to all callers. What is remembered still names the caller.
        embedder: Embedding model of questions; the packaged one if None.
        neighbours: Most entries recalled.
        least: Least cosine of a recalled question with the one asked.
        busy_timeout: Seconds to wait for another process before a call fails.

    Raises:
        ConfigurationError: A parameter is outside its range.
        KnowledgeError: The file is damaged, of another version or another program's, locked, or
            cannot be reached.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | AnswerFile,
        corpus: str,
        *,
        caller: str | None = None,
        key: str | None = None,
        where: Mapping[str, Any] | None = None,
        shared: bool = False,
        embedder: Embedder | None = None,
        neighbours: int = NEIGHBOURS,
        least: float = LEAST,
        busy_timeout: float = 10.0,
    ) -> None:
        self.corpus = require_name("corpus", corpus)
        self.caller = None if caller is None else require_name("caller", caller)
        self.part = part_of(where)
        self.neighbours = _validate.count("neighbours", neighbours)
        self.least = _validate.cosine("least", least)
        self._own = MemoryScope(self.corpus, self.caller or "", self.part, key or "")
        self._seen = MemoryScope(self.corpus, None, self.part) if shared else self._own
        self._embedder = embedder
        self._warned = False
        self._lent = isinstance(path, AnswerFile)
        self._file = (
            path if isinstance(path, AnswerFile) else AnswerFile(path, busy_timeout=busy_timeout)
        )

    def __repr__(self) -> str:
        return f"AnswerMemory({self.corpus!r}, caller={self.caller!r})"

    def require_caller(self, caller: str | None) -> None:
        """Check who asks.

        Raises:
            ConfigurationError: It is another caller's memory.
        """
        if caller != self.caller:
            raise ConfigurationError(
                f"the memory is that of {_name('caller', self.caller)}, and the model answers "
                f"{_name('caller', caller)}; open it with caller={caller!r}"
            )

    def require_documents(self, corpus: str | None, where: Mapping[str, Any] | None) -> None:
        """Check what is asked.

        Args:
            corpus: Name of the corpus; None for a list without one.
            where: Filter on metadata of the search.

        Raises:
            ConfigurationError: It is the memory of another corpus, or of other documents of it.
        """
        if corpus is None:
            raise ConfigurationError(
                f"the memory is that of corpus {self.corpus!r}, and these documents name no "
                f"corpus; if they are its documents, make the model with corpus={self.corpus!r}"
            )
        if corpus != self.corpus:
            raise ConfigurationError(
                f"the memory is that of corpus {self.corpus!r}, and the documents are from "
                f"{corpus!r}; open it with corpus={corpus!r}"
            )
        if part_of(where) != self.part:
            raise ConfigurationError(
                "the memory is that of another filter on metadata, which says whose documents are "
                "read; open it with the where of the search"
            )

    def recall(self, question: str) -> list[str]:
        """Public texts near to a question, as `Knowledge.recall` has them."""
        return [entry.text for entry in self.nearest(question)]

    def same(self, question: str, form: str = "") -> Entry | None:
        """The answer to the same question, if it was asked before and not cut off.

        Args:
            question: As `same_words` compares it.
            form: What else shaped that answer, as given to `remember`.
        """
        return self._file.find(self._seen, same_words(_text(question)), form)

    def same_count(self, question: str, form: str) -> Entry | None:
        """The numbers that the same question released, if it was counted before.

        Args:
            question: As in `same`.
            form: All else that shaped the count.
        """
        return self._file.find_count(self._seen, same_words(_text(question)), form)

    def count_asked(self, entry: Entry) -> None:
        """Note that a question was answered from an entry; see `AnswerFile.count_asked`."""
        self._file.count_asked(entry.id)

    def nearest(self, question: str) -> list[Entry]:
        """Entries whose questions are near to this one, or to what it asks; the nearest first.

        What was drawn token by token is left out where there is something else: a small model says
        after it whatever is nearest, also where most others say otherwise.
        """
        found = self._file.vectors(self._seen, self._model().fingerprint)
        if not found:
            return []
        rows = self._rows(found)
        # Of equally near ones the newest is first.
        best = [found[at][0] for at in nearest_rows(question, rows, self._model(), self.least)]
        firm = [entry for entry in best if not entry.drawn]
        return (firm or best)[: self.neighbours]

    def remember(
        self,
        question: str,
        answer: str,
        *,
        epsilon: float = 0.0,
        delta: float = 0.0,
        form: str = "",
        whole: bool = True,
        drawn: bool = False,
        numbers: str = "",
    ) -> None:
        """Keep an answer, in place of the one to the same question that there was.

        An entry that was edited stays as it is.

        Args:
            question: Public text.
            answer: What was released, or what the operator knows.
            epsilon: What it cost; 0 where it was written by hand.
            delta: See ``epsilon``.
            form: What else shaped the answer, such as an instruction. The same question in another
                form is asked anew; an answer without a form fits every one.
            whole: Whether the answer ended by itself; the same question is asked anew if not.
            drawn: Whether it was drawn token by token, see `Entry`.
            numbers: Those of a count, see `Entry`.

        Raises:
            ConfigurationError: There is no text, or a cost below 0.
            KnowledgeError: The file cannot be written.
        """
        words = same_words(_text(question))
        if not words or not answer.strip():
            raise ConfigurationError("a memory keeps a question and its answer; one is empty")
        self._file.put(
            corpus=self.corpus,
            caller=self.caller or "",
            part=self.part,
            key=self._own.key or "",
            form=form,
            words=words,
            question=_text(question).strip(),
            answer=_text(answer).strip(),
            epsilon=_validate.finite("epsilon", epsilon),
            delta=_validate.finite("delta", delta),
            whole=whole,
            drawn=drawn,
            numbers=numbers,
        )

    def keep(
        self, question: str, form: str, answer: PrivateAnswer, drawn: bool, counts: str = ""
    ) -> None:
        """`remember` what was just released. A failure is a warning, once: the answer is there.

        Counts of its parts are an entry of their own: no other question is answered with them.
        """
        self._keep(
            question, form, answer, answer.text, whole=answer.stopped_by == "end", drawn=drawn
        )
        if answer.parts:
            free = replace(answer, epsilon=0.0, delta=0.0, rho=0.0)
            numbers = _PARTS.dump_json(answer.parts).decode()
            self._keep(question, form + _OF_PARTS, free, counts, numbers=numbers)

    def parts(self, question: str, form: str) -> tuple[AgreedPart, ...]:
        """The parts of an answer, if it was kept with some.

        Args:
            question: As in `same`.
            form: As in `same`.

        Raises:
            KnowledgeError: They cannot be read.
        """
        entry = self.same_count(question, form + _OF_PARTS)
        if entry is None:
            return ()
        try:
            return _PARTS.validate_json(entry.numbers)
        except ValidationError:
            raise entry.damaged() from None

    def keep_count(self, question: str, form: str, cost: Paid, text: str, numbers: str) -> None:
        """As `keep`, of a count: its text for people, and its numbers as JSON."""
        self._keep(question, form, cost, text, numbers=numbers)

    def _keep(self, question: str, form: str, cost: Paid, text: str, **kind: Any) -> None:
        try:
            self.remember(question, text, epsilon=cost.epsilon, delta=cost.delta, form=form, **kind)
        except (KnowledgeError, ConfigurationError) as error:
            if not self._warned:
                self._warned = True
                # Where warnings are errors, this one would cost an answer that is paid for.
                with contextlib.suppress(NotRememberedWarning):
                    warnings.warn(
                        f"the answer was not remembered: {error}",
                        NotRememberedWarning,
                        stacklevel=3,
                    )

    def entries(self) -> list[Entry]:
        """Entries that may be recalled, the oldest first."""
        return self._file.entries(self._seen)

    def edit(self, number: int, answer: str) -> None:
        """Correct the answer of an entry of this caller; see `AnswerFile.edit`."""
        if not answer.strip():
            raise ConfigurationError("the answer is empty; forget the entry instead")
        self._file.edit(number, _text(answer).strip(), self._own)

    def forget(self, number: int) -> None:
        """Delete an entry of this caller; see `AnswerFile.forget`."""
        self._file.forget(number, self._own)

    def clear(self) -> int:
        """Delete all entries of this caller; returns how many there were."""
        return self._file.clear(self._own)

    def close(self) -> None:
        """Close the file, unless it was lent; later calls raise KnowledgeError."""
        if not self._lent:
            self._file.close()

    def __enter__(self) -> AnswerMemory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _model(self) -> Embedder:
        if self._embedder is None:
            from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder

            self._embedder = SentenceTransformerEmbedder()
        return self._embedder

    def _rows(self, found: list[tuple[Entry, bytes | None]]) -> npt.NDArray[np.float32]:
        """Vectors of entries; those that have none of this model get one, and keep it."""
        vectors = {entry: own for entry, own in found if own is not None}
        lacking = [entry for entry, own in found if own is None]
        if lacking:
            questions = [entry.question for entry in lacking]
            rows = np.asarray(self._model().embed(questions, query=True), dtype="<f4")
            made = {entry: row.tobytes() for entry, row in zip(lacking, rows, strict=True)}
            self._file.keep_vectors(self._model().fingerprint, made)
            vectors |= made
        return np.stack([np.frombuffer(vectors[entry], dtype="<f4") for entry, _ in found])


def _name(kind: str, name: str | None) -> str:
    return f"no {kind}" if name is None else f"{kind} {name!r}"


def _text(given: str) -> str:
    """The text as a file can hold it: a lone surrogate, as broken input has them, is a mark."""
    return given.encode("utf-8", "replace").decode()


def nearest_rows(
    question: str, rows: npt.NDArray[np.float32], embedder: Embedder, least: float
) -> list[int]:
    """Places of questions near to this one, or to what it asks; the nearest first. Public.

    Args:
        question: What is asked.
        rows: Vectors of the others; of equally near ones the first is first.
        embedder: That made them.
        least: Least cosine.
    """
    asked = [_text(question), *shorter_questions(_text(question))]
    vectors = np.asarray(embedder.embed(asked, query=True), dtype=np.float32)
    scores = (rows @ vectors.T).max(axis=1)
    return [int(at) for at in np.argsort(-scores, kind="stable") if scores[at] >= least]


def asks_the_same(question: str, earlier: str) -> bool:
    """Whether two questions agree in kind and slots, or the parts of them that ask. Public.

    "Which town is it in?" asks nothing by itself behind "I want to visit the show room."
    """
    asked, before = map(_by_themselves, (question, earlier))
    return any(same_asked(one, other) for one in asked for other in before)


def _by_themselves(question: str) -> list[str]:
    whole = slots_of(question).names_something
    parts = shorter_questions(question)
    return [question, *(part for part in parts if not whole or slots_of(part).names_something)]


def same_words(question: str) -> str:
    """The question as it is compared: two are the same if this is equal.

    Width and other compatible forms (NFKC), case, white space, the mark at the end and courtesies
    around it make no difference. Nothing else is taken away: ``C`` and ``C#`` are two questions.
    """
    folded = normal_form("NFKC", without_courtesies(question)).casefold()
    spaced = " ".join(normal_form("NFKC", folded).split())
    return spaced.rstrip(_ENDING) or spaced


def asking_part(question: str) -> str:
    """The sentences that ask; the whole question where none does, or all do. Public.

    Args:
        question: What is asked. A colon ends a sentence, too: "A lady writes: When do you open?"
    """
    parts = _sentences(question)
    asking = _asking(parts)
    return " ".join(asking) if 0 < len(asking) < len(parts) else question


def shorter_questions(question: str) -> list[str]:
    """The part that asks, and the last sentence of it; none that is the whole question. Public."""
    last = _asking(_sentences(question))[-1:]
    return [part for part in dict.fromkeys((asking_part(question), *last)) if part != question]


def _sentences(question: str) -> list[str]:
    """Its sentences; a point after "3" of "3. May" ends none."""
    parts: list[str] = []
    for part in _BETWEEN.split(question.strip()):
        if parts and parts[-1].endswith(".") and not ends_sentence(parts[-1], f" {part}"):
            parts[-1] += f" {part}"
        else:
            parts.append(part)
    return parts


def _asking(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part.endswith("?")]
