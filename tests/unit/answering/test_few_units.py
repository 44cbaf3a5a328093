"""Settings that leave an answer too few units are told, by public numbers alone."""

from __future__ import annotations

import re
import warnings

import pytest

from dpicl_rag import FewUnitsWarning, PrivateContextLLM
from dpicl_rag.accounting import DIRECT, Stability, epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.answering.plan import units_needed
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.corpora import Corpus
from dpicl_rag.retrieval import (
    CountedRetriever,
    PoissonSampledRetriever,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    Search,
    ThresholdRetriever,
    TopK,
    TopKRetriever,
)
from tests.support.bucket_embedder import BucketEmbedder

pytestmark = pytest.mark.filterwarnings("error:at most about")

QUESTION = "Which letters?"
TOP_K = Stability(added=0, changed=1)


def model() -> SyntheticModel:
    return SyntheticModel(4, lambda text, history: [1.0, 0.0, 0.0, 0.0])


def needed(epsilon: float, stability: Stability = DIRECT, price: float = 0.0) -> int:
    config = PrivacyConfig(epsilon=epsilon, agreement="off")
    return units_needed(answer_plan(config, stability, price).mechanism)


@pytest.fixture
def corpus(tmp_path):
    made = Corpus.create("notes", tmp_path, embedder=BucketEmbedder())
    made.add([f"note {number}" for number in range(3)])
    return made


@pytest.mark.parametrize(("epsilon", "measured"), [(8, 14), (4, 26), (2, 48)])
def test_what_is_needed_is_what_was_measured(epsilon, measured):
    """The table of benchmarks/README.md, "how many documents must agree", counts paid."""
    price = SHARES.counting(epsilon_to_rho(epsilon, 1e-5))
    assert needed(epsilon, price=price) == pytest.approx(measured, rel=0.12)


@pytest.mark.parametrize(("epsilon", "told"), [(8, 66), (4, 123), (2, 229)])
def test_top_k_needs_what_the_guide_says(epsilon, told):
    """docs/langchain.md; 40 agreeing notes at top-k 40 give wrong answers at epsilon 8."""
    assert needed(epsilon, TOP_K) == told


FEW = {
    "top-k": (lambda corpus: TopKRetriever(corpus, 16), {}, 16, "leave top_k"),
    "counted": (lambda corpus: CountedRetriever(TopKRetriever(corpus, 9)), {}, 9, "leave top_k"),
    "private top-k": (lambda corpus: PrivateTopKRetriever(corpus, 5), {}, 5, "raise units"),
    "private threshold": (
        lambda corpus: PrivateThresholdRetriever(corpus, 64, thin_to=4),
        {},
        4,
        "raise units",
    ),
    "sampled": (
        lambda corpus: PoissonSampledRetriever(PrivateThresholdRetriever(corpus, 64), 0.05),
        {},
        3,
        "raise the sampling rate",
    ),
    "units": (lambda corpus: corpus, {"units": 5}, 5, "raise units"),
    "units, by tokens": (lambda corpus: corpus, {"units": 8, "agreement": "off"}, 8, "raise units"),
    "groups": (lambda corpus: ["a", "b"], {"groups": 4}, 4, "leave groups out"),
    "low epsilon": (lambda corpus: corpus, {"epsilon": 0.3}, 64, "raise epsilon"),
}


@pytest.mark.parametrize("name", FEW)
def test_few_units_are_told(name, corpus):
    make, settings, most, remedy = FEW[name]
    llm = PrivateContextLLM(model(), max_tokens=16, **settings)
    with pytest.warns(FewUnitsWarning, match=f"at most about {most} units .*{remedy}"):
        llm.answer(QUESTION, make(corpus))


ENOUGH = {
    "corpus": lambda corpus: corpus,
    # How many these find is private: nothing may be said of it.
    "threshold": lambda corpus: ThresholdRetriever(corpus, 0.99),
    "list": lambda corpus: ["one note"],
    "empty list": lambda corpus: [],
    "large k": lambda corpus: TopKRetriever(corpus, 100),
}


@pytest.mark.parametrize("name", ENOUGH)
def test_what_may_be_enough_is_not(name, corpus):
    PrivateContextLLM(model(), max_tokens=16).answer(QUESTION, ENOUGH[name](corpus))


def test_utilities_with_another_measure_are_not(corpus):
    llm = PrivateContextLLM(model(), max_tokens=16, utility="log_prob")
    llm.answer(QUESTION, TopKRetriever(corpus, 2))


def test_neighbours_are_told_the_same_before_anything_is_searched(tmp_path):
    """A unit more or less, in corpora of 0 to 20 units, changes no word of it."""

    class Unsearched(Search):
        def search(self, question):
            raise AssertionError

    told = set()
    made = Corpus.create("notes", tmp_path, embedder=BucketEmbedder())
    for number in range(21):
        for retriever in (TopKRetriever(made, 16), Unsearched(made, TopK(16))):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    PrivateContextLLM(model(), max_tokens=16).answer(QUESTION, retriever)
                except AssertionError:
                    assert isinstance(retriever, Unsearched)
            told.add(tuple(str(one.message) for one in caught))
        made.add([f"note {number}"])
    ((only,),) = told
    assert re.match("at most about 16 units are read for an answer, and at epsilon 8", only)
