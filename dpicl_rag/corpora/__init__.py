"""Corpora: private passages under the units that they belong to."""

from typing import TYPE_CHECKING

from dpicl_rag._packaged import importing

if TYPE_CHECKING:
    from dpicl_rag.corpora.corpus import Corpus
    from dpicl_rag.corpora.joins import Join

__getattr__, __dir__ = importing(__name__)

__all__ = ["Corpus", "Join"]
