"""An answer that public knowledge proposes and the documents confirm.

Where the public row has read an answer that was released before, it may know this one by itself.
So it is asked first, alone and free of charge. The documents then read its answer in one pass, and
one noisy count says whether most of them support it (`Support.confirms`). That count is all that
the answer costs; where it falls short, tokens are drawn as usual.

A question in other words is often one that a small model reads less well. Where the public row
gives the answer that was released before, the documents are asked what they were asked then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpicl_rag.answering.prompt_rows import bare_log_probs, read
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
            documents add to that.
        suffix: What stands between the documents and it.
    """

    tokens: tuple[int, ...]
    bare: tuple[float, ...]
    suffix: tuple[int, ...]


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
    """
    prompt, most = prompt_for(question), config.max_tokens
    proposal = propose(model, informed_model, prompt, informed, max_tokens=most, stop=config.stop)
    if proposal is None or config.agreement == "off":
        return proposal, question
    allowance = prompt.allowance(model, config.unit_tokens, most)
    return as_before(proposal, question, nearest, model, prompt_for, allowance, config, start=start)


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
    """
    if not nearest:
        return proposal, question
    earlier = nearest[0]
    prompt = prompt_for(earlier.question)
    # Documents are read before it is known which question they answer.
    if prompt.allowance(model, config.unit_tokens, config.max_tokens) >= allowance:
        released = earlier.answer.removeprefix(start).strip()
        asked = content_words(question) | content_words(earlier.question)
        proposal = _released_then(proposal, released, asked, model, prompt, config.max_tokens)
    return proposal, f"{question} {earlier.question}"


def _released_then(
    proposal: Proposal,
    released: str,
    asked: frozenset[str],
    model: LanguageModel,
    prompt: Prompt,
    max_tokens: int,
) -> Proposal:
    tokenizer = model.tokenizer
    proposed = tokenizer.decode([t for t in proposal.tokens if t not in tokenizer.stop_tokens])
    if content_words(proposed) - asked != content_words(released) - asked:
        return proposal
    tokens = proposal.tokens
    # Experts say sentences, so names and numbers alone are unlikely to them.
    if not FUNCTION_WORDS.isdisjoint(released.casefold().split()):
        ends = sorted(tokenizer.stop_tokens)[:1]
        tokens = (*tokenizer.encode(f"{prompt.lead}{released}"), *ends)
    if len(tokens) > max_tokens:
        return proposal
    return Proposal(tokens, tuple(bare_log_probs(model, prompt, tokens)), prompt.suffix)


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
