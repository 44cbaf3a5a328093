"""Answers to questions: the public part, the plan, the experts, and the stream of what is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from dpicl_rag.answering.answer_plan import planned_answer, with_agreement
from dpicl_rag.answering.decoding import generate
from dpicl_rag.answering.extracts import extracts
from dpicl_rag.answering.follow_ups import whole_question
from dpicl_rag.answering.free_answers import (
    form_of,
    public_reply,
    published_answer,
    released_before,
)
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.prompt_rows import bare_log_probs
from dpicl_rag.answering.proposals import Proposal, proposal_for
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.sentence_votes import naming_of, sentence_votes, stating
from dpicl_rag.answering.steps import answered_in_steps, plan_of_steps, questions_of
from dpicl_rag.answering.support import Support
from dpicl_rag.answering.whole_answers import WholeAnswer, whole_answer
from dpicl_rag.answering.wordings import wordings
from dpicl_rag.answering.written_sentences import counts_in_words, only_repeats, with_counts
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.knowledge.bundle import Bundle
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.readers.no_writer import NoWriter
from dpicl_rag.language_models.readers.notes import notes, polished
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.languages import says_nothing
from dpicl_rag.languages.small_talk import is_small_talk
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.prompts import plain
from dpicl_rag.requests import Request
from dpicl_rag.results import UNSUPPORTED, PrivateAnswer, ReleasedBy, StoppedBy
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.retrieval.search import Search


def begin_answer(request: Request, documents: Documents, run: PrivateRun) -> PrivateStream:
    """Begin an answer; see `PrivateContextLLM.stream` for errors.

    Args:
        request: A question.
        documents: Private.
        run: Reads them, and pays.
    """
    if isinstance(documents, Bundle):
        return _of_bundle(request, documents, run)
    search, question = run.search(documents), plain(request.asked())
    if is_small_talk(question):
        corpus = run.booked_under(search.corpus_name)
        return public_reply(question, run.model, run.reader, run.config, corpus)
    run = run.under_terms(search.corpus_name)
    question = whole_question(question, request.turns, run.model, run.reader)
    run.require_memory(search)
    if not request.fresh and (item := run.knowledge.published(question)):
        corpus, most = run.booked_under(search.corpus_name), run.config.max_tokens
        return published_answer(item, question, corpus, run.model.tokenizer, most)
    begin = partial(_drawn, search=search, run=run, fresh=request.fresh)
    return answered_in_steps(question, begin, run.model.tokenizer)


def _of_bundle(request: Request, bundle: Bundle, run: PrivateRun) -> PrivateStream:
    """An answer that a bundle has, or that it does not say: there are no documents to ask."""
    asked, config, model = plain(request.asked()), run.config, run.model
    if is_small_talk(asked):
        return public_reply(asked, model, run.reader, config, bundle.corpus)
    asked = whole_question(asked, request.turns, model, run.reader)
    found, most = bundle.find(asked), config.max_tokens
    return published_answer(found, asked, bundle.corpus, model.tokenizer, most)


def plan_of_answer(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Mechanism], int | None]:
    """The plan of an answer, and about how many units are read for it."""
    search = run.search(documents)
    run = run.under_terms(search.corpus_name)
    steps = questions_of(plain(request.question or "?"))
    shaped = [(step, *_shaped(step, search, run)) for step in steps]
    planned = [_planned(own.question(step), found, own) for step, found, own in shaped]
    aim = planned[-1][0].aim
    plan = plan_of_steps(steps, [plan for _, plan in planned])
    return plan, None if aim is None else aim * len(steps)


def _shaped(question: str, search: Search, run: PrivateRun) -> tuple[Search, PrivateRun]:
    """The search and the settings of an answer, as the model's rehearsal has them."""
    silent = run.silent or run.extractive(question)
    config = with_agreement(
        run.config, search.stability, speaks=run.speaks, silent=silent, booked=run.booked
    )
    return search.across_languages() if silent else search, replace(run, config=config)


def _planned(
    question: Question, search: Search, run: PrivateRun, *, proposed: bool = False
) -> tuple[Search, Plan[Mechanism]]:
    """The plan of one question, and its search."""
    keys, domain = question.keys_counted, question.domain_counted
    given = {"booked": run.booked, "proposed": proposed}
    return planned_answer(run.config, search, **given, keys=keys, domain=domain)


