"""Reading documents before anybody asks, so that the first question finds them read."""

from __future__ import annotations

from collections.abc import Iterable

from dpicl_rag.documents import Document
from dpicl_rag.experts import one_each
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.prompts import PromptTemplate, document_tokens

_UNITS = 64


def warm(
    model: TransformersModel,
    documents: Iterable[Document],
    cache: PrefixCache,
    *,
    template: PromptTemplate | None = None,
    unit_tokens: int = 256,
    on_progress: Progress | None = None,
) -> int:
    """Put documents into a cache, as answers to come will read them.

    Units of one passage only: the passages of longer ones are ordered by the question.

    Args:
        model: The model that will answer.
        documents: Passages of a corpus.
        cache: Where they go.
        template: The template of the answers to come.
        unit_tokens: Most tokens of a unit, as in the answers to come.
        on_progress: Told which part is done.

    Returns:
        How many units are read now.
    """
    template = template or PromptTemplate()
    prefix = template.cut(model, "?").prefix
    public = model.encode(template.no_document)
    reader = model.with_cache(cache)
    texts = [e.passages for e in one_each(list(documents)) if len(e.passages) == 1]
    rows = [ids for text in texts if (ids := document_tokens(model, text, unit_tokens))]
    # Of similar lengths together, so that no pass is mostly padding.
    rows.sort(key=len)
    for first in range(0, len(rows), _UNITS):
        reader.prefix(prefix, [public, *rows[first : first + _UNITS]], room=0)
        if on_progress is not None:
            on_progress(min(1.0, (first + _UNITS) / len(rows)))
    return len(rows)
