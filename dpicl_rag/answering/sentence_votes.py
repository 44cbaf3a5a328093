"""VoteReader: what each expert would answer by itself, if its own document says so.

Experts that find nothing say what the model would make up, and they agree on that too; or they say
what their document is about, whatever was asked. So an expert has a vote only where its document
has words of the question, where every word of its sentence that matters stands in that document
(or every name and number of it, which then count alone), and where the document adds the sentence
to what the model says alone. Each vote is a function of the expert's own unit and of public things.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import torch

from dpicl_rag.answering.canonical_form import CanonicalForm, SentenceVote, vote_for
from dpicl_rag.answering.extracts import keys_of_extract
from dpicl_rag.answering.prompt_rows import BareModel
from dpicl_rag.answering.proposals import Proposal
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.support import Naming, Stating, supports
from dpicl_rag.answering.whole_answers import SentenceVotes
from dpicl_rag.knowledge.answer_memory import asking_part
from dpicl_rag.language_models.base import Rows, SpeakingRows
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.language_models.tokenizer import Tokenizer, sentence_end_of
from dpicl_rag.languages.answer_keys import AnswerKeys, answer_keys
from dpicl_rag.languages.content_words import content_words
from dpicl_rag.languages.languages import is_function_word, says_nothing
from dpicl_rag.languages.sentences import first_sentence, sentences, without_sender

_ABOUT = 0.25
"""Of the question's words, the least part that a document must have (benchmarks/README.md)."""

_ABOUT_WORDS = 2
"""The same as a number, where the question has so many."""


