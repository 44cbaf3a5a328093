"""The part of `PrivateContextLLM` that chooses labels: ``classify``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.answering.asks_units import AsksUnits
from dpicl_rag.answering.experts import gather
from dpicl_rag.answering.label_draw import draw_label
from dpicl_rag.answering.label_reading import label_reading, require_few_tokens
from dpicl_rag.answering.plan import label_plan
from dpicl_rag.answering.worker_threads import in_worker
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.methods.registry import over_documents
from dpicl_rag.prompts import CONTENT_FREE, label_tokens
from dpicl_rag.results import PrivateLabel
from dpicl_rag.retrieval.retrievers import Documents


class ChoosesLabels(AsksUnits):
    """What has a model, settings and a budget, and chooses labels by units."""

    def classify(
        self,
        question: str,
        documents: Documents,
        labels: Sequence[str],
        *,
        method: str | None = None,
        on_progress: Progress | None = None,
    ) -> PrivateLabel:
        """Choose one of several labels in one draw.

        It is purely epsilon-DP (delta 0), but for ``votes-gaussian`` and after a priced search.

        Args:
            question: Public text.
            documents: As in ``answer``.
            labels: At least two; each may be several tokens long.
            method: A published method by name (``dpicl_rag.methods``), charged the same for every
                unit: ``poe``, ``poe-prior`` (for questions that bring the text to be labelled),
                ``votes``, ``votes-gaussian`` ((epsilon, delta)-DP), ``permute-and-flip`` or
                ``permute-and-flip-votes``. None takes the ``utility`` and ``accounting`` of the
                settings.
            on_progress: Called with the part of the documents that is read, 0 to 1.

        Raises:
            ConfigurationError: The labels cannot be distinguished, or as in ``answer``.
            BudgetExceededError: A budget of the ledger cannot pay.
            EngineUnavailableError: The engine does not answer. No label is paid for; a priced
                search is, where it was done.
            MissingDocumentsError: ``documents`` is None.
        """
        if isinstance(labels, str):
            raise ConfigurationError("labels must be a list, not one string")
        config, model = self.config, self.model
        prompt = self._prompt(question)
        tokens = label_tokens(model.tokenizer, labels, prompt.lead)
        room = max(map(len, tokens))
        search = self._search(documents)
        require_few_tokens(tokens, search.aim, "or let fewer units be read (units=)")
        whole = epsilon_to_rho(config.epsilon, config.delta)
        search = search.within(whole, config.adjacency)
        opening = self._opening(search)
        made = None if method is None else partial(over_documents, method, config)
        plan = label_plan(config, search.stability, search.rho(config.adjacency), made)
        blank = self._prompt(CONTENT_FREE) if plan.takes_priors else prompt
        # Both questions find the same tokens of a document.
        allowance = min(one.allowance(model, config.unit_tokens, room) for one in (prompt, blank))
        self._memory(search)
        known = [] if self.reader is not None else self._knowledge.recall(question)
        how = label_reading(
            self.reader,
            model,
            question,
            labels,
            prompt,
            tokens,
            allowance,
            blank=blank if plan.takes_priors else None,
            informed=model.digest(known, allowance),
        )
        gathered = gather(
            question=question,
            search=search,
            plan=plan,
            open_account=opening,
            randomness=self._randomness,
            digest=how.digest,
            reading=how.reading,
            on_progress=on_progress,
        )
        step = partial(how.step, gathered.inputs, on_progress)
        chosen = draw_label(gathered, step, self._randomness)
        return PrivateLabel(
            labels[chosen], config.epsilon, plan.mechanism.delta, gathered.spend.rho
        )

    aclassify = in_worker(classify)
