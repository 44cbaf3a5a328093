"""The rehearsal of a language model on public documents, which finds out what it is fit for."""

from dpicl_rag.rehearsal.kept_rehearsals import (
    keep_name,
    labelling_of,
    rehearsal_of,
    unloaded,
    yes_or_no_of,
)
from dpicl_rag.rehearsal.labelling import Labelling
from dpicl_rag.rehearsal.rehearsing import Rehearsal
from dpicl_rag.rehearsal.yes_or_no import Reading, YesOrNo

__all__ = [
    "Labelling",
    "Reading",
    "Rehearsal",
    "YesOrNo",
    "keep_name",
    "labelling_of",
    "rehearsal_of",
    "unloaded",
    "yes_or_no_of",
]
