"""A released form as it is shown: a sentence with the articles of the question.

Post-processing of what was released and of public text.
"""

from __future__ import annotations

import re

from dpicl_rag.language_models.content_words import content_words

_SPOKEN_FOR = frozenset({"a", "an", "the", "our", "your", "my", "no", "this", "that"})
_ARTICLE = re.compile(r"\b(a|an|the)\s+(\w+)", re.IGNORECASE)


def shown_form(form: str, question: str, *, begins: bool) -> str:
    """A canonical form as a sentence, or as the end of one; without the mark at its end.

    Args:
        form: The form.
        question: "How long does a refund take?" says that it is "a refund".
        begins: Whether it begins a sentence.
    """
    articles: dict[frozenset[str], str] = {}
    for article, word in _ARTICLE.findall(question):
        articles.setdefault(content_words(word), article.lower())
    shown: list[str] = []
    for word in form.split(" "):
        article = articles.pop(content_words(word), None)
        # "No refund" and "9 refunds" have none.
        fits = not shown or (shown[-1].islower() and shown[-1] not in _SPOKEN_FOR)
        shown += [article, word] if article and fits else [word]
    text = " ".join(shown)
    return text[:1].upper() + text[1:] if begins else text
