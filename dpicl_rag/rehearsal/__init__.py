"""The rehearsal of a language model on public documents, which finds out what it is fit for."""

from dpicl_rag.rehearsal.kept_rehearsals import rehearsal_of
from dpicl_rag.rehearsal.rehearsal import Rehearsal

__all__ = ["Rehearsal", "rehearsal_of"]
