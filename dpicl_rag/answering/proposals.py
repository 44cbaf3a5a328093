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

Where its answer is neither that nor stands in public documents, it is made up. Then what the
nearest answer names is put to the experts, with the question that is asked now: that costs a count
of support, which is less than to find it anew. Who has no vote then hears the question that it was
released for, which asks for the same.

Only answers to questions that ask for the same are proposed: of one kind, and about the same things
(`question_slots.py`). "Is the lift working?" does not tell until when it is out of order, also
where documents say again that it is. And what has no time is no answer to a question for a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dpicl_rag.answering.canonical_form import vote_for
from dpicl_rag.answering.prompt_rows import bare_log_probs, likeliest_tokens, read_public_row
from dpicl_rag.answering.question import Question
from dpicl_rag.knowledge.answer_file import Entry
from dpicl_rag.knowledge.answer_memory import AnswerMemory, asks_the_same, shorter_questions
from dpicl_rag.language_models.base import Input, LanguageModel
from dpicl_rag.language_models.hardware import enough_memory
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.content_words import FUNCTION_WORDS, content_words
from dpicl_rag.languages.languages import QuestionKind
from dpicl_rag.languages.sentences import sentences
from dpicl_rag.prompts import Prompt

_STATED = frozenset(
    {
        QuestionKind.TIME,
        QuestionKind.DATE,
        QuestionKind.WEEKDAY,
        QuestionKind.NUMBER,
        QuestionKind.PERSON,
        QuestionKind.YES_OR_NO,
    }
)
"""Kinds of questions whose answers can be told by their form."""


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
        counted: Whether it was not drawn token by token then, see `Entry.drawn`.
        earlier: The question that it was released for, where they are asked another one; none if
            they cannot be asked both.
    """

    tokens: tuple[int, ...]
    bare: tuple[float, ...]
    suffix: tuple[int, ...]
    question: str = ""
    named: str | None = None
    counted: bool = False
    earlier: str = ""


def proposal_for(
    question: Question,
    memory: AnswerMemory | None,
    informed_model: LanguageModel,
    informed: Input,
    known: Sequence[str],
) -> tuple[Proposal | None, str]:
    """The proposal to the documents, if there is one, and the words to search with. Public.

    Args:
        question: What is asked.
        memory: Of what was released before, if there is one.
        informed_model: The question's model, as it reads public knowledge.
        informed: The knowledge, as it reads it.
        known: Its texts.
    """
    text = question.text
    recalled = [] if memory is None else memory.nearest(text)
    nearest = [entry for entry in recalled if asks_the_same(text, entry.question)]
    others = [entry.text for entry in recalled if entry not in nearest]
    proposal = propose(question, informed_model, informed)
    if proposal and not _answers(proposal, question, others):
        proposal = None
    if question.config.agreement == "off" or not nearest:
        return proposal, text
    if proposal and (found := as_before(question, proposal, nearest, question)):
        return found, f"{text} {found.question}"
    for brief in map(question.worded, shorter_questions(text)):
        shorter = propose(brief, informed_model, informed)
        if shorter and not _answers(shorter, question, others):
            continue
        if shorter and (found := as_before(brief, shorter, nearest, question)):
            return found, f"{text} {found.question}"
    public = set(known).difference(entry.text for entry in recalled)
    if proposal is None or not _stands_in(proposal, question, public):
        proposal = named_before(question, nearest) or proposal
    return proposal, f"{text} {nearest[0].question}" if proposal else text


def propose(question: Question, informed_model: LanguageModel, informed: Input) -> Proposal | None:
    """The likeliest answer of the public row; None where it does not end, or says nothing.

    Args:
        question: What it is asked.
        informed_model: The question's model, as it reads public knowledge.
        informed: The knowledge.
    """
    config, prompt = question.config, question.prompt
    tokens = _likeliest(informed_model, prompt, informed, config.max_tokens, config.stop)
    if not tokens:
        return None
    return Proposal(tokens, tuple(bare_log_probs(question.model, prompt, tokens)), prompt.suffix)


def as_before(
    question: Question, proposal: Proposal, nearest: Sequence[Entry], asked: Question
) -> Proposal | None:
    """The earlier answer that says the same as a proposal, as it was put to the documents. Public.

    Args:
        question: What the public row was asked.
        proposal: Its answer.
        nearest: What was released before, the nearest question first.
        asked: For which experts read: the question, or the one whose part it is.
    """
    for entry in nearest:
        released = _released(entry, question)
        if not _says_the_same(proposal, released, question, entry.question):
            continue
        earlier = question.worded(entry.question)
        # Documents are read before it is known which question they answer.
        found = _released_then(released, earlier) if asked.hears(earlier) else None
        if found is not None:
            return replace(found, counted=not entry.drawn)
    return None


def named_before(question: Question, nearest: Sequence[Entry]) -> Proposal | None:
    """Names and numbers of the nearest answer that has some, for experts to name now. Public.

    Args:
        question: What is asked.
        nearest: What was released before, the nearest question first.
    """
    for entry in nearest:
        released = _released(entry, question)
        vote = vote_for(released, question.text, question.form)
        if vote is None or not vote.named or not _is_of_kind(released, question.text):
            continue
        if vote.short != vote.sentence or _names_alone(released):
            tokens = _spoken(f"{vote.short}.", question)
            if tokens is not None:
                now, counted = question.text, not entry.drawn
                earlier = question.worded(entry.question)
                # Documents are read before it is known which question they answer.
                both = question.hears(earlier)
                suffixes = question.prompt.suffix, earlier.prompt.suffix if both else ()
                then, suffix = entry.question if both else "", max(suffixes, key=len)
                return Proposal(tokens, (), suffix, now, vote.short, counted, then)
    return None


def _answers(proposal: Proposal, question: Question, others: Sequence[str]) -> bool:
    """True of a proposal that can answer a question, and is no answer to another one.

    Args:
        proposal: What the public row says.
        question: What is asked.
        others: Answers to questions that ask for something else, as it read them.
    """
    if not _is_of_kind(_text_of(proposal, question), question.text):
        return False
    news = _words_of(proposal, question) - content_words(question.text)
    return not news or not any(news <= content_words(text) for text in others)


def _is_of_kind(answer: str, question: str) -> bool:
    """Whether an answer has a time, a date, a number, a name or yes or no where that is asked."""
    said = [sentence for sentence, _ in sentences(answer)]
    each = map(answer_keys, (question, *shorter_questions(question)))
    return any(one.kind not in _STATED or any(map(one.of, said)) for one in each)


def _released(entry: Entry, question: Question) -> str:
    return entry.answer.removeprefix(question.template.answer_prefix).strip()


def _names_alone(released: str) -> bool:
    return FUNCTION_WORDS.isdisjoint(released.casefold().split())


def _stands_in(proposal: Proposal, question: Question, known: Iterable[str]) -> bool:
    """True of a proposal with words that the question has not, all of which texts have."""
    news = _words_of(proposal, question) - content_words(question.text)
    return bool(news) and news <= content_words("\n".join(known))


def _words_of(proposal: Proposal, question: Question) -> frozenset[str]:
    return content_words(_text_of(proposal, question))


def _text_of(proposal: Proposal, question: Question) -> str:
    tokenizer = question.model.tokenizer
    return tokenizer.decode([t for t in proposal.tokens if t not in tokenizer.stop_tokens])


def _spoken(text: str, question: Question) -> tuple[int, ...] | None:
    """Tokens of a whole answer, with the one that ends it; None of one that is too long."""
    tokenizer = question.model.tokenizer
    ends = sorted(tokenizer.stop_tokens)[:1]
    tokens = (*tokenizer.encode(f"{question.prompt.lead}{text}"), *ends)
    return tokens if len(tokens) <= question.config.max_tokens else None


def _says_the_same(proposal: Proposal, released: str, question: Question, earlier: str) -> bool:
    """Equality of a proposal and what was released in words beside those asked with."""
    asked = content_words(question.text) | content_words(earlier)
    news = content_words(released) - asked
    return bool(news) and _words_of(proposal, question) - asked == news


def _released_then(released: str, question: Question) -> Proposal | None:
    model, prompt, vote = question.model, question.prompt, None
    if _names_alone(released):
        vote = vote_for(released, question.text, question.form)
    named, tokens = None if vote is None else vote.short, _spoken(released, question)
    if tokens is None:
        return None
    bare = () if named is not None else tuple(bare_log_probs(model, prompt, tokens))
    return Proposal(tokens, bare, prompt.suffix, question.text, named)


@enough_memory()
def _likeliest(
    model: LanguageModel, prompt: Prompt, informed: Input, max_tokens: int, stop: Sequence[str]
) -> tuple[int, ...]:
    rows = read_public_row(model, prompt, room=max_tokens, informed=informed)
    stops, tokens = model.tokenizer.stop_tokens, list[int]()
    for token in likeliest_tokens(lambda ids: rows.extend(ids).public, prompt.suffix, max_tokens):
        tokens.append(token)
        text = model.tokenizer.decode([id for id in tokens if id not in stops])
        if token in stops or any(end in text for end in stop):
            return tuple(tokens) if text.strip() else ()
    return ()