def _drawn(question: str, search: Search, run: PrivateRun, *, fresh: bool) -> PrivateStream:
    """An answer from memory, from what documents confirm, or as it is drawn."""
    search, run = _shaped(question, search, run)
    config, reader, memory = run.config, run.reader, run.knowledge.memory
    corpus = run.booked_under(search.corpus_name)
    model = copying(run.model, config.copy_bias)
    asked = run.question(question, model)
    form = form_of(run.template, config.stop)
    reading = None if reader is None else notes(reader, question, run.template.note)
    if asked.extractive:
        reading = extracts(question)
    polish = partial(polished, reader, question) if reader is not None and config.polish else None
    if memory is not None and not fresh and (entry := memory.same(question, form)):
        tokenizer, most = model.tokenizer, config.max_tokens
        parts = () if entry.edited else memory.parts(question, form)
        memory.count_asked(entry)
        return released_before(entry.answer, question, corpus, tokenizer, most, polish, parts)
    known = [] if isinstance(model, NoWriter) else run.knowledge.recall(question)
    informed = model.digest(known, asked.allowance)
    informed_model = copying(run.model, config.copy_bias, public=bool(informed))
    proposal: Proposal | None = None
    sought = question
    if informed and not fresh and config.unsupported != "ignore":
        proposal, sought = proposal_for(asked, memory, informed_model, informed, known)
    search, plan = _planned(asked, search, run, proposed=proposal is not None)
    plan.warn_of_few_units(search)
    others = wordings(question, model)[1:] if asked.silent else ()
    experts = run.experts((sought, *others), search, plan, asked.digest, reading)
    spend, coins = experts.spend, run.randomness  # an ended stream keeps no documents
    support = None
    if plan.support is not None:
        support = Support(
            plan.support,
            spend,
            coins,
            proposal=proposal,
            found=experts.count,
            bare=(lambda ids: sum(bare_log_probs(model, asked.prompt, ids))) if informed else None,
            silent=asked.silent or asked.extractive,
            stating=stating(question, experts.passages),
        )
    whole = whole_answer(asked, plan, experts, coins)
    # Begins when the first piece is asked for, inside the stream's own clean-up.
    tokens = generate(
        model=informed_model,
        prompt=asked.prompt,
        experts=experts,
        randomness=coins,
        max_tokens=config.max_tokens,
        block_tokens=config.block_tokens,
        support=support,
        whole=whole,
        votes=sentence_votes(asked, experts.passages, notes=reader is not None),
        naming=naming_of(asked, proposal, experts.passages),
        informed=informed,
        on_progress=run.on_progress if reader is None else None,
    )
    finish = _Finish(
        question=question,
        examples=asked.shown,
        config=config,
        spend=spend,
        corpus=corpus,
        support=support,
        whole=whole,
        recalled=len(known),
        keep=None if memory is None else partial(memory.keep, question, form),
        polish=polish,
    )
    return PrivateStream(
        tokens,
        model.tokenizer,
        stop=config.stop,
        max_tokens=config.max_tokens,
        start=run.template.answer_prefix,
        question=question,
        # Agreement alone tells nothing where what is agreed on is no answer.
        held=config.unsupported == "refuse"
        or polish is not None
        or asked.silent
        or (whole is not None and whole.only_agreement),
        close=experts.close,
        finish=finish,
    )


@dataclass(frozen=True)
class _Finish:
    """The end of an answer: its support, its cost, and what is remembered of it.

    Attributes:
        question: What was asked.
        examples: Answers that its prompt showed.
        config: The settings.
        spend: Of the answer; no documents are kept by it.
        corpus: Whose budget paid.
        support: By the documents; None where nobody asks.
        whole: Sentences on which experts agree; None where they are not asked for them.
        recalled: How many texts of public knowledge were found.
        keep: Remembers an answer that documents support, whether it was drawn (see `Entry`), and
            its counts in words; None where there is no memory.
        polish: Writes the released text in other words; None leaves it as it is.
    """

    question: str
    examples: str
    config: PrivacyConfig
    spend: PrivacyFilter
    corpus: str
    support: Support | None
    whole: WholeAnswer | None
    recalled: int
    keep: Callable[[PrivateAnswer, bool, str], None] | None
    polish: Callable[[str], str] | None = None

    def __repr__(self) -> str:
        return "_Finish(<private>)"

    def __call__(self, text: str, tokens: int, stopped: StoppedBy, whole: bool) -> PrivateAnswer:
        """The answer, and what is to be done about it; see `PrivateStream`."""
        agreed = None if self.whole is None else self.whole.agreed
        confirmed = self.support is not None and self.support.confirmed
        only_agreement = self.whole is not None and self.whole.only_agreement
        supported = None
        nothing = says_nothing(text)
        if agreed is not None:
            supported = True  # by what it is
        elif whole and (confirmed or only_agreement or nothing):
            supported = confirmed and not nothing
        elif whole and self.support is not None:
            supported = self.support.decide(tokens, text)
        if self.support is not None:
            self.support.forget()
        answered = answer_keys(self.question).answers(text)
        supported = supported and answered and not only_repeats(self.question, text, self.examples)
        if (nothing or only_agreement or self.config.unsupported == "refuse") and not supported:
            # Whether documents support it was not asked where the engine was gone.
            text = "" if stopped == "unavailable" else UNSUPPORTED
        by: ReleasedBy | None = "agreement" if agreed else "memory" if confirmed else None
        if by is None and tokens and not only_agreement:
            by = "tokens"
        answer = PrivateAnswer(
            text=text,
            epsilon=self.config.epsilon,
            delta=self.config.delta,
            rho=self.spend.rho,
            tokens=tokens,
            stopped_by=stopped,
            corpus=self.corpus,
            supported=supported,
            by=by,
            agreeing=None if agreed is None else agreed.count,
            agreeing_within=None if agreed is None else agreed.within,
            parts=tuple(self.whole.parts) if self.whole and supported else (),
            recalled=self.recalled,
        )
        if self.keep is not None and supported:
            # Where no whole answers are counted, that one was drawn tells nothing.
            drawn = by == "tokens" and self.config.agreement != "off"
            self.keep(answer, drawn, counts_in_words(answer.parts, self.question))
        if self.polish is not None and whole and text not in ("", UNSUPPORTED):
            answer = answer.polished(self.polish)
        return with_counts(answer, self.question)
