"""An answer that public knowledge proposes and the documents confirm.

Where the public row has read an answer that was released before, it may know this one by itself.
So it is asked first, alone and free of charge. The documents then read its answer in one pass, and
one noisy count says whether most of them support it (`Support.confirms`). That count is all that
the answer costs; where it falls short, tokens are drawn as usual.

A question in other words is often one that a small model reads less well. Where the public row
gives the answer that was released before, the documents are asked what they were asked then. If
that was names and numbers alone, which are unlikely to experts that say sentences, each says its
sentence by itself, and those that name the same are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpicl_rag.answering.canonical_form import CanonicalForm, canonical_form
from dpicl_rag.answering.prompt_rows import bare_log_probs, read
from dpicl_rag.answering.short_form import key_of
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
        question: What the documents are asked.
        named: The names and numbers that experts are to say by themselves; None where they read
            the tokens.
    """

    tokens: tuple[int, ...]
    bare: tuple[float, ...]
    suffix: tuple[int, ...]
    question: str = ""
    named: str | None = None


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
    prompt, most = prompt_for(question), config.max_tokens
    proposal = propose(model, informed_model, prompt, informed, max_tokens=most, stop=config.stop)
    if proposal is None or config.agreement == "off":
        return proposal, question
    allowance = prompt.allowance(model, config.unit_tokens, most)
    return as_before(
        proposal, question, nearest, model, prompt_for, allowance, config, start=start, form=form
    )


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
    proposal: Proposal,
    question: str,
    nearest: Sequence[Entry],
    model: LanguageModel,
    prompt_for: Callable[[str], Prompt],
    allowance: int,
    config: PrivacyConfig,
    *,
    start: str,
    form: CanonicalForm = canonical_form,
) -> tuple[Proposal, str]:
    """The earlier answer in a proposal's place if it says the same, and the words to search with.

    All of it is public.

    Args:
        proposal: Of the public row.
        question: Public text.
        nearest: What was released before, the nearest question first.
        model: Reads no knowledge.
        prompt_for: Public text around a document, for a question.
        allowance: Tokens that an expert reads of its unit.
        config: Public settings.
        start: Words that every answer begins with.
        form: Canonical form of an answer.
    """
    if not nearest:
        return proposal, question
    earlier = nearest[0]
    prompt = prompt_for(earlier.question)
    # Documents are read before it is known which question they answer.
    if prompt.allowance(model, config.unit_tokens, config.max_tokens) >= allowance:
        released = earlier.answer.removeprefix(start).strip()
        if _says_the_same(proposal, released, question, earlier.question, model):
            proposal = _released_then(
                proposal, released, earlier.question, form, model, prompt, config.max_tokens
            )
    return proposal, f"{question} {earlier.question}"


def _says_the_same(
    proposal: Proposal, released: str, question: str, earlier: str, model: LanguageModel
) -> bool:
    """Whether a proposal and what was released have the same words beside those asked with."""
    tokenizer, asked = model.tokenizer, content_words(question) | content_words(earlier)
    proposed = tokenizer.decode([t for t in proposal.tokens if t not in tokenizer.stop_tokens])
    news = content_words(released) - asked
    return bool(news) and content_words(proposed) - asked == news


def _released_then(
    proposal: Proposal,
    released: str,
    question: str,
    form: CanonicalForm,
    model: LanguageModel,
    prompt: Prompt,
    max_tokens: int,
) -> Proposal:
    tokenizer, named = model.tokenizer, None
    if FUNCTION_WORDS.isdisjoint(released.casefold().split()):
        named = key_of(released, question, form)
    tokens = (*tokenizer.encode(f"{prompt.lead}{released}"), *sorted(tokenizer.stop_tokens)[:1])
    if len(tokens) > max_tokens:
        return proposal
    bare = () if named is not None else tuple(bare_log_probs(model, prompt, tokens))
    return Proposal(tokens, bare, prompt.suffix, question, named)


@enough_memory()
def _likeliest(
    model: LanguageModel, prompt: Prompt, informed: Input, max_tokens: int, stop: Sequence[str]
) -> tuple[int, ...]:
    rows = read(model, prompt, [], room=max_tokens, informed=informed)
    tokens: list[int] = []
    pending: Sequence[int] = prompt.suffix
    while len(tokens) < max_tokens:
        tokens.append(int(rows.extend(pending).public.argmax()))
        pending = tokens[-1:]
        text = model.tokenizer.decode([t for t in tokens if t not in model.tokenizer.stop_tokens])
        if tokens[-1] in model.tokenizer.stop_tokens or any(end in text for end in stop):
            return tuple(tokens) if text.strip() else ()
    return ()