class VoteReader:
    """The reader of votes in what experts say by themselves.

    Args:
        tokenizer: Of the model.
        question: Public text.
        passages: What each expert was given of its unit, in the order of the rows. Private.
        form: Canonical form of an answer.
        bare: Log-probability to the bare model, which reads no document, of tokens behind others.
        stop: Strings that end an answer.
        shown: Words of the answers of worked examples: who says nothing else has no vote.
        examples: Words of worked examples, of keys: what is of them alone, not of the document, is
            no vote.
        silent: Whether an expert says so itself where its document does not tell. Else only those
            have a vote whose document has words of the question.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        question: str,
        passages: Sequence[Sequence[str]],
        form: CanonicalForm,
        bare: Callable[[Sequence[int], Sequence[int]], float],
        stop: Sequence[str] = (),
        *,
        shown: Set[str] = frozenset(),
        examples: Set[str] = frozenset(),
        silent: bool = False,
    ) -> None:
        self.end = sentence_end_of(tokenizer)
        self._tokenizer = tokenizer
        self._question = question
        self._keys = answer_keys(question)
        self._about = {content_words(one) for one in (question, asking_part(question))}
        self._shown = shown
        self._examples = examples
        self._silent = silent
        self._documents = [_Document.of(own, self._keys) for own in passages]
        self._form = form
        self._bare = bare
        self._stop = stop

    def __repr__(self) -> str:
        return "VoteReader(<private>)"

    @property
    def asked(self) -> list[bool]:
        """Experts that are asked: those whose document has words of the question. Private.

        Where they may be silent, only names and numbers of it need to be there.
        """
        if self._silent:
            return [own.about for own in self._documents]
        return [any(_has(own.words, about) for about in self._about) for own in self._documents]

    def votes(
        self, before: Sequence[int], said: Sequence[Continuation]
    ) -> list[SentenceVote | None]:
        """The vote of each expert, or None.

        Args:
            before: Tokens between its document and what it says.
            said: What each expert says by itself. Private.
        """
        known = self.end.words(before)
        each = zip(said, self._documents, self.asked, strict=True)
        return [self._vote(before, known, own, read) if one else None for own, read, one in each]

    def _vote(
        self,
        before: Sequence[int],
        known: Set[str],
        said: Continuation,
        document: _Document,
    ) -> SentenceVote | None:
        sentence, tokens = self._sentence(said, known)
        if sentence is None or (self._silent and says_nothing(sentence)):
            return None
        vote = vote_for(sentence, self._question, self._form, by_parts=self._silent)
        if vote is not None and vote.words and vote.words <= self._shown:
            return None  # a worked example, not the document
        if vote is None or (vote := document.carries(vote, self._examples)) is None:
            return None
        if self._silent:
            return vote  # who makes things up would not have been silent
        own = sum(said.log_probs[:tokens])
        supported = supports(own, tokens, lambda: self._bare(before, said.tokens[:tokens]))
        return vote if supported else None

    def _sentence(self, said: Continuation, known: Set[str]) -> tuple[str | None, int]:
        """The first sentence, and how many tokens it takes; None where it does not end.

        Where keys alone are counted, what is said so far has some, but for its last word.
        """
        at = self.end.at(said, known)
        ids = said.tokens if at is None else said.tokens[:at]
        text = self._tokenizer.decode(ids)
        cuts = [cut for stop in self._stop if (cut := text.find(stop)) >= 0]
        whole = text[: min(cuts)] if cuts else text
        sentence = first_sentence(whole)
        if at is None and not cuts and len(sentence) == len(whole.lstrip()):
            said_so_far, _, _ = sentence.rpartition(" ")
            return (said_so_far, len(ids)) if self._silent and said_so_far else (None, 0)
        length = len(whole) - len(whole.lstrip()) + len(sentence)
        reached = (n for n in range(1, len(ids)) if len(self._tokenizer.decode(ids[:n])) >= length)
        return sentence, next(reached, len(ids))


@dataclass(frozen=True, slots=True, repr=False)
class _Document:
    """What a unit's passages say, as far as votes need it. One that cannot be read says nothing.

    Attributes:
        text: All of them, without who sent them.
        words: Content words.
        signed: Words of keys that tell who sent it, and stand nowhere else.
        about: Whether names and numbers of the question are among all.
        keys: Of the question.
    """

    text: str = field(repr=False)
    words: frozenset[str] = field(repr=False)
    signed: frozenset[str] = field(repr=False)
    about: bool = field(repr=False)
    keys: AnswerKeys

    @staticmethod
    def of(passages: Sequence[str], keys: AnswerKeys) -> _Document:
        """Read passages; there is no error."""
        try:
            whole, text = "\n".join(passages), "\n".join(map(without_sender, passages))
            words = content_words(text)
            said = keys.words(text) if keys.run_together else words
            signed = frozenset() if whole == text else keys.words(whole) - said
            return _Document(text, words, signed, keys.about(whole), keys)
        except Exception:
            return _Document("", frozenset(), frozenset(), False, keys)

    def carries(self, vote: SentenceVote, examples: Set[str]) -> SentenceVote | None:
        """The part of a vote that it states, and that is no copy of what experts were shown."""
        try:
            if not vote.of_kind:
                return vote.within(self.words)
            states = self.keys.states(self.text)
            stated = vote.within(
                self.words,
                lambda key: (
                    states(key) and not self._signs(key) and not self._copied(key, examples)
                ),
            )
            return None if stated is None else replace(stated, keys=stated.keys[: self.keys.most])
        except Exception:
            return None  # one unit's words

    def _copied(self, key: str, examples: Set[str]) -> bool:
        """True of words of a worked example, which a document in another language may not have."""
        words = self.keys.words(key)
        copied = bool(words) and words <= examples and not words <= self.keys.words(self.text)
        return copied and not self.keys.by_value

    def _signs(self, key: str) -> bool:
        """True of words of the sender, which a document in another language does not state."""
        words = self.keys.words(key)
        return bool(words) and words <= self.signed


def vote_reader(
    question: Question, passages: Sequence[Sequence[str]], longest: int = 0
) -> VoteReader:
    """The reader of the sentences that experts say to a question.

    Args:
        question: What is asked.
        passages: What each expert was given of its unit. Private.
        longest: Tokens between a document and what its expert says, where some are more than those
            of the question.
    """
    config, tokenizer, suffix = question.config, question.model.tokenizer, question.prompt.suffix
    # Its room holds whatever one of them may say: an error would tell that one has said it.
    room = config.max_tokens + max(0, longest - len(suffix))
    bare = BareModel(question.model, question.prompt, room)
    text, form = question.text, question.form
    return VoteReader(
        tokenizer,
        text,
        passages,
        form,
        bare.log_prob,
        config.stop,
        shown=content_words(question.shown),
        examples=answer_keys(text).words(question.examples),
        silent=question.silent,
    )


def votes_of_rows(
    rows: SpeakingRows, reader: VoteReader, phrasings: Sequence[Sequence[int]], most: int
) -> list[SentenceVote | None]:
    """The vote of each expert, or None; who has one is not asked in other words. Private.

    Args:
        rows: The public row and the experts; they stand where they stood, afterwards.
        reader: Reads what they say.
        phrasings: Tokens between a document and what its expert says, for each wording.
        most: Tokens that each says at most.
    """
    votes: list[SentenceVote | None] = [None] * len(reader.asked)
    for before in phrasings:
        silent = [one and vote is None for one, vote in zip(reader.asked, votes, strict=True)]
        others = reader.votes(before, rows.continue_each(before, most, silent))
        votes = [vote or other for vote, other in zip(votes, others, strict=True)]
    return votes


def sentence_votes(
    question: Question, passages: Sequence[Sequence[str]], *, notes: bool
) -> Callable[[Callable[[], Rows]], SentenceVotes]:
    """The votes of experts for whole sentences, from what reads their rows.

    Args:
        question: What is asked.
        passages: What each expert was given of its units. Private.
        notes: Whether these are a reader's notes, one a unit, which vote as they stand. Else rows
            go on by themselves, and stand afterwards where they stood.
    """

    def of_notes(at: int, released: Sequence[int], most: int) -> list[SentenceVote | None]:
        return [_vote_of_note(own, at, question) for own in passages]

    def of_rows(rows_of: Callable[[], Rows]) -> SentenceVotes:
        rows = rows_of()
        assert isinstance(rows, SpeakingRows)
        reader, suffixes = vote_reader(question, passages), [p.suffix for p in question.phrasings]

        def votes(at: int, released: Sequence[int], most: int) -> list[SentenceVote | None]:
            return votes_of_rows(rows, reader, [(*own, *released) for own in suffixes], most)

        return votes

    def of_extracts(at: int, released: Sequence[int], most: int) -> list[SentenceVote | None]:
        return [_vote_of_extract(own, question) for own in passages]

    if question.extractive:
        return lambda _: of_extracts
    return (lambda _: of_notes) if notes else of_rows


def _vote_of_extract(extract: Sequence[str], question: Question) -> SentenceVote | None:
    """The vote of a unit's sentence for what it has of the kind that the question asks for."""
    keys = keys_of_extract(" ".join(extract), answer_keys(question.text))
    words = content_words(" ".join(keys))
    return SentenceVote(None, keys, words, words, of_kind=True) if keys else None


