"""Private synthesis: texts that are written once under one budget and read without limit.

Names are imported when first used, so that ``import dpicl_rag.synthesis`` loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag._packaged import importing

if TYPE_CHECKING:
    from dpicl_rag.synthesis.corpus_plan import CorpusPlan
    from dpicl_rag.synthesis.examples import synthesise_examples
    from dpicl_rag.synthesis.label_head import LabelHead, release_label_head
    from dpicl_rag.synthesis.noisy_sums import AdaptiveConstants
    from dpicl_rag.synthesis.pools import LabelledDocument
    from dpicl_rag.synthesis.released_records import Synthesis, SyntheticRecord
    from dpicl_rag.synthesis.synthetic_corpus import synthesise_corpus
    from dpicl_rag.synthesis.template import (
        ExampleTemplate,
        RecordExample,
        RecordField,
        RecordTemplate,
    )

__getattr__, __dir__ = importing(__name__)

__all__ = [
    "AdaptiveConstants",
    "CorpusPlan",
    "ExampleTemplate",
    "LabelHead",
    "LabelledDocument",
    "RecordExample",
    "RecordField",
    "RecordTemplate",
    "Synthesis",
    "SyntheticRecord",
    "release_label_head",
    "synthesise_corpus",
    "synthesise_examples",
]
