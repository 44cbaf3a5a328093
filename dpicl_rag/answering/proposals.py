"""An answer that public knowledge proposes and the documents confirm.

Where the public row has read an answer that was released before, it may know this one by itself.
So it is asked first, alone and free of charge. The documents then read its answer in one pass, and
one noisy count says whether most of them support it (`Support.confirms`). That count is all that
the answer costs; where it falls short, tokens are drawn as usual.

A question in other words is often one that a small model reads less well. Where the public row
gives an answer that was released before, to the question or to a part of it that asks, the
documents are asked what they were asked then. If that was names and numbers alone, which are
unlikely to experts that say sentences, each says its sentence by itself, and those that name the
same are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dpicl_rag.answering.asking_part import shorter_questions
from dpicl_rag.answering.ballot import ballot_for
from dpicl_rag.answering.canonical_form import CanonicalForm
from dpicl_rag.answering.prompt_rows import bare_log_probs, read_alone
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.knowledge.entry import Entry
from dpicl_rag.language_models.base import Input, LanguageModel
from dpicl_rag.language_models.content_words import FUNCTION_WORDS, content_words
from dpicl_rag.language_models.out_of_memory import enough_memory
from dpicl_rag.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Proposal:
    """A whole answer of the public row. Public.

    Attributes:
        tokens: Its tokens, with the one that ends it.
        bare: Log-probability of each to the public row that reads no knowledge: support is what
            documents add to that. Nothing where experts name it by themselves.
        suffix: What stands between the documents and it.
        question: What the documents were asked when it was released; none where it is new.
        named: The names and numbers that experts are to say by themselves; None where they read
            the tokens.
        counted: Whether documents agreed on it then, or an operator wrote it.
    """

    tokens: tuple[int, ...]
    bare: tuple[float, ...]
    suffix: tuple[int, ...]
    question: str = ""
    named: str | None = None
    counted: bool = False


def proposal_for(
    question: str,
    nearest: Sequence[Entry],
    model: LanguageModel,
    informed_model: LanguageModel,
    prompt_for: Callable[[str], Prompt],
    informed: Input,
    config: PrivacyConfig,
    *,
    start: str,
    form: CanonicalForm,
) -> tuple[Proposal | None, str]:
    """What is proposed to the documents, if anything is, and the words to search with. Public.

    Args:
        question: Public text.
        nearest: What was released before, the nearest question first.
        model: Reads no knowledge.
        informed_model: The same model, as it reads public knowledge.
        prompt_for: Public text around a document, for a question.
        informed: The knowledge.
        config: Public settings.
        start: Words that every answer begins with.
        form: Canonical form of an answer.
    """

    def proposed(words: str) -> Proposal | None:
        return propose(
            model,
            informed_model,
            prompt_for(words),
            informed,
            max_tokens=config.max_tokens,
            stop=config.stop,
        )

    proposal = proposed(question)
    if not nearest or config.agreement == "off":
        return proposal, question
    allowance = prompt_for(question).allowance(model, config.unit_tokens, config.max_tokens)
    again = partial(as_before, nearest, model, prompt_for, allowance, config, start, form)
    if proposal is not None and (found := again(question, proposal)) is not None:
        return found, f"{question} {found.question}"
    for words in shorter_questions(question):
        brief = proposed(words)
        if brief is not None and (found := again(words, brief)) is not None:
            return found, f"{question} {found.question}"
    return proposal, question if proposal is None else f"{question} {nearest[0].question}"


def propose(
    model: LanguageModel,
    informed_model: LanguageModel,
    prompt: Prompt,
    informed: Input,
    *,
    max_tokens: int,
    stop: Sequence[str],
) -> Proposal | None:
    """The likeliest answer of the public row; None where it does not end, or says nothing.

    Args:
        model: Reads no knowledge.
        informed_model: The same model, as it reads public knowledge.
        prompt: Public text before and after it.
        informed: The knowledge.
        max_tokens: Most tokens.
        stop: Strings that end an answer too.
    """
    tokens = _likeliest(informed_model, prompt, informed, max_tokens, stop)
    if not tokens:
        return None
    return Proposal(tokens, tuple(bare_log_probs(model, prompt, tokens)), prompt.suffix)


def as_before(
    nearest: Sequence[Entry],
    model: LanguageModel,
    prompt_for: Callable[[str], Prompt],
    allowance: int,
    config: PrivacyConfig,
    start: str,
    form: CanonicalForm,
    question: str,
    proposal: Proposal,
) -> Proposal | None:
    """The earlier answer that says the same as a proposal, as it was put to the documents. Public.

    Args:
        nearest: What was released before, the nearest question first.
        model: Reads no knowledge.
        prompt_for: Public text around a document, for a question.
        allowance: Tokens that an expert reads of its unit.
        config: Public settings.
        start: Words that every answer begins with.
        form: Canonical form of an answer.
        question: What the public row was asked.
        proposal: Its answer.
    """
    most = config.max_tokens
    for earlier in nearest:
        released = earlier.answer.removeprefix(start).strip()
        if not _says_the_same(proposal, released, question, earlier.question, model):
            continue
        prompt = prompt_for(earlier.question)
        # Documents are read before it is known which question they answer.
        if prompt.allowance(model, config.unit_tokens, most) < allowance:
            continue
        found = _released_then(released, earlier.question, form, model, prompt, most)
        if found is not None:
            return replace(found, counted=not earlier.drawn)
    return None


def _says_the_same(
    proposal: Proposal, released: str, question: str, earlier: str, model: LanguageModel
) -> bool:
    """Whether a proposal and what was released have the same words beside those asked with."""
    tokenizer, asked = model.tokenizer, content_words(question) | content_words(earlier)
    proposed = tokenizer.decode([t for t in proposal.tokens if t not in tokenizer.stop_tokens])
    news = content_words(released) - asked
    return bool(news) and content_words(proposed) - asked == news


def _released_then(
    released: str,
    question: str,
    form: CanonicalForm,
    model: LanguageModel,
    prompt: Prompt,
    max_tokens: int,
) -> Proposal | None:
    tokenizer, ballot = model.tokenizer, None
    if FUNCTION_WORDS.isdisjoint(released.casefold().split()):
        ballot = ballot_for(released, question, form)
    named = None if ballot is None else ballot.short
    tokens = (*tokenizer.encode(f"{prompt.lead}{released}"), *sorted(tokenizer.stop_tokens)[:1])
    if len(tokens) > max_tokens:
        return None
    bare = () if named is not None else tuple(bare_log_probs(model, prompt, tokens))
    return Proposal(tokens, bare, prompt.suffix, question, named)


@enough_memory()
def _likeliest(
    model: LanguageModel, prompt: Prompt, informed: Input, max_tokens: int, stop: Sequence[str]
) -> tuple[int, ...]:
    rows = read_alone(model, prompt, room=max_tokens, informed=informed)
    tokens: list[int] = []
    pending: Sequence[int] = prompt.suffix
    while len(tokens) < max_tokens:
        tokens.append(int(rows.extend(pending).public.argmax()))
        pending = tokens[-1:]
        text = model.tokenizer.decode([t for t in tokens if t not in model.tokenizer.stop_tokens])
        if tokens[-1] in model.tokenizer.stop_tokens or any(end in text for end in stop):
            return tuple(tokens) if text.strip() else ()
    return ()
