"""Sentences that the public model writes from a question and what was released to it.

"6:45" answers "When does the pool open?"; "The pool opens at 6:45" says it as people do. The model
reads the released keys in a document's place. Its sentence is taken only where it says every key,
brings in no word, name or number that is neither in them nor in the question, and does not turn the
question round.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dpicl_rag.answering.prompt_rows import greedy_answer, read_public_row
from dpicl_rag.answering.question import Question
from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.languages.content_words import content_words
from dpicl_rag.languages.languages import language_of
from dpicl_rag.languages.prose import prose_for
from dpicl_rag.languages.sentences import first_sentence
from dpicl_rag.results import AgreedPart, PrivateAnswer


def written_sentence(question: Question, keys: Sequence[str]) -> str | None:
    """A sentence without the mark at its end; None where the model writes none that may stand.

    Args:
        question: What was asked.
        keys: What was released. Public.
    """
    template = question.template  # without examples of silence: what is told was released
    most = question.config.max_tokens
    try:
        found = greedy_answer(
            question.model, template, question.text, [f"{', '.join(keys)}."], max_tokens=most
        )
    except ContextLengthError:
        return None
    sentence = first_sentence(found).rstrip(" .!")
    stands = says_no_more(sentence, question.text, keys) and in_order(sentence, question.text)
    return sentence if stands else None


def spelled(question: Question, keys: Sequence[str]) -> list[str]:
    """Items with the spaces that their keys lack: those that are likeliest to the public model.

    Args:
        question: What was asked. All other keys stay as they are.
        keys: What was released. Public, as all that follows from it.
    """
    if not keys or not answer_keys(question.text).run_together:
        return list(keys)
    tokenizer = question.model.tokenizer
    prompt, each = question.template.cut(tokenizer, question.text), _spellings(keys, tokenizer)
    longest = max(len(tokens) for one in each for tokens in one.values())
    try:
        rows = read_public_row(question.model, prompt, room=len(prompt.suffix) + longest)
    except ContextLengthError:
        return list(keys)
    rows.extend(prompt.suffix)
    return [[*one][int(rows.score([*one.values()]).public.argmax())] for one in each]


_SPELLINGS = 6  # that a model compares
_LETTERS = 2  # of a word of an item
_LONGEST = 48  # letters of an item; the number of its spellings is about half their square


def _spellings(keys: Sequence[str], tokenizer: Tokenizer) -> list[dict[str, list[int]]]:
    """Of each key itself and a few ways to write it the tokens that begin an answer."""
    found = []
    for key in keys:
        spaced = _spaced(key) if key.isalpha() and len(key) <= _LONGEST else ()
        # Words have fewer tokens than what is cut elsewhere.
        likely = sorted(spaced, key=lambda item: (len(tokenizer.encode(item)), item))
        items = dict.fromkeys((key, *likely[:_SPELLINGS]))
        found.append({item: tokenizer.encode(item[:1].upper() + item[1:]) for item in items})
    return found


def _spaced(key: str) -> Iterator[str]:
    """Letters as one word, two or three."""
    ends = range(_LETTERS, len(key) - _LETTERS + 1)
    yield key
    for first in ends:
        yield f"{key[:first]} {key[first:]}"
        for second in range(first + _LETTERS, ends.stop):
            yield f"{key[:first]} {key[first:second]} {key[second:]}"


def in_order(sentence: str, question: str) -> bool:
    """True of a sentence that has the words of a question in their order.

    "Nausea is treated with Mint" says the contrary of what "What is Mint treated with?" asks.

    Args:
        sentence: Of a public model.
        question: What was asked.
    """
    language = language_of(question)
    said, asked = (dict.fromkeys(language.content_stems(text)) for text in (sentence, question))
    return [one for one in said if one in asked] == [one for one in asked if one in said]


def says_no_more(sentence: str, question: str, keys: Sequence[str]) -> bool:
    """True of a sentence that says all keys, and nothing that neither they nor a question have.

    Args:
        sentence: Of a public model.
        question: What was asked.
        keys: What was released.
    """
    said, key_words = content_words(sentence), content_words(" ".join(keys))
    small = content_words(" ".join(language_of(question).function_words))
    return key_words <= said and said <= key_words | content_words(question) | small


def counts_in_words(parts: Sequence[AgreedPart], question: str) -> str:
    """Fixed sentences: counts that were released with parts, and what is missing; empty of none."""
    if not parts:
        return ""
    prose = prose_for(question)
    counts = [(part.text, part.estimate) for part in parts if part.estimate is not None]
    told = prose.counts("named", counts) if counts else prose.sentence("uncounted")
    return f"{told} {prose.sentence('rare')}"


def with_counts(answer: PrivateAnswer, question: str) -> PrivateAnswer:
    """The same with the counts of its parts in words."""
    told = counts_in_words(answer.parts, question)
    return replace(answer, text=f"{answer.text} {told}") if told else answer


_WORD = re.compile(r"[^\W_]+")
_OR = frozenset(("or", "oder", "ou", "o", "oppure"))


def only_repeats(question: str, answer: str, examples: str = "") -> bool:
    """True of an answer without a word that the question lacks, and without yes or no.

    Who asks "Is it red or blue?" is answered in its words. An answer that begins with a worked
    example repeats that.

    Args:
        question: Public text.
        answer: What was released.
        examples: Answers that the prompt showed.
    """
    language = language_of(question)
    words = _WORD.findall(answer.casefold())
    if _OR.intersection(_WORD.findall(question.casefold())):
        return False
    if language.yes.intersection(words) or language.no.intersection(words):
        return False
    asked, shown = language.content_words(question), language.content_words(examples)
    begins = language.content_words(first_sentence(answer))
    if (news := begins - asked) and news <= shown:
        return True
    return language.content_words(answer) <= asked
