"""Wordings of one question in the languages of mailboxes, to search with. All of it is public.

Embeddings of sentences are near to others of the same language first. People write in theirs, so a
question in one finds few of the mails in another. The public model translates it; a unit is as near
as the nearest wording.
"""

from __future__ import annotations

from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.errors import ContextLengthError
from dpicl_rag.language_models.base import LanguageModel, SpeakingRows
from dpicl_rag.languages.languages import QuestionKind, language_of, languages, worked_examples
from dpicl_rag.prompts import Example, PromptTemplate

_TOKENS = 48  # of a wording
_LONGER = 3  # times as long as the question a wording may be


def wordings(question: str, model: LanguageModel) -> tuple[str, ...]:
    """The question, and what a model makes of it in other languages.

    A wording that is in another language than was asked for is left out, as is one that is no
    question.

    Args:
        question: Public.
        model: Translates. Its rows are ``SpeakingRows``.
    """
    own = language_of(question)
    others = [one for one in languages() if one is not own]
    tokenizer = model.tokenizer
    prompt = _template().cut(tokenizer, question)
    try:
        most = prompt.allowance(model, _TOKENS, _TOKENS)
    except ContextLengthError:
        return (question,)
    rows = read(model, prompt, [model.digest((one.name,), most) for one in others], room=_TOKENS)
    assert isinstance(rows, SpeakingRows)
    said = rows.continue_each(prompt.suffix, _TOKENS, [True] * len(others))
    found = [question]
    for language, one in zip(others, said, strict=True):
        ids = [token for token in one.tokens if token not in tokenizer.stop_tokens]
        text = tokenizer.decode(ids).strip().partition("\n")[0]
        if language_of(text) is language and len(text) <= _LONGER * len(question):
            found.append(text)
    return tuple(found)


def _template() -> PromptTemplate:
    """Shows the same question in several languages."""
    asked = {one.name: worked_examples(one.code, QuestionKind.OTHER) for one in languages()}
    pairs = [("English", "German", 0), ("French", "English", -1), ("English", "Spanish", -1)]
    return PromptTemplate(
        system="You translate questions. Write the question in the language, and nothing else.",
        user="Language: {document}\n\nQuestion: {question}\n\nThe question in that language:",
        examples=tuple(
            Example(into, asked[of][at].question, asked[into][at].question)
            for of, into, at in pairs
        ),
    )
