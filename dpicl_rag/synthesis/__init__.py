"""Private synthesis: texts that are written once under one budget and read without limit.

Names are imported when first used, so that ``import dpicl_rag.synthesis`` loads no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpicl_rag.synthesis.corpus import synthesise_corpus
    from dpicl_rag.synthesis.corpus_plan import CorpusPlan
    from dpicl_rag.synthesis.example_template import ExampleTemplate
    from dpicl_rag.synthesis.examples import synthesise_examples
    from dpicl_rag.synthesis.pools import LabelledDocument
    from dpicl_rag.synthesis.records import Synthesis, SyntheticRecord
    from dpicl_rag.synthesis.template import RecordExample, RecordField, RecordTemplate

_HOMES = {
    "corpus": "synthesise_corpus",
    "corpus_plan": "CorpusPlan",
    "example_template": "ExampleTemplate",
    "examples": "synthesise_examples",
    "pools": "LabelledDocument",
    "records": "Synthesis SyntheticRecord",
    "template": "RecordExample RecordField RecordTemplate",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "CorpusPlan",
    "ExampleTemplate",
    "LabelledDocument",
    "RecordExample",
    "RecordField",
    "RecordTemplate",
    "Synthesis",
    "SyntheticRecord",
    "synthesise_corpus",
    "synthesise_examples",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
