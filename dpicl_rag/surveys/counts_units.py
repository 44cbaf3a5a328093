"""Methods that take any question, ``ask``, and that count: ``count``, ``tally``, ``survey``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from dpicl_rag.answering.worker_threads import in_worker
from dpicl_rag.language_models.base import Progress
from dpicl_rag.requests import VOTES, Kind, ReadBy, Request
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.surveys.releases import Result
from dpicl_rag.surveys.survey_results import (
    PrivateCount,
    PrivateSummary,
    PrivateSurvey,
    PrivateTally,
)


class CountsUnits(ABC):
    """Public methods of a model that counts units, and tells from a question whether to."""

    @abstractmethod
    def run(
        self, request: Request, documents: Documents, *, on_progress: Progress | None = None
    ) -> Any:
        """Run one request; see `PrivateContextLLM.run`."""

    def ask(
        self,
        /,
        question: str | None,
        documents: Documents,
        *,
        kind: Kind | None = None,
        on_progress: Progress | None = None,
        **fields: Any,
    ) -> Result:
        """Ask any question: what is wanted is seen in it, which is public and costs nothing.

        A fact is answered, as by ``answer``; "How many tenants complain?" is counted, "A refund, an
        exchange or a repair?" tallied, "What do they complain about?" surveyed. To a question about
        one person a fixed sentence says what can be asked, and is free.

        Args:
            question: Public text. None asks what the documents are about.
            documents: As in ``answer``. A count is of all units that a search looks in.
            kind: What to do all the same; the result says what was chosen (``result.kind``).
            on_progress: As in ``answer``.
            **fields: Of `Request`, such as ``turns`` or ``fresh``. Labels ask for a tally.

        Raises:
            ConfigurationError: A field does not fit the kind, or as in the method of the kind.
            DPICLError: As in the method that the kind names.
        """
        asks_none = kind is None and question is None and "column" not in fields
        kind = "survey" if asks_none else kind
        request = Request.of(kind, question=question, **fields)
        found: Result = self.run(request, documents, on_progress=on_progress)
        return found

    def count(
        self,
        question: str,
        documents: Documents,
        *,
        sample: float = 1.0,
        anyway: bool = False,
        fresh: bool = False,
        on_progress: Progress | None = None,
    ) -> PrivateCount:
        """Count the units that say yes to a question, with noise and an interval.

        Each unit says yes or no by itself; under individual accounting one that says no pays a
        fiftieth, for the number of units, and one that lacks names of the question nothing. The
        first count by a model takes minutes: it is asked about public documents, how often its yes
        and no are right, and the count is corrected by that.

        Args:
            question: Public text that each unit answers with yes or no.
            documents: As in ``answer``; of a corpus, all units.
            sample: Public probability with which a unit is asked, by a secret coin of its own. Of
                a large corpus fewer are read, and the interval is wider.
            anyway: Count also by a model that cannot, by its rehearsal; the number is then wrong
                in a way that no interval holds.
            fresh: Count again what the memory has with no more noise than this would have.
            on_progress: Called with the part of the documents that is read, 0 to 1.

        Raises:
            ConfigurationError: A setting is out of range, or does not fit the retriever, or the
                model cannot count.
            BudgetExceededError: A budget of the ledger cannot pay.
            EngineUnavailableError: The engine does not answer. No count is paid for.
            MissingDocumentsError: ``documents`` is None.
            StoppedError: It was ended between two steps; where `turns` are taken.
        """
        request = Request.of("count", question=question, sample=sample, anyway=anyway, fresh=fresh)
        found: PrivateCount = self.run(request, documents, on_progress=on_progress)
        return found

    def tally(
        self,
        question: str,
        labels: Sequence[str],
        documents: Documents,
        *,
        most: int = 1,
        by: ReadBy = "model",
        sample: float = 1.0,
        anyway: bool = False,
        fresh: bool = False,
        on_progress: Progress | None = None,
    ) -> PrivateTally:
        """Count the units that say each of several labels, with noise and intervals.

        Args:
            question: Public text that each unit answers with a label.
            labels: At least two. Public: choose them without looking at the documents.
            documents: As in ``count``.
            most: Labels that one unit says at most.
            by: What reads the units: the language model, or the vectors that a corpus stores, by
                which a unit says the labels that it is nearest to. Vectors tell subjects apart and
                take no time, and every unit pays.
            sample: As in ``count``.
            anyway: As in ``count``; of labels.
            fresh: As in ``count``.
            on_progress: As in ``count``.

        Raises:
            ConfigurationError: As in ``count``; or the labels cannot be distinguished, or are fewer
                than ``most``.
            BudgetExceededError: As in ``count``, also for the other errors.
        """
        fields = {"labels": labels, "most": most, "by": by, "sample": sample}
        request = Request.of("tally", question=question, **fields, anyway=anyway, fresh=fresh)
        found: PrivateTally = self.run(request, documents, on_progress=on_progress)
        return found

    def survey(
        self,
        question: str | None,
        documents: Documents,
        *,
        vocabulary: Sequence[str] | None = None,
        votes: int = VOTES,
        threshold: float | None = None,
        by: ReadBy = "vectors",
        sample: float = 1.0,
        fresh: bool = False,
        on_progress: Progress | None = None,
    ) -> PrivateSurvey:
        """Survey the units: themes of public words, and how many units are of each.

        By the vectors that a corpus stores; no language model reads anything. A unit votes for the
        public words nearest to its passages, or to the phrases that a reader says of it. Words of
        many units are released, grouped into themes, and units are counted by theme.

        Args:
            question: Public text: of each unit the passage that is nearest to it votes, for words
                that say something beyond it. None asks whole units.
            documents: A corpus, a Chroma collection or a list.
            vocabulary: Public words or phrases that units vote for; by default 1,000 English ones.
            votes: Words that one unit votes for.
            threshold: Cosine with the question from which a unit is asked at all. Public.
            by: What reads the units: the vectors that a corpus stores, or, as ``"model"``, the
                reader.
            sample: As in ``count``.
            fresh: As in ``count``.
            on_progress: Called with the part that a reader has read.

        Raises:
            ConfigurationError: A setting is out of range, or ``documents`` is a search, or there is
                no reader to ask.
            BudgetExceededError: A budget of the ledger cannot pay.
            EngineUnavailableError: The reader does not answer. No count is paid for.
            MissingDocumentsError: ``documents`` is None.
        """
        fields = {"vocabulary": vocabulary, "votes": votes, "threshold": threshold, "by": by}
        request = Request.of("survey", question=question, sample=sample, fresh=fresh, **fields)
        found: PrivateSurvey = self.run(request, documents, on_progress=on_progress)
        return found

    def summarise(
        self,
        question: str | None,
        documents: Documents,
        *,
        vocabulary: Sequence[str] | None = None,
        fresh: bool = False,
        on_progress: Progress | None = None,
    ) -> PrivateSummary:
        """Summarise the units: what they are about, and what units of the largest themes agree on.

        Units say what they are about in words of their own; many that say the same are a theme.
        Those of at most three are asked why they were written: a word that many of them give is
        told. Where the model cannot be silent (docs/models.md), or there is a vocabulary, none is
        asked: it is a survey by stored vectors.

        Args:
            question: As in ``survey``. It says the language of the summary.
            documents: As in ``survey``.
            vocabulary: As in ``survey``.
            fresh: As in ``count``.
            on_progress: As in ``count``.

        Raises:
            ConfigurationError: As in ``survey``, also for the other errors.
        """
        fields = {"question": question, "vocabulary": vocabulary, "fresh": fresh}
        request = Request.of("summary", **fields)
        found: PrivateSummary = self.run(request, documents, on_progress=on_progress)
        return found

    aask = in_worker(ask)
    acount = in_worker(count)
    atally = in_worker(tally)
    asurvey = in_worker(survey)
    asummarise = in_worker(summarise)
