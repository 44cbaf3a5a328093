import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.corpora import Corpus
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import randomness
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.retrieval import (
    UNITS,
    ExactRetriever,
    GivenDocuments,
    NoisyThreshold,
    PoissonSampledRetriever,
    Search,
    Threshold,
    ThresholdRetriever,
    TopK,
    TopKRetriever,
    refuse_approximate,
    retriever_over,
)

NOTES = [
    Document("a refund takes five days", "thread 1", {"owner": "ann"}),
    Document("a refund takes five days or more", "thread 2", {"owner": "bob"}),
    Document("the warehouse opens at eight", "thread 3", {"owner": "ann"}),
]
QUESTION = "a refund takes"


def units(documents: list[Document]) -> list[str]:
    return sorted({document.unit for document in documents})


def test_threshold_keeps_what_is_close(corpus: Corpus) -> None:
    corpus.add(NOTES)
    assert units(ThresholdRetriever(corpus, 0.5).retrieve(QUESTION)) == ["thread 1", "thread 2"]
    assert units(ThresholdRetriever(corpus, -1).retrieve(QUESTION)) == [
        "thread 1",
        "thread 2",
        "thread 3",
    ]


def test_top_k_keeps_the_closest(corpus: Corpus) -> None:
    corpus.add(NOTES)
    assert units(TopKRetriever(corpus, 1).retrieve(QUESTION)) == ["thread 1"]
    assert len(TopKRetriever(corpus, 9).retrieve(QUESTION)) == 3


def test_filter_applies_before_the_scores(corpus: Corpus) -> None:
    corpus.add(NOTES)
    bob = {"owner": "bob"}
    assert units(TopKRetriever(corpus, 1, where=bob).retrieve(QUESTION)) == ["thread 2"]
    assert units(ThresholdRetriever(corpus, -1, where=bob).retrieve(QUESTION)) == ["thread 2"]


def test_documents_carry_their_metadata_and_nothing_of_the_store(corpus: Corpus) -> None:
    corpus.add(NOTES[:1])
    assert ThresholdRetriever(corpus, -1).retrieve(QUESTION) == NOTES[:1]


def test_an_empty_corpus_gives_no_documents(corpus: Corpus) -> None:
    for retriever in (
        ThresholdRetriever(corpus),
        TopKRetriever(corpus, 3),
        PoissonSampledRetriever(TopKRetriever(corpus, 3), 0.5),
        ThresholdRetriever(corpus, where={"owner": "ann"}),
    ):
        assert retriever.search(QUESTION).choose().documents == []


def test_declared_stabilities(corpus: Corpus) -> None:
    assert ThresholdRetriever(corpus).stability == Stability(1, 0)
    assert TopKRetriever(corpus, 1).stability == Stability(0, 1)
    assert PoissonSampledRetriever(TopKRetriever(corpus, 1), 0.5).stability == Stability(0, 1)


@pytest.mark.parametrize("threshold", [-1.1, 1.1, float("nan")])
def test_threshold_out_of_range(corpus: Corpus, threshold: float) -> None:
    with pytest.raises(ConfigurationError, match="threshold must lie between -1 and 1"):
        ThresholdRetriever(corpus, threshold)


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_counts_out_of_range(corpus: Corpus, count: Any) -> None:
    with pytest.raises(ConfigurationError, match="units must be a whole number"):
        TopKRetriever(corpus, count)
    with pytest.raises(ConfigurationError, match="passages_per_unit must be a whole number"):
        ThresholdRetriever(corpus, passages_per_unit=count)


@pytest.mark.parametrize("rate", [0, -0.1, 1.1, float("nan")])
def test_rate_out_of_range(corpus: Corpus, rate: float) -> None:
    with pytest.raises(ConfigurationError, match="rate must be above 0"):
        PoissonSampledRetriever(TopKRetriever(corpus, 1), rate)


class Many(ExactRetriever):
    """A retriever of many units, for the coins."""

    stability = Stability(1, 0)

    def retrieve(self, question: str) -> list[Document]:
        return [Document("", str(unit)) for unit in range(20_000)]


