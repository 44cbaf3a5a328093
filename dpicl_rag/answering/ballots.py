"""Ballots: what each expert would answer by itself, if its own document says so.

Experts that find nothing to read say what the model would make up, and they agree on that too. So
an expert has a vote only where its document adds its answer to what the model says alone, and where
every word of it that matters stands in that document. Each vote is a function of the expert's own
unit and of public things.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from dpicl_rag.answering.canonical_form import CanonicalForm, first_sentence
from dpicl_rag.answering.experts import Gathered
from dpicl_rag.answering.prompt_rows import BareModel
from dpicl_rag.answering.support import supports
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.base import Continuation, LanguageModel
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.prompts import Prompt

_WORD = re.compile(r"\w+")

# Words that say nothing by themselves.
_FUNCTION_WORDS = frozenset(
    """
    a about after all also an and any are as at be because been before being but by can could did do
    does for from had has have he her here hers him his how i if in into is it its just me more most
    must my no not of on or our out over shall she should so some such than that the their them then
    there these they this those through to too under until up us very was we were what when where
    which while who whom whose why will with would yes you your
    """.split()  # noqa: SIM905
)


def words_of(text: str) -> frozenset[str]:
    """The words of a text, without case."""
    return frozenset(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


class Ballots:
    """Reads the experts' answers.

    Args:
        tokenizer: Of the model.
        question: Public text.
        passages: What each expert was given of its unit, in the order of the rows. Private.
        form: Canonical form of an answer.
        bare: Log-probability to the bare model, which reads no document, of tokens behind others.
        stop: Strings that end an answer.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        question: str,
        passages: Sequence[Sequence[str]],
        form: CanonicalForm,
        bare: Callable[[Sequence[int], Sequence[int]], float],
        stop: Sequence[str] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._common = words_of(question) | _FUNCTION_WORDS
        self._words = [words_of("\n".join(own)) for own in passages]
        self._form = form
        self._bare = bare
        self._stop = stop

    def __repr__(self) -> str:
        return "Ballots(<private>)"

    def votes(self, before: Sequence[int], said: Sequence[Continuation]) -> list[str | None]:
        """The key of each expert, or None.

        Args:
            before: Tokens between its document and what it says.
            said: What each expert says by itself. Private.
        """
        each = zip(said, self._words, strict=True)
        return [self._vote(before, own, words) for own, words in each]

    def _vote(self, before: Sequence[int], said: Continuation, words: frozenset[str]) -> str | None:
        sentence = self._sentence(said)
        if sentence is None:
            return None
        key, tokens = sentence
        missing = words_of(key) - self._common - words
        if missing:
            return None
        own = sum(said.log_probs[:tokens])
        supported = supports(own, tokens, lambda: self._bare(before, said.tokens[:tokens]))
        return key if supported else None

    def _sentence(self, said: Continuation) -> tuple[str, int] | None:
        """The canonical form of the first sentence, and how many tokens it takes.

        None where it does not end within what was said.
        """
        ids = list(said.tokens)
        ends = next((at for at, id in enumerate(ids) if id in self._tokenizer.stop_tokens), None)
        ids = ids if ends is None else ids[:ends]
        text = self._tokenizer.decode(ids)
        cuts = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        whole = text[: min(cuts)] if cuts else text
        sentence = first_sentence(whole)
        if ends is None and not cuts and len(sentence) == len(whole.lstrip()):
            return None
        try:
            key = self._form(sentence)
        except Exception:
            return None  # one unit's words: nobody is told
        if not isinstance(key, str) or not key.strip():
            return None
        length = len(whole) - len(whole.lstrip()) + len(sentence)
        tokens = next(
            (at for at in range(1, len(ids)) if len(self._tokenizer.decode(ids[:at])) >= length),
            len(ids),
        )
        return key, tokens


def ballots_of(
    model: LanguageModel,
    prompt: Prompt,
    question: str,
    gathered: Gathered,
    config: PrivacyConfig,
    form: CanonicalForm,
) -> Ballots:
    """What reads the sentences of those experts that were gathered."""
    bare = BareModel(model, prompt, config.max_tokens)
    return Ballots(model.tokenizer, question, gathered.passages, form, bare.log_prob, config.stop)
