"""Follow-ups: the last question of a conversation in words that stand by themselves.

Documents are searched, experts are asked and answers are remembered by the question alone. So a
question that leans on the turns before it ("And on Fridays?") is put into whole words first, by the
public model, from public turns: they are questions, and answers that were released.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpicl_rag.answering.free_answers import is_small_talk
from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.content_words import content_words
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import notes
from dpicl_rag.prompts import Example, PromptTemplate, plain
from dpicl_rag.requests import Turn
from dpicl_rag.results import UNSUPPORTED

_ASKING = ("user", "human")
_LEANING = re.compile(
    r"^(and|but|or|what about|how about|why|how|since|when|where|who)\b\W*(?:\w+\W*)?$"
    r"|^(and|but|or|what about|how about)\b"
    r"|\b(it|its|he|him|his|she|her|hers|they|them|their|theirs|this|that|these|those)\b"
    r"|\bthere\W*$",
    re.IGNORECASE,
)
"""English questions that say less than they ask: "And on Fridays?", "Why?", "Who runs it?"."""

_TURNS = 8  # the last ones: what was said long ago is seldom meant
_LAST = 2  # those that a local model reads: a small one mixes them up with what was said before
_CHARACTERS = 600  # of one turn
_TOKENS = 64  # of a question

_REWRITE = PromptTemplate(
    system=(
        "You write the last question of a conversation so that it can be understood without the "
        "conversation. Write one question, in its own words where you can, and nothing else."
    ),
    user="Conversation:\n{document}\n\nLast question: {question}\n\nThe question by itself:",
    examples=(
        Example(
            "User: Where is the museum of clocks?\nAssistant: The museum of clocks is in Lund.",
            "And how much is it for children?",
            "How much is the museum of clocks for children?",
        ),
        Example(
            "User: Who trains the choir?\nAssistant: Ida Holm trains the choir.",
            "Since when does she do that?",
            "Since when does Ida Holm train the choir?",
        ),
        Example(
            "User: Who trains the choir?\nAssistant: Ida Holm trains the choir.",
            "What colour is the kite of Oskar?",
            "What colour is the kite of Oskar?",
        ),
    ),
)


def whole_question(
    question: str, turns: Sequence[Turn], model: LanguageModel, reader: Reader | None = None
) -> str:
    """A question that stands by itself.

    What the model writes is taken where it can be what was asked, and brings in what was said: see
    `_says_it`. Else a question that leans on others stands behind the user's last one.

    Args:
        question: The last question. It comes back as it is where nothing was said before, and
            where it is small talk.
        turns: The turns before it. Public, as all that follows from them.
        model: Writes it.
        reader: A chat model that does so in its place.

    Raises:
        ConfigurationError: A turn is no pair of words.
        EngineUnavailableError: The model does not answer. Nothing is spent.
    """
    if not all(_is_turn(turn) for turn in turns):
        raise ConfigurationError(
            "turns are pairs of speaker and words, such as ('user', 'When does it open?')"
        )
    question = plain(question)
    spoken = [(speaker, plain(text).strip()) for speaker, text in turns]
    said = [turn for turn in spoken if turn[1] not in ("", UNSUPPORTED)][-_TURNS:]
    if not said or not question.strip() or is_small_talk(question):
        return question
    lines = [_line(speaker, text) for speaker, text in said]
    found = _read_out(reader, lines, question) if reader else _written(model, lines, question)
    if _says_it(found, question, lines):
        return found
    if not _LEANING.search(question):
        return question
    asked = (text for speaker, text in reversed(said) if speaker.casefold() in _ASKING)
    last = next(asked, "")
    return f"{last} {question}".strip()


def last_question(turns: Sequence[Turn]) -> tuple[str, tuple[Turn, ...]]:
    """The question of a conversation, and the turns before it.

    It is the last turn, if that is a user's. Where another has the last word, all that was said is
    the question: only a user asks.

    Args:
        turns: All of them. Public.
    """
    if turns and (len(turns) == 1 or turns[-1][0].casefold() in _ASKING):
        return turns[-1][1], tuple(turns[:-1])
    return "\n".join(f"{speaker}: {text}" for speaker, text in turns), ()


def _is_turn(turn: object) -> bool:
    pair = isinstance(turn, (tuple, list)) and len(turn) == 2
    return pair and all(isinstance(part, str) for part in turn)  # type: ignore[attr-defined]


def _line(speaker: str, text: str) -> str:
    words = " ".join(text[:_CHARACTERS].split())
    return f"{speaker.capitalize()}: {words}" if speaker else words


def _read_out(reader: Reader, lines: Sequence[str], question: str) -> str:
    """A note of the conversation, in the place of a document."""
    read = notes(reader, question, f"{_REWRITE.system}\n\n{_REWRITE.user}")
    (found,) = read([("\n".join(lines),)], None)
    return found[0] if found else ""


def _written(model: LanguageModel, lines: Sequence[str], question: str) -> str:
    lines = lines[-_LAST:]
    try:
        prompt = _REWRITE.cut(model.tokenizer, question)
        most = prompt.allowance(model, model.context_length, _TOKENS)
    except ContextLengthError:
        return ""
    while len(lines) > 1 and len(model.tokenizer.encode("\n".join(lines))) > most:
        lines = lines[1:]
    said = ["\n".join(lines)]
    return greedy_answer(model, _REWRITE, question, said, max_tokens=_TOKENS, stop=("\n",))


def _says_it(found: str, question: str, lines: Sequence[str]) -> bool:
    """True of words that can be the question, made whole.

    They ask as it does, keep half of what it says, bring in what was said before, and nothing else:
    a small model answers the question in place of writing it, or makes up what is asked.
    """
    if question.rstrip().endswith("?") and not found.endswith("?"):
        return False
    words, own = content_words(found), content_words(question)
    new = words - own
    return bool(new) and new <= content_words(" ".join(lines)) and 2 * len(words & own) >= len(own)
