"""Follow-ups: the last question of a conversation in words that stand by themselves.

Documents are searched, experts are asked and answers are remembered by the question alone. So a
question that leans on the turns before it ("And on Fridays?") is put into whole words first, by the
public model, from public turns: they are questions, and answers that were released. A phrase alone
takes its place in the question before by rule. What cannot be written out is asked as it is: two
questions are never joined, as documents then answer either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import notes
from dpicl_rag.languages.elliptic_questions import filled_in
from dpicl_rag.languages.languages import Language, QuestionKind, follow_ups, language_of
from dpicl_rag.languages.small_talk import is_small_talk
from dpicl_rag.prompts import Example, PromptTemplate, plain
from dpicl_rag.requests import Turn
from dpicl_rag.results import UNSUPPORTED

_ASKING = ("user", "human")
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
)


def whole_question(
    question: str, turns: Sequence[Turn], model: LanguageModel, reader: Reader | None = None
) -> str:
    """A question that stands by itself.

    A phrase takes its place in the user's last question, and the one thing that it names that of
    "it". Else what the model writes is taken where it can be what was asked, and brings in what the
    user said, or else what was answered: see `_says_it`. Else the question is asked as it is.

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
    asked = [text for speaker, text in said if speaker.casefold() in _ASKING]
    language = language_of(" ".join([*asked[-_LAST:], question]))
    before = _whole(asked, language)
    if before and (whole := filled_in(question, before, language)):
        return whole
    # What was answered comes last: documents about the thing asked for need not name its answer.
    # "She" does.
    every = [_line(speaker, text) for speaker, text in said]
    users = [_line(speaker, text) for speaker, text in said if speaker.casefold() in _ASKING]
    person = not language.person_pronouns.isdisjoint(question.casefold().strip("?").split())
    for lines in [users, every] if users and users != every and not person else [every]:
        found = _read_out(reader, lines, question) if reader else _written(model, lines, question)
        if _says_it(found, question, before, lines, language):
            return found
    return question


def _whole(asked: Sequence[str], language: Language) -> str:
    """The user's last question, made whole from those before it."""
    whole = ""
    for question in asked:
        whole = (whole and filled_in(question, whole, language)) or question
    return whole


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
    shown = follow_ups(language_of(" ".join([*lines, question])).code)
    template = replace(
        _REWRITE, examples=tuple(Example(one.said, one.question, one.whole) for one in shown)
    )
    try:
        prompt = template.cut(model.tokenizer, question)
        most = prompt.allowance(model, model.context_length, _TOKENS)
    except ContextLengthError:
        return ""
    while len(lines) > 1 and len(model.tokenizer.encode("\n".join(lines))) > most:
        lines = lines[1:]
    said = ["\n".join(lines)]
    return greedy_answer(model, template, question, said, max_tokens=_TOKENS, stop=("\n",))


def _says_it(
    found: str, question: str, before: str, lines: Sequence[str], language: Language
) -> bool:
    """True of words that can be the question, made whole.

    They ask for the same kind of answer, keep all that it says, bring in what was said before, and
    nothing else: a small model answers the question in place of writing it, or makes one up.
    """
    if found.count("?") != 1 or not found.endswith("?"):
        return False
    kind = language.kind(question)
    kinds = {kind} | ({language.kind(before)} if kind is QuestionKind.OTHER else set())
    words, own = language.content_words(found), language.content_words(question)
    new = words - own
    said = language.content_words(" ".join(lines))
    return language.kind(found) in kinds and own <= words and bool(new) and new <= said