def test_coins_come_at_the_rate_and_anew_each_time() -> None:
    sampled = PoissonSampledRetriever(Many(), 0.3)
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(5)
    first, second = (sampled.search("q").choose(randomness=coins).documents for _ in range(2))
    assert first != second
    # Six standard deviations of Binomial(20000, 0.3) are 389.
    assert abs(len(first) - 6000) < 389
    both = len({d.unit for d in first} & {d.unit for d in second})
    assert abs(both - 1800) < 243


def test_coins_are_the_operating_systems_where_none_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator, sampled = random.Random(5), PoissonSampledRetriever(Many(), 0.3)
    # In the operating system's place stand the numbers of a seed: every coin must be one of them.
    monkeypatch.setattr(
        randomness.secrets, "randbits", lambda bits: int(generator.random() * 2**bits)
    )
    with pytest.warns(NotPrivateWarning):
        same = SeededRandomness(5)
    found = sampled.search("q").choose().documents
    assert found == sampled.search("q").choose(randomness=same).documents


def test_the_retriever_for_what_a_caller_set(corpus: Corpus) -> None:
    default = retriever_over(corpus, units=9, where={"owner": "ann"})
    assert default.bar == NoisyThreshold(9)
    assert (default.thin_to, default.sigma, default.where) == (None, None, {"owner": "ann"})
    assert retriever_over(corpus).bar == NoisyThreshold(UNITS)
    assert retriever_over(corpus, threshold=0).bar == Threshold(0)
    top = retriever_over(corpus, top_k=2, where={"owner": "ann"})
    assert (top.bar, top.where) == (TopK(2), {"owner": "ann"})
    with pytest.raises(ConfigurationError, match="give a threshold or top_k, not both"):
        retriever_over(corpus, threshold=0, top_k=2)


def test_an_approximate_search_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigurationError, match=r"Milvus cannot .* approximate .*flat FAISS are"):
        refuse_approximate("Milvus")


def test_representations_are_public(corpus: Corpus) -> None:
    corpus.add(NOTES)
    threshold = ThresholdRetriever(corpus, 0.4, where={"owner": "ann"})
    sampled = PoissonSampledRetriever(TopKRetriever(corpus, 2), 0.5)
    assert repr([corpus, threshold, sampled]) == (
        "[Corpus('mail'), Search(source=Corpus('mail'), bar=Threshold(threshold=0.4), "
        "passages_per_unit=None, counted=False, sigma=None, thin_to=None, rate=1.0), "
        "Search(source=Corpus('mail'), bar=TopK(units=2), passages_per_unit=None, "
        "counted=False, sigma=None, thin_to=None, rate=0.5)]"
    )


def test_without_a_bar_every_unit_is_found(corpus: Corpus) -> None:
    corpus.add(NOTES)
    for question in (QUESTION, "nothing like it"):
        assert len(Search(corpus).retrieve(question)) == len(NOTES)


def test_what_noise_or_coins_decide_is_drawn(corpus: Corpus) -> None:
    for search in (
        retriever_over(corpus),
        Search(corpus, counted=True),
        Search(corpus, Threshold(), thin_to=3),
        Search(corpus, TopK(2), rate=0.5),
    ):
        with pytest.raises(ConfigurationError, match=r"take search\(question\)\.choose\(\)"):
            search.retrieve(QUESTION)


@pytest.mark.parametrize(
    "more", [{"bar": Threshold()}, {"where": {"owner": "ann"}}, {"passages_per_unit": 1}]
)
def test_a_retriever_has_no_scores_for_a_bar(more: Any) -> None:
    with pytest.raises(ConfigurationError, match="need the vectors of a corpus"):
        Search(GivenDocuments(NOTES), **more)


def test_a_search_shows_nothing_that_a_retriever_of_a_user_would_show() -> None:
    @dataclass
    class Notes(ExactRetriever):
        texts: Sequence[str]
        stability = Stability(added=1, changed=0)

        def retrieve(self, question: str) -> list[Document]:
            return [Document(text, text) for text in self.texts]

    search = Search(Notes(["a secret"]), thin_to=3)
    assert repr(search) == (
        "Search(source=Notes, bar=Everything(), passages_per_unit=None, "
        "counted=False, sigma=None, thin_to=3, rate=1.0)"
    )
    assert "secret" not in repr(Search(search, rate=0.5))
