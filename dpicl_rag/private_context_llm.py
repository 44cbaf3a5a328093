"""PrivateContextLLM: private answers from documents. The one place that sees text and budget."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from dpicl_rag.accounting.calibration import strength_for
from dpicl_rag.accounting.conversion import bounded_range_to_rho, epsilon_to_rho
from dpicl_rag.accounting.stability import Stability, require_individual
from dpicl_rag.answers import PrivateAnswer, PrivateLabel, StoppedBy
from dpicl_rag.configuration import PrivacyConfig, UtilityName
from dpicl_rag.decoding import decode
from dpicl_rag.drafting import GreedyDraft
from dpicl_rag.errors import (
    ConfigurationError,
    MissingDependencyError,
)
from dpicl_rag.experts import Expert
from dpicl_rag.gathering import Documents, Source, describe, gather
from dpicl_rag.labelling import Labelling, after_search, by_utility
from dpicl_rag.labels import label_tokens
from dpicl_rag.language_models.base import BlockRows, LanguageModel, Progress, Rows
from dpicl_rag.language_models.loading import load_language_model
from dpicl_rag.language_models.memory import enough_memory
from dpicl_rag.mechanisms.randomness import Randomness, SeededRandomness
from dpicl_rag.private_stream import PrivateStream
from dpicl_rag.prompts import CONTENT_FREE, CutPrompt, PromptTemplate, document_tokens
from dpicl_rag.utilities import LogProb, LogRatio, Surplus, Utility, Vote

if TYPE_CHECKING:
    import langchain_dpicl_rag
    import llama_index_dpicl_rag
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.ledger import Ledger, Reservation

T = TypeVar("T")

# Full-range tokens that one unit can pay for under individual accounting. Few tokens of an answer
# are news to the public model, so this is far below max_tokens; units that would need more are
# scaled down, not dropped (privacy.md, section 4).
_PIVOTAL_TOKENS = 12


class PrivateContextLLM:
    """Answers questions from private documents with a differential privacy guarantee.

    Every answer is (epsilon, delta)-DP for every privacy unit, whatever else is in the corpus.

    Args:
        model: A Hugging Face id, a local folder, a loaded ``(model, tokenizer)`` pair, an object
            with the ``LanguageModel`` protocol, or None for the packaged default.
        template: How documents and questions become prompts.
        ledger: Keeps the budgets over many answers; None accounts for each answer alone.
        corpus: Name under which the ledger books the answers.
        caller: Who asks, for the ledger's budgets per caller.
        prefix_cache: Where documents that were read are kept for later questions, for models of
            transformers; by default up to 1 GiB of memory, and nothing on disk.
        **settings: Fields of ``PrivacyConfig``: ``epsilon``, ``delta``, ``utility``,
            ``accounting``, ``max_tokens``, ``privacy_unit`` and the others.

    Raises:
        ConfigurationError: A setting is unknown, outside its range, or contradicts another.
        ModelError: The model cannot be loaded.
    """

    def __init__(
        self,
        model: str | Path | tuple[Any, Any] | LanguageModel | None = None,
        *,
        template: PromptTemplate | None = None,
        ledger: Ledger | None = None,
        corpus: str = "default",
        caller: str | None = None,
        prefix_cache: PrefixCache | None = None,
        **settings: Any,
    ) -> None:
        self.config = PrivacyConfig.create(**settings)
        self.template = template or PromptTemplate()
        self._ledger = ledger
        self._corpus = corpus
        self._caller = caller
        self._randomness = (
            Randomness() if self.config.seed is None else SeededRandomness(self.config.seed)
        )
        self._model = load_language_model(model, prefix_cache)

    def __repr__(self) -> str:
        return f"PrivateContextLLM(epsilon={self.config.epsilon}, delta={self.config.delta})"

    def answer(
        self, question: str, documents: Documents, *, on_progress: Progress | None = None
    ) -> PrivateAnswer:
        """Answer a question from documents.

        Args:
            question: Public text.
            documents: Private documents, strings, or a retriever. None at all gives the public
                model's answer by the same path.
            on_progress: Told which part of the documents is read, 0 to 1.

        Raises:
            BudgetExceededError: A budget of the ledger cannot pay for the first token.
            ConfigurationError: The settings do not fit the retriever, or the question is too long.
            MissingDocumentsError: ``documents`` is None.
        """
        with self.stream(question, documents, on_progress=on_progress) as stream:
            for _ in stream:
                pass
            return stream.answer

    def stream(
        self, question: str, documents: Documents, *, on_progress: Progress | None = None
    ) -> PrivateStream:
        """Answer a question piece by piece; see ``answer`` for arguments and errors.

        Returns:
            An iterator over pieces of text; its ``answer`` holds the whole when it has ended.
        """
        config = self.config
        prompt = self._cut(question)
        allowance = prompt.allowance(self._model, config.unit_tokens, config.max_tokens)
        utility = self._utility(config.utility or "surplus")
        source = describe(documents, config)
        factor = source.stability.factor(config.adjacency)
        budget = epsilon_to_rho(config.epsilon, config.delta)
        left = after_search(budget, source.rho)
        individual = self._individual(source.stability)
        draws = min(_PIVOTAL_TOKENS, config.max_tokens) if individual else config.max_tokens
        strength = config.strength or strength_for(left, draws, utility.range, factor)
        cost = bounded_range_to_rho(strength * utility.range * factor)
        if not individual and cost > left:
            raise ConfigurationError(
                "strength is so high that one token costs more than the whole budget of an "
                "answer; lower it or leave it out"
            )
        gathered = gather(
            question,
            documents,
            config,
            self._reserve,
            individual=individual,
            budget=budget,
            search_rho=source.rho,
            cost=cost,
        )
        charge = gathered.charge

        def settle(text: str, tokens: int, stopped: StoppedBy) -> PrivateAnswer:
            return PrivateAnswer(text, config.epsilon, config.delta, charge.rho, tokens, stopped)

        def tokens() -> Iterator[int]:
            # Runs when the first piece is asked for, inside the stream's own clean-up.
            with enough_memory():
                rows = self._rows(
                    gathered.experts, prompt, allowance, config.max_tokens, on_progress
                )
                draft = None
                if config.block_tokens and isinstance(rows, BlockRows):
                    alone = self._rows([], prompt, allowance, config.max_tokens, None)
                    assert isinstance(alone, BlockRows)
                    draft = GreedyDraft(alone, config.block_tokens)
                yield from decode(
                    rows,
                    prompt.suffix,
                    utility,
                    strength,
                    charge,
                    self._randomness,
                    max_tokens=config.max_tokens,
                    stop_tokens=self._model.stop_tokens,
                    top_k=config.public_top_k,
                    public_rows=None
                    if config.public_top_k is None
                    else self._rows([], prompt, allowance, config.max_tokens, None),
                    draft=draft,
                )

        return PrivateStream(
            tokens(),
            decode=self._model.decode,
            stop_tokens=self._model.stop_tokens,
            stop=config.stop,
            max_tokens=config.max_tokens,
            start=self.template.answer_prefix,
            finish=gathered.close,
            settle=settle,
        )

    def classify(
        self,
        question: str,
        documents: Documents,
        labels: Sequence[str],
        *,
        method: str | None = None,
        on_progress: Progress | None = None,
    ) -> PrivateLabel:
        """Choose one of several labels; one draw, purely epsilon-DP.

        Args:
            question: Public text.
            documents: As in ``answer``.
            labels: At least two; each may be several tokens long.
            method: A published method by name (``dpicl_rag.methods``), charged the same for every
                unit: ``poe``, ``poe-prior`` (for questions that bring the text to be labelled),
                ``votes``, ``votes-gaussian`` ((epsilon, delta)-DP), ``permute-and-flip`` or
                ``permute-and-flip-votes``. None takes the ``utility`` and ``accounting`` of the
                settings.
            on_progress: Told which part of the documents is read, 0 to 1.

        Raises:
            ConfigurationError: The labels cannot be told apart, or as in ``answer``.
            BudgetExceededError: A budget of the ledger cannot pay.
            MissingDocumentsError: ``documents`` is None.
        """
        config = self.config
        prompt = self._cut(question)
        tokens = label_tokens(self._model, labels, prompt.lead)
        room = max(map(len, tokens))
        source = describe(documents, config)
        labelling = self._labelling(method, source)
        blank = self._cut(CONTENT_FREE) if labelling.takes_priors else None
        # Both questions find the same tokens of a document.
        allowance = min(
            one.allowance(self._model, config.unit_tokens, room)
            for one in (prompt, blank)
            if one is not None
        )
        gathered = gather(
            question,
            documents,
            config,
            self._reserve,
            individual=method is None and self._individual(source.stability),
            budget=source.rho + labelling.rho,
            search_rho=source.rho,
            cost=labelling.rho,
        )

        def said(prompt: CutPrompt, on_progress: Progress | None) -> torch.Tensor:
            rows = self._rows(gathered.experts, prompt, allowance, room, on_progress)
            rows.extend(prompt.suffix)
            return torch.log_softmax(rows.score(tokens), dim=-1)

        try:
            with enough_memory():
                log_probs = said(prompt, on_progress)
                # Progress is told once: the documents are kept for the second question.
                priors = None if blank is None else said(blank, None)
                chosen = labelling.choose(log_probs, priors, gathered.charge, self._randomness)
        finally:
            gathered.close()
        return PrivateLabel(labels[chosen], config.epsilon, labelling.delta, gathered.charge.rho)

    async def aanswer(
        self, question: str, documents: Documents, *, on_progress: Progress | None = None
    ) -> PrivateAnswer:
        """``answer`` in a worker thread."""
        return await asyncio.to_thread(self.answer, question, documents, on_progress=on_progress)

    async def astream(
        self, question: str, documents: Documents, *, on_progress: Progress | None = None
    ) -> AsyncIterator[str]:
        """``stream`` with each draw in a worker thread."""
        stream = await _in_thread(self.stream, question, documents, on_progress=on_progress)
        try:
            while (piece := await _in_thread(next, stream, None)) is not None:
                yield piece
        finally:
            await asyncio.to_thread(stream.close)

    async def aclassify(
        self,
        question: str,
        documents: Documents,
        labels: Sequence[str],
        *,
        method: str | None = None,
        on_progress: Progress | None = None,
    ) -> PrivateLabel:
        """``classify`` in a worker thread."""
        return await asyncio.to_thread(
            self.classify, question, documents, labels, method=method, on_progress=on_progress
        )

    def budget_left(self) -> float | None:
        """Rho (zCDP) left to the corpus or the caller, whichever is less; None without a limit.

        Public: it follows from the questions asked, not from what any unit has spent.
        """
        if self._ledger is None:
            return None
        mine = {("corpus", self._corpus), ("caller", self._caller)}
        left = [
            status.remaining
            for status in self._ledger.status()
            if (status.kind, status.name) in mine and status.remaining is not None
        ]
        return min(left, default=None)

    def as_langchain(self) -> langchain_dpicl_rag.PrivateContextLLM:
        """This model as a LangChain ``LLM``.

        Raises:
            MissingDependencyError: LangChain is not installed.
        """
        try:
            from langchain_dpicl_rag import PrivateContextLLM as LangChainLLM
        except ImportError as error:
            raise _missing("LangChain", "langchain") from error
        return LangChainLLM(self)

    def as_query_engine(
        self, retriever: Any, **options: Any
    ) -> llama_index_dpicl_rag.PrivateQueryEngine:
        """A LlamaIndex query engine that answers with this model.

        Args:
            retriever: A retriever of this library, or a ``VectorStoreIndex``.
            **options: See ``llama_index_dpicl_rag.PrivateQueryEngine``.

        Raises:
            MissingDependencyError: LlamaIndex is not installed.
        """
        try:
            from llama_index_dpicl_rag import PrivateQueryEngine
        except ImportError as error:
            raise _missing("LlamaIndex", "llama-index") from error
        return PrivateQueryEngine(self, retriever, **options)

    def _cut(self, question: str) -> CutPrompt:
        if not question.strip():
            raise ConfigurationError("the question is empty")
        return self.template.cut(self._model, question)

    def _utility(self, name: UtilityName) -> Utility:
        config = self.config
        match name:
            case "log_prob":
                return LogProb(config.clip or 4.0)
            case "log_ratio":
                return LogRatio(config.clip or 1.0, config.public_power)
            case "surplus":
                return Surplus(config.expert_power, config.public_power)
            case "vote":
                return Vote(config.public_power)

    def _labelling(self, method: str | None, source: Source) -> Labelling:
        if method is None:
            return by_utility(self._utility(self.config.utility or "log_prob"), self.config, source)
        # Imported here: most answers need no methods, and SciPy waits until one does.
        from dpicl_rag.methods.over_documents import price

        return price(method, self.config, source)

    def _individual(self, stability: Stability) -> bool:
        """Whether this answer is under individual accounting."""
        sound = stability.individual and self.config.adjacency == "add_or_remove_one"
        if self.config.accounting == "individual":
            require_individual(stability, self.config.adjacency)
        return sound and self.config.accounting != "fixed"

    def _reserve(
        self, rho: float, at_least: float, units: Sequence[str] | None
    ) -> Reservation | None:
        if self._ledger is None:
            return None
        return self._ledger.reserve(
            corpus=self._corpus,
            caller=self._caller,
            rho=rho,
            at_least=at_least if units is None else None,
            units=units,
        )

    def _rows(
        self,
        experts: list[Expert],
        prompt: CutPrompt,
        allowance: int,
        max_tokens: int,
        on_progress: Progress | None,
    ) -> Rows:
        """The public row and one row per expert, documents read."""
        public = self._model.encode(self.template.no_document)
        documents = [
            document_tokens(self._model, expert.passages, allowance) or public for expert in experts
        ]
        room = len(prompt.suffix) + max_tokens
        return self._model.prefix(
            prompt.prefix, [public, *documents], room=room, on_progress=on_progress
        )


async def _in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run in a worker thread; whoever is cancelled meanwhile waits for it to end.

    Otherwise a stream would be closed beside a draw that still runs, and keep its reservation.
    """
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _missing(framework: str, extra: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"{framework} is not installed; run `pip install 'dpicl-rag[{extra}]'`"
    )
