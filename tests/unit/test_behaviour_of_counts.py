"""Counts, tallies, surveys and labels of pictures are drawn, charged and told as they were.

behaviour_of_counts.json has a digest of each case, made by
``python -m tests.unit.test_behaviour_of_counts``; see `tests.unit.test_behaviour` for when.
"""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from tempfile import TemporaryDirectory
from typing import Any, get_args
from unittest import mock

import numpy as np
import pytest
import torch

from dpicl_rag import (
    AnswerMemory,
    Corpus,
    Document,
    Ledger,
    PrivateContextLLM,
    ThresholdRetriever,
    TopKRetriever,
)
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.configuration import ImageMethodName
from dpicl_rag.errors import DPICLError
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from dpicl_rag.retrieval import PoissonSampledRetriever, PrivateThresholdRetriever
from dpicl_rag.surveys import tallies
from dpicl_rag.vision import classify_image
from dpicl_research.vision_prototype import VisionPrototype
from tests.support import digests
from tests.support.images import ColourNetwork, an_image
from tests.support.readings import LABELLING, SEEING
from tests.support.scripted_reader import ScriptedReader, document_of

RECORDED = Path(__file__).with_name("behaviour_of_counts.json")
QUESTION = "Is it about a refund?"
WORDS = ("refund", "praise", "parcel", "kettle", "garden", "music")
LABELS = ("refund", "praise", "parcel")
UNITS = [f"unit {at}" for at in range(90)]
TEXTS = [f"{('refund', 'refund', 'praise', 'parcel')[at % 4]} {at}" for at in range(100)]
"""Ten units have two of them."""
SIZE = 26


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Letters that units like, the same wherever Python runs: what it is about, and yes or no."""
    about = [word for word in LABELS if word in text]
    if not about:
        return [0.0] * SIZE
    dice = random.Random(f"{text}|{history}")
    likes = {word[-1] for word in (*about, "yes" if "refund" in text else "no")}
    return [dice.gauss(0, 1) + 2 * (letter in likes) for letter in ascii_lowercase]


class Letters:
    """Words are axes; a text lies between those that it names."""

    fingerprint = "letters"
    dimension = len(WORDS)

    def embed(self, texts, *, query=False):
        rows = np.array([[0.05 + (word in text) for word in WORDS] for text in texts])
        rows = rows.reshape(len(texts), len(WORDS))
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("f4")


MODEL = SyntheticModel(SIZE, speech, frozenset({SIZE - 1}))
DOCUMENTS = [Document(text, UNITS[at % 90]) for at, text in enumerate(TEXTS)]


def read_out(prompt: str) -> str:
    """A label, yes or no, or phrases; of some documents nothing that is asked for."""
    if "Is it" in prompt and "praise" not in prompt:
        return "yes" if "refund" in document_of(prompt) else "no"
    return next((f"{word}, music" for word in LABELS if word in document_of(prompt)), "")


READER = ScriptedReader(read_out)
SEARCHES: dict[str, Callable[[Corpus], Any]] = {
    "corpus": lambda corpus: corpus,
    "list": lambda corpus: DOCUMENTS,
    "nothing": lambda corpus: [],
    "threshold": lambda corpus: ThresholdRetriever(corpus, 0.6),
    "top-k": lambda corpus: TopKRetriever(corpus, 30),
    "poisson": lambda corpus: PoissonSampledRetriever(ThresholdRetriever(corpus, 0.1), 0.7),
    "private-threshold": lambda corpus: PrivateThresholdRetriever(corpus, 30, thin_to=20),
}


@contextmanager
def a_corpus(folder: str) -> Iterator[Corpus]:
    with Corpus.create("notes", Path(folder, "store"), embedder=Letters()) as corpus:
        corpus.add(DOCUMENTS)
        yield corpus


@contextmanager
def a_ledger(folder: str, budget: dict[str, Any] | None) -> Iterator[Ledger]:
    with Ledger(Path(folder, "l.sqlite")) as ledger:
        ledger.set_budget(corpus="notes", **(budget or {"rho": 20.0}))
        yield ledger


def told(ask: Callable[[], Any]) -> list[object]:
    """All that a result says, or why there is none."""
    try:
        found = ask()
    except DPICLError as error:
        return ["refused", type(error).__name__, str(error)]
    return [found.as_dict(), found._repr_html_(), found.question]


def counted(
    verb: str,
    *given: Any,
    search: str = "corpus",
    remembers: bool = False,
    budget: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    times: int = 1,
    **how: Any,
) -> list[object]:
    """What is counted, so many times, how far it was read, and what the ledger has then."""
    parts: list[float] = []
    with TemporaryDirectory() as folder, a_ledger(folder, budget) as ledger:
        with (
            a_corpus(folder) as corpus,
            AnswerMemory(Path(folder, "m.sqlite"), "notes", embedder=Letters()) as memory,
        ):
            known = {"knowledge": memory} if remembers else {}
            given_settings = {"ledger": ledger, "corpus": "notes", **known, **(settings or {})}
            llm = PrivateContextLLM(MODEL, seed=7, **given_settings)

            def ask() -> Any:
                documents = SEARCHES[search](corpus)
                counting = getattr(llm, verb)
                found = counting(
                    *given, documents, on_progress=lambda done, *_: parts.append(done), **how
                )
                return asyncio.run(found) if verb.startswith("a") else found

            said = [told(ask) for _ in range(times)]
        return [said, sorted({round(part, 6) for part in parts}), booked(ledger)]


def pictures() -> list[Document]:
    reds = [Document("dax", f"unit {n}", image=an_image((250 - n, 9 * n, 0))) for n in range(9)]
    teals = [
        Document("blicket", f"unit {9 + n}", image=an_image((0, 250 - n, 255))) for n in range(9)
    ]
    return [*reds, *teals, Document("dax", "unit 0", image=b"no picture")]


def labelled(budget: dict[str, Any] | None = None, **settings: Any) -> list[object]:
    """Labels of pictures that are between two, and what the ledger has then."""
    found: list[object] = []
    with TemporaryDirectory() as folder, a_ledger(folder, budget or {"rho": 90.0}) as ledger:
        given = {"model": VisionPrototype(ColourNetwork()), "corpus": "notes", "ledger": ledger}
        for seed, red in enumerate((250, 150, 128, 100)):
            query = an_image((red, 127, 255 - red))
            try:
                label = classify_image(
                    *(query, pictures(), ("dax", "blicket", "wug")),
                    **{**given, "seed": seed, **settings},
                )
            except DPICLError as error:
                found += ["refused", type(error).__name__, str(error)]
            else:
                found += [label.label, label.epsilon, label.delta, label.rho, label._repr_html_()]
        return [found, booked(ledger)]


def booked(ledger: Ledger) -> dict[str, object]:
    return digests.booked(ledger, "notes", UNITS)


COUNT, TALLY, SURVEY = ("count", QUESTION), ("tally", QUESTION, LABELS), ("survey", None)
ASKED: dict[str, tuple[Any, ...]] = {"count": COUNT, "tally": TALLY, "survey": SURVEY}
ANYHOW: dict[str, dict[str, Any]] = {
    "sampled": {"sample": 0.4},
    "again": {"remembers": True, "times": 2},
    "fresh": {"remembers": True, "times": 2, "fresh": True},
    "epsilon-2": {"settings": {"epsilon": 2.0}},
    "fixed": {"settings": {"accounting": "fixed"}},
    "individual": {"settings": {"accounting": "individual"}},
    "replace": {"settings": {"adjacency": "replace_one"}},
    "groups": {"settings": {"groups": 4}},
    "text": {"settings": {"unit_tokens": 8}},
    "caller": {"settings": {"caller": "ann"}},
    "free": {"settings": {"ledger": None}},
    "read": {"settings": {"reader": READER}},
    "thinned": {"settings": {"reader": READER, "max_calls": 20}},
    "poor": {"budget": {"rho": 1e-3}},
    "short": {"budget": {"rho": 1.6}, "times": 2},
    "nobody": {"sample": 0.0},
}
TALLIED: dict[str, dict[str, Any]] = {
    "most-2": {"most": 2},
    "most-4": {"most": 4},
    "sampled-most-2": {"most": 2, "sample": 0.5},
    "vectors": {"by": "vectors"},
    "vectors-most-2": {"by": "vectors", "most": 2},
    "vectors-sampled": {"by": "vectors", "sample": 0.5},
    "vectors-again": {"by": "vectors", "remembers": True, "times": 2},
    "vectors-list": {"by": "vectors", "search": "threshold"},
    "nobody": {"by": "nobody"},
}
SURVEYED: dict[str, dict[str, Any]] = {
    "votes-1": {"votes": 1},
    "votes-1-sampled": {"votes": 1, "sample": 0.5},
    "votes-9": {"votes": 9},
    "model": {"by": "model", "settings": {"reader": READER}},
    "model-sampled": {"by": "model", "settings": {"reader": READER}, "sample": 0.5},
    "model-thinned": {"by": "model", "settings": {"reader": READER, "max_calls": 30}},
    "nobody": {"by": "model"},
}


def cases() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    every: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {}
    for verb, given in ASKED.items():
        more = {"vocabulary": WORDS} if verb == "survey" else {}
        for search in SEARCHES:
            if verb == "survey" and search in ("list", "nothing"):
                continue  # a real model embeds the texts of a list
            every[f"{verb} of {search}"] = (counted, given, {"search": search, **more})
        for name, how in ANYHOW.items():
            every[f"{verb} {name}"] = (counted, given, {**how, **more})
        later = (f"a{verb}", *given[1:])
        every[f"{verb} async"] = (counted, later, {**more, "sample": 0.6})
    for name, how in TALLIED.items():
        every[f"tally {name}"] = (counted, TALLY, how)
    every["tally one"] = (counted, ("tally", QUESTION, ("refund",)), {})
    every["tally string"] = (counted, ("tally", QUESTION, "refund"), {})
    for name, how in SURVEYED.items():
        every[f"survey {name}"] = (counted, SURVEY, {"vocabulary": WORDS, **how})
    about = ("survey", "What about the parcel?")
    for name, how in {"question": {}, "threshold": {"threshold": 0.5}}.items():
        every[f"survey {name}"] = (counted, about, {"vocabulary": WORDS, "votes": 1, **how})
    every["survey nowhere"] = (counted, SURVEY, {"vocabulary": WORDS, "threshold": 0.5})
    for method in get_args(ImageMethodName):
        for name, settings in {
            "alone": {},
            "groups": {"groups": 4},
            "replace": {"adjacency": "replace_one"},
            "epsilon-1": {"epsilon": 1.0},
        }.items():
            every[f"picture {method} {name}"] = (labelled, (), {"method": method, **settings})
    every["picture default"] = (labelled, (), {})
    every["picture caller"] = (labelled, (), {"caller": "ann"})
    every["picture poor"] = (labelled, (), {"budget": {"rho": 1e-3}})
    return every


def found(name: str) -> object:
    run, given, settings = cases()[name]
    with (
        warnings.catch_warnings(),
        mock.patch.object(tallies, "yes_or_no_of", return_value=SEEING),
        mock.patch.object(tallies, "labelling_of", return_value=LABELLING),
    ):
        warnings.simplefilter("ignore", NotPrivateWarning)
        return run(*given, **settings)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", sorted(cases()))
def test_what_is_counted_is_what_it_was(name):
    assert digests.is_as_recorded(digests.digest(found(name)), digests.recorded(RECORDED)[name]), (
        found(name)
    )


def test_nothing_else_is_recorded():
    assert digests.recorded(RECORDED).keys() == cases().keys()


if __name__ == "__main__":
    torch.set_num_threads(1)
    digests.record(RECORDED, {name: digests.digest(found(name)) for name in cases()})
