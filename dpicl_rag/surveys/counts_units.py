"""The part of `PrivateContextLLM` that counts: ``count``, ``tally`` and ``survey``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from dpicl_rag import _validate
from dpicl_rag.answering.asks_units import AsksUnits
from dpicl_rag.answering.experts import gather
from dpicl_rag.answering.label_reading import label_reading, require_few_tokens
from dpicl_rag.answering.remembered import form_of
from dpicl_rag.answering.worker_threads import in_worker
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.ledger.account import open_account
from dpicl_rag.ledger.status import least_unit_remaining
from dpicl_rag.prompts import label_tokens
from dpicl_rag.retrieval.retrievers import Documents, all_units, shaped_by
from dpicl_rag.surveys.counting import Counting
from dpicl_rag.surveys.opinions import YES_OR_NO, opinions_in_steps
from dpicl_rag.surveys.released_counts import Counted
from dpicl_rag.surveys.remembered_counts import Remembered
from dpicl_rag.surveys.survey_plan import VOTES
from dpicl_rag.surveys.survey_results import PrivateCount, PrivateSurvey, PrivateTally
from dpicl_rag.surveys.surveying import survey_documents
from dpicl_rag.surveys.tally_plan import tally_plan, tally_search, units_of_a_step
from dpicl_rag.surveys.tallying import noisy_counts
from dpicl_rag.surveys.vector_tally import tally_by_vectors

if TYPE_CHECKING:
    import torch


ReadBy = Literal["model", "vectors"]
"""What reads units for a tally or a survey."""


class CountsUnits(AsksUnits):
    """What has a model, settings and a budget, and counts units."""

    def count(
        self,
        question: str,
        documents: Documents,
        *,
        sample: float = 1.0,
        fresh: bool = False,
        on_progress: Progress | None = None,
    ) -> PrivateCount:
        """How many units say yes to a question: a noisy count, with an interval.

        Each unit says yes or no by itself; under individual accounting one that says no pays
        nothing.

        Args:
            question: Public text that each unit answers with yes or no.
            documents: As in ``answer``; of a corpus, all units.
            sample: Public probability with which a unit is asked, by a secret coin of its own. Of
                a large corpus fewer are read, and the interval is wider.
            fresh: Count again what the memory has with no more noise than this would have.
            on_progress: Called with the part of the documents that is read, 0 to 1.

        Raises:
            ConfigurationError: A setting is out of range, or does not fit the retriever.
            BudgetExceededError: A budget of the ledger cannot pay.
            EngineUnavailableError: The engine does not answer. No count is paid for.
            MissingDocumentsError: ``documents`` is None.
            StoppedError: It was ended between two steps; where `turns` are taken.
        """

        def release() -> PrivateCount:
            counted = self._counted(question, YES_OR_NO, documents, 1, sample, on_progress, told=1)
            return PrivateCount(question, counted.estimates[0], *counted.cost)

        shaping = (sample, *self._read_by(documents))
        remembered = self._remembered(documents, fresh)
        return remembered.or_release(PrivateCount, question, shaping, self.config, release)

    def tally(
        self,
        question: str,
        labels: Sequence[str],
        documents: Documents,
        *,
        most: int = 1,
        by: ReadBy = "model",
        sample: float = 1.0,
        fresh: bool = False,
        on_progress: Progress | None = None,
    ) -> PrivateTally:
        """How many units say each of several labels: noisy counts, with intervals.

        Args:
            question: Public text that each unit answers with a label.
            labels: At least two. Public: choose them without looking at the documents.
            documents: As in ``count``.
            most: Labels that one unit says at most.
            by: What reads the units: the language model, or the vectors that a corpus stores, by
                which a unit says the labels that it is nearest to. Vectors tell subjects apart and
                take no time, and every unit pays.
            sample: As in ``count``.
            fresh: As in ``count``.
            on_progress: As in ``count``.

        Raises:
            ConfigurationError: As in ``count``; or the labels cannot be distinguished, or are fewer
                than ``most``.
            BudgetExceededError: As in ``count``, also for the other errors.
        """
        if isinstance(labels, str):
            raise ConfigurationError("labels must be a list, not one string")
        if by == "vectors":
            counting = self._counting(documents, fresh)
            return tally_by_vectors(question, labels, documents, counting, most=most, sample=sample)
        if by != "model":
            raise ConfigurationError("a tally is by 'model' or by 'vectors'")

        def release() -> PrivateTally:
            counted = self._counted(question, labels, documents, most, sample, on_progress)
            return PrivateTally.of(question, labels, counted)

        shaping = (tuple(labels), most, sample, *self._read_by(documents))
        remembered = self._remembered(documents, fresh)
        return remembered.or_release(PrivateTally, question, shaping, self.config, release)

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
        """What the units are about: themes of public words, and how many units are of each.

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
        if by == "model" and self.reader is None:
            raise ConfigurationError(
                "a survey is by vectors, or by a reader; give one (reader=...)"
            )
        return survey_documents(
            question,
            documents,
            self._counting(documents, fresh),
            vocabulary=vocabulary,
            votes=votes,
            threshold=threshold,
            sample=sample,
            reader=self.reader if by == "model" else None,
            on_progress=on_progress,
        )

    acount = in_worker(count)
    atally = in_worker(tally)
    asurvey = in_worker(survey)

    def _counted(
        self,
        question: str,
        labels: Sequence[str],
        documents: Documents,
        most: int,
        sample: float,
        on_progress: Progress | None,
        told: int | None = None,
    ) -> Counted:
        """Noisy counts of the first ``told`` labels, of all if None."""
        config, model = self.config, self.model
        prompt = self._prompt(question)
        tokens = label_tokens(model.tokenizer, labels, prompt.lead)
        if _validate.count("most", most) > len(labels):
            raise ConfigurationError(f"a unit cannot say {most} of {len(labels)} labels")
        search = tally_search(documents, config, sample, read=self.reader is not None)
        require_few_tokens(tokens, search.aim, "or count by vectors (by='vectors')")
        price, bins = search.rho(config.adjacency), told or len(labels)
        plan = tally_plan(config, search.stability, price, bins, most)
        allowance = prompt.allowance(model, config.unit_tokens, max(map(len, tokens)))
        complete = not plan.individual or self._every_unit_has(plan.rho, search.corpus_name)
        how = label_reading(
            self.reader,
            model,
            question,
            labels,
            prompt,
            tokens,
            allowance,
            most=most,
        )
        gathered = gather(
            question=question,
            search=search,
            plan=plan,
            open_account=self._opening(search),
            randomness=self._randomness,
            digest=how.digest,
            reading=how.reading,
            on_progress=on_progress,
        )
        together = units_of_a_step(allowance + len(prompt.suffix) + max(map(len, tokens)))
        by_model = on_progress if self.reader is None else None

        def said() -> torch.Tensor:
            read = opinions_in_steps(how.step, gathered.inputs, most, together, by_model)
            return read[:, :bins]

        return Counted(
            noisy=noisy_counts(gathered, said, self._randomness),
            noise=plan.mechanism.noise,
            rate=gathered.rate,
            epsilon=config.epsilon,
            delta=config.delta,
            rho=gathered.spend.rho,
            complete=complete,
        )

    def _counting(self, documents: Documents, fresh: bool) -> Counting:
        """Settings, an account that all units pay alike, coins and memory."""
        name = getattr(documents, "name", None)
        opening = partial(
            open_account,
            self._ledger,
            corpus=self._booked_under(name),
            source=name,
            caller=self._caller,
        )
        remembered = self._remembered(documents, fresh)
        return Counting(self.config, opening, self._randomness, remembered)

    def _remembered(self, documents: Documents, fresh: bool) -> Remembered:
        """What was counted before, of all units or of those above a public threshold."""
        search = all_units(documents, self.config.privacy_unit)
        if shaped_by(search) is None:
            return Remembered()
        return Remembered(self._memory(search), fresh)

    def _read_by(self, documents: Documents) -> tuple[object, ...]:
        """What shapes the opinions of the units that are counted. Public."""
        form, config = form_of(self.template, ()), self.config
        shaping: tuple[object, ...] = (self.model.fingerprint, config.unit_tokens, form)
        if self.reader is not None:
            shaping = ("reader", self.reader.fingerprint, config.max_calls)
        return (*shaping, *(shaped_by(all_units(documents, self.config.privacy_unit)) or ()))

    def _every_unit_has(self, rho: float, corpus: str | None) -> bool:
        """Whether no unit can have less left, by public numbers."""
        if self._ledger is None:
            return True
        left = least_unit_remaining(self._ledger.status(), self._booked_under(corpus))
        return left is None or left >= rho
