"""Answers to questions: the public part, the plan, the experts, and the stream of what is drawn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dpicl_rag.answering.answer_plan import planned_answer, with_agreement
from dpicl_rag.answering.ballots import hearing, naming_of
from dpicl_rag.answering.decoding import generate
from dpicl_rag.answering.follow_ups import whole_question
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.prompt_rows import bare_log_probs
from dpicl_rag.answering.proposals import Proposal, proposal_for
from dpicl_rag.answering.public_reply import public_reply
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.remembered import form_of, released_before
from dpicl_rag.answering.settlement import Settlement
from dpicl_rag.answering.small_talk import is_small_talk
from dpicl_rag.answering.support import Support
from dpicl_rag.answering.whole_answers import whole_answer
from dpicl_rag.language_models.copy_bias import copying
from dpicl_rag.language_models.readers.no_writer import NoWriter
from dpicl_rag.language_models.readers.notes import notes, polished
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.prompts import plain
from dpicl_rag.requests import Request
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.retrieval.search import Search


def begin_answer(request: Request, documents: Documents, run: PrivateRun) -> PrivateStream:
    """Begin an answer; see `PrivateContextLLM.stream` for errors.

    Args:
        request: A question.
        documents: Private.
        run: Reads them, and pays.
    """
    search, question = run.search(documents), plain(request.asked())
    if is_small_talk(question):
        corpus = run.booked_under(search.corpus_name)
        return public_reply(question, run.model, run.reader, run.config, corpus)
    config = with_agreement(run.config, search.stability, speaks=run.speaks)
    question = whole_question(question, request.turns, run.model, run.reader)
    run.require_memory(search)
    return _drawn(question, search, replace(run, config=config), fresh=request.fresh)


def plan_of_answer(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[Mechanism], int | None]:
    """The plan of an answer, and about how many units are read for it."""
    search = run.search(documents)
    config = with_agreement(run.config, search.stability, speaks=run.speaks)
    search, plan = planned_answer(config, search, booked=run.booked)
    return plan, search.aim


def _drawn(question: str, search: Search, run: PrivateRun, *, fresh: bool) -> PrivateStream:
    """An answer from memory, from what documents confirm, or as it is drawn."""
    config, reader, memory = run.config, run.reader, run.knowledge.memory
    corpus = run.booked_under(search.corpus_name)
    model = copying(run.model, config.copy_bias)
    asked = Question(question, run.template, model, config, run.form)
    form = form_of(run.template, config.stop)
    reading = None if reader is None else notes(reader, question, run.template.note)
    polish = partial(polished, reader, question) if reader is not None and config.polish else None
    if memory is not None and not fresh and (entry := memory.same(question, form)):
        tokenizer, most = model.tokenizer, config.max_tokens
        return released_before(entry.answer, question, corpus, tokenizer, most, polish)
    known = [] if isinstance(model, NoWriter) else run.knowledge.recall(question)
    informed = model.digest(known, asked.allowance)
    informed_model = copying(run.model, config.copy_bias, public=bool(informed))
    proposal: Proposal | None = None
    sought = question
    if informed and not fresh and config.unsupported != "ignore":
        proposal, sought = proposal_for(asked, memory, informed_model, informed, known)
    search, plan = planned_answer(config, search, booked=run.booked, proposed=proposal is not None)
    plan.warn_of_few_units(search)
    experts = run.experts(sought, search, plan, asked.digest, reading)
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
        hear=hearing(asked, experts.passages, notes=reader is not None),
        naming=naming_of(asked, proposal, experts.passages),
        informed=informed,
        on_progress=run.on_progress if reader is None else None,
    )
    settlement = Settlement(
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
        held=config.unsupported == "refuse" or polish is not None,
        finish=experts.close,
        settle=settlement,
    )