def _vote_of_note(notes: Sequence[str], at: int, question: Question) -> SentenceVote | None:
    """The vote of one note's sentence. A group of several units has none."""
    text = notes[0] if len(notes) == 1 else ""
    sentence, _ = next(islice(sentences(text), at, None), ("", ""))
    return vote_for(sentence, question.text, question.form) if sentence.strip() else None


def votes_of_notes(
    question: Question, notes: Sequence[Sequence[str]], passages: Sequence[Sequence[str]]
) -> list[SentenceVote | None]:
    """The votes of a reader's notes for keys that its unit states. Private.

    Args:
        question: What is asked.
        notes: One a unit at most.
        passages: What the reader was given of each unit.
    """
    keys = answer_keys(question.text)
    examples = keys.words(question.examples)

    def vote(note: Sequence[str], own: Sequence[str]) -> SentenceVote | None:
        said = first_sentence(note[0]) if note else ""
        found = vote_for(said, question.text, question.form, by_parts=True)
        return None if found is None else _Document.of(own, keys).carries(found, examples)

    return [vote(note, own) for note, own in zip(notes, passages, strict=True)]


def naming(
    rows: SpeakingRows,
    *,
    key: str,
    phrasings: Sequence[Sequence[int]],
    most: int,
    reader: Callable[[], VoteReader],
) -> torch.Tensor:
    """Experts that vote for names and numbers that are known: bool [n]. Private.

    Args:
        rows: The public row and the experts; they stand where they stood, afterwards.
        key: The names and numbers.
        phrasings: See `votes_of_rows`.
        most: Tokens that each says at most.
        reader: Makes the reader of what they say.
    """
    return _named(votes_of_rows(rows, reader(), phrasings, most), key)


def _named(votes: Sequence[SentenceVote | None], key: str) -> torch.Tensor:
    named = [vote is not None and vote.short.casefold() == key.casefold() for vote in votes]
    return torch.tensor(named, dtype=torch.bool)  # of no experts, too


def naming_of(
    question: Question, proposal: Proposal | None, passages: Sequence[Sequence[str]]
) -> Naming | None:
    """The search for experts that name what is proposed; None where that is no name or number.

    Args:
        question: What is asked.
        proposal: What public knowledge proposes.
        passages: What each expert was given of its unit. Private.
    """
    if proposal is None or proposal.named is None:
        return None
    asked = question.worded(proposal.question)
    if question.extractive:
        votes = [_vote_of_extract(own, asked) for own in passages]
        return lambda _: _named(votes, proposal.named or "")
    phrasings = asked.phrasings
    if proposal.earlier:
        phrasings += question.worded(proposal.earlier).phrasings
    suffixes = [one.suffix for one in phrasings]
    return partial(
        naming,
        key=proposal.named,
        phrasings=suffixes,
        most=question.config.max_tokens,
        reader=partial(vote_reader, asked, passages, max(map(len, suffixes))),
    )


def stating(question: str, passages: Sequence[Sequence[str]]) -> Stating:
    """The test which experts' documents have most of the words that a text brings in.

    A small model finds likely whatever it says often: that a sauna "is a public space".

    Args:
        question: Public text.
        passages: What each expert was given of its unit. Private.
    """

    def most(own: Sequence[str], news: Set[str]) -> bool:
        try:
            stated = news & content_words("\n".join(map(without_sender, own)))
            return not news or 2 * len(stated) > len(news)
        except Exception:
            return False  # one unit's words

    def of(text: str) -> torch.Tensor:
        brought = content_words(text) - content_words(question)
        news = {word for word in brought if not is_function_word(word)}
        return torch.tensor([most(own, news) for own in passages], dtype=torch.bool)

    return of


def _has(words: Set[str], about: Set[str]) -> bool:
    """True of a document with enough of a question's words."""
    return len(about & words) >= max(_ABOUT * len(about), min(_ABOUT_WORDS, len(about)))
