"""Surveys of lists, corpora and collections: themes, prices, and what is refused."""

import asyncio

import numpy as np
import pytest

from dpicl_rag import (
    BudgetExceededError,
    ConfigurationError,
    Corpus,
    Document,
    Ledger,
    MissingDocumentsError,
    PrivateContextLLM,
    Request,
    ThresholdRetriever,
)
from dpicl_rag.accounting import Stability, epsilon_to_rho
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.retrieval.retrievers import GivenDocuments
from dpicl_rag.surveys.count_plans import survey_plan
from tests.support.scored_units import ScoredUnits

WORDS = ("dog", "cat", "sun", "rain")


class Letters:
    """Words are axes; a text lies between those that it names."""

    fingerprint = "letters"

    def embed(self, texts, *, query=False):
        rows = np.array([[float(word in text) for word in WORDS] for text in texts])
        rows = rows.reshape(len(texts), len(WORDS))
        return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).astype("f4")


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    for room in ("surveying", "tallies"):
        monkeypatch.setattr(f"dpicl_rag.surveys.{room}.SentenceTransformerEmbedder", Letters)


@pytest.fixture
def llm(tiny_model):
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(1)
    return PrivateContextLLM(tiny_model, epsilon=4.0, randomness=coins)


def pets(dogs=60, cats=40):
    many = {"dog": dogs, "cat": cats}
    return [Document(f"a {word} {n}", f"{word}{n}") for word in many for n in range(many[word])]


def survey(llm, documents, question=None, **options):
    return llm.survey(question, documents, vocabulary=WORDS, votes=1, **options)


def test_themes_of_many_units_are_named_and_counted(llm):
    found = survey(llm, pets())
    assert [theme.name for theme in found.themes] == ["dog", "cat"]
    for theme, true in zip(found.themes, (60, 40), strict=True):
        assert theme.units.low <= true <= theme.units.high
        assert set(theme.words) == {theme.name}
    assert found.total.low <= 100 <= found.total.high
    assert found.text.startswith(f"About {found.themes[0].units.units} of ")
    assert found.shares["dog"].low <= 0.6 <= found.shares["dog"].high
    assert "dog" in found._repr_html_()
    assert found.rho == epsilon_to_rho(4.0, 1e-5)


def test_of_few_units_nothing_is_seen_and_it_says_how_few(llm):
    found = survey(llm, pets(1, 1))
    assert found.themes == ()
    assert found.text.endswith(
        f"Themes of fewer than about {found.smallest} documents were not seen."
    )
    assert found.smallest == survey_plan(llm.config, 4, 1).mechanism.least
    assert survey(llm, []).themes == ()


def test_a_corpus_and_a_collection_are_surveyed_by_their_stored_vectors(llm, tmp_path):
    import chromadb

    with Ledger(tmp_path / "l.sqlite") as ledger:
        corpus = Corpus.create("pets", tmp_path / "corpora", embedder=Letters())
        corpus.add(pets(), ledger=ledger)
    client = chromadb.PersistentClient(str(tmp_path / "chroma"))
    collection = client.get_or_create_collection("pets", embedding_function=None)
    texts = [document.text for document in pets()]
    units = [document.unit for document in pets()]
    collection.add(
        ids=units,
        documents=texts,
        embeddings=Letters().embed(texts),
        metadatas=[{"owner": unit} for unit in units],
    )
    other = Corpus.from_collection(collection, unit_field="owner", embedder=Letters())
    for source in (corpus, other):
        assert [theme.name for theme in survey(llm, source).themes] == ["dog", "cat"]
        source.close()


def test_a_unit_of_many_passages_votes_once(llm):
    shouting = [Document(f"sun {n}", "one") for n in range(100)]
    assert [theme.name for theme in survey(llm, [*pets(), *shouting]).themes] == ["dog", "cat"]


def test_a_question_is_asked_of_the_nearest_passage_of_each_unit(llm):
    both = [Document(f"sun {n}", f"u{n}") for n in range(60)]
    both += [Document("a dog and a cat", f"u{n}") for n in range(60)]
    found = survey(llm, both, "what of the cat?")
    # "cat" says nothing beyond the question.
    assert [theme.name for theme in found.themes] == ["dog"]
    assert survey(llm, pets(), "what of the rain?", threshold=0.5).total.low == 0


def test_the_ledger_is_charged_once_and_refuses(tiny_model, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        price = epsilon_to_rho(4.0, 1e-5)
        ledger.set_budget(corpus="default", rho=1.5 * price)
        llm = PrivateContextLLM(tiny_model, epsilon=4.0, ledger=ledger)
        survey(llm, pets())
        assert ledger.status()[0].spent == pytest.approx(price)
        with pytest.raises(BudgetExceededError):
            survey(llm, pets())


def in_corpus(folder):
    corpus = Corpus.create("default", path=folder, embedder=Letters())
    corpus.add(pets())
    return corpus


ASKED = {
    "survey": survey,
    "summary": lambda llm, documents: llm.summarise(None, documents, vocabulary=WORDS),
    "tally": lambda llm, documents: llm.tally("", WORDS, documents, by="vectors"),
    "column": lambda llm, documents: llm.run(
        Request.of("column", column="pet", labels=("dog", "cat")),
        [Document(one.text, one.unit, {"pet": one.unit[:3]}) for one in pets()],
    ),
}


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("stored", [False, True])
def test_after_answers_those_are_counted_who_can_still_pay(tiny_model, tmp_path, kind, stored):
    documents = in_corpus(tmp_path / "corpora") if stored else pets()
    spent = [f"dog{n}" for n in range(30)]
    with Ledger(tmp_path / "l.sqlite") as ledger:
        price = epsilon_to_rho(4.0, 1e-5)
        ledger.set_budget(corpus="default", rho=1.5 * price)
        with ledger.reserve(corpus="default", rho=price, units=spent) as held:
            held.commit(price, [price] * len(spent))
        llm = PrivateContextLLM(tiny_model, epsilon=4.0, ledger=ledger)
        found = ASKED[kind](llm, documents)
        assert found.total.low <= 70 <= found.total.high < 100
        assert not found.complete
        assert found.text.endswith("Units that have spent their budget are not counted.")
        with ledger.reserve(corpus="default", rho=price, units=["dog0", "dog59", "new"]) as held:
            left = held.limits
        assert left == pytest.approx([price / 2, price / 2, price])


def test_as_long_as_all_can_pay_nobody_is_left_out(tiny_model, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        price = epsilon_to_rho(4.0, 1e-5)
        ledger.set_budget(corpus="default", rho=3 * price, unit_rho=price)
        with ledger.reserve(corpus="default", rho=price, units=["dog0"]) as held:
            held.commit(price, [price])
        found = survey(PrivateContextLLM(tiny_model, epsilon=4.0, ledger=ledger), pets())
        assert found.complete
        assert "not counted" not in found.text
        assert found.total.low <= 100 <= found.total.high


def test_the_twin_does_the_same(llm):
    found = asyncio.run(llm.asurvey(None, pets(), vocabulary=WORDS, votes=1))
    assert len(found.themes) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocabulary": ()}, "fewer words"),
        ({"vocabulary": ("a", "a")}, "twice"),
        ({"vocabulary": WORDS, "votes": 4}, "fewer words"),
        ({"vocabulary": WORDS, "votes": 0}, "votes"),
        ({"vocabulary": WORDS, "threshold": 0.5}, "give one"),
    ],
)
def test_what_cannot_be_surveyed_is_said_before_anything_is_paid(llm, options, message):
    with pytest.raises(ConfigurationError, match=message):
        llm.survey(None, pets(2, 2), **{"votes": 1, **options})


def test_a_search_finds_a_part_and_is_refused(llm, tiny_model):
    with pytest.raises(ConfigurationError, match="all units are surveyed"):
        survey(llm, ThresholdRetriever(ScoredUnits({"u": [0.9]}), 0.5))
    cut = GivenDocuments(pets(), Stability(added=0, changed=3))
    for ask in (survey, lambda llm, given: llm.tally("", WORDS, given, by="vectors")):
        with pytest.raises(ConfigurationError, match="all units are surveyed"):
            ask(llm, cut)
    with pytest.raises(MissingDocumentsError):
        survey(llm, None)
    with pytest.raises(ConfigurationError, match="leave"):
        survey(PrivateContextLLM(tiny_model, groups=3), pets())


def test_a_tally_by_vectors_counts_the_nearest_labels(llm):
    found = llm.tally("", WORDS, pets(), by="vectors")
    for word, true in (("dog", 60), ("cat", 40), ("sun", 0)):
        assert found.counts[word].low <= true <= found.counts[word].high
    assert found.rho == epsilon_to_rho(4.0, 1e-5)
    both = llm.tally(
        "", WORDS, [Document("a dog and a cat", f"u{n}") for n in range(30)], by="vectors", most=2
    )
    assert both.counts["dog"].low <= 30 <= both.counts["dog"].high
    assert both.counts["cat"].low <= 30 <= both.counts["cat"].high


def test_a_sample_is_scaled_and_its_intervals_are_wider(llm):
    whole, part = (survey(llm, pets(600, 400), sample=rate) for rate in (1.0, 0.25))
    assert [theme.name for theme in part.themes] == ["dog", "cat"]
    for theme, wide, true in zip(whole.themes, part.themes, (600, 400), strict=True):
        assert wide.units.low <= true <= wide.units.high
        assert wide.units.high - wide.units.low > 2 * (theme.units.high - theme.units.low)
    assert part.total.low <= 1000 <= part.total.high
    assert part.smallest == 4 * whole.smallest
    tally = llm.tally("", WORDS, pets(600, 400), by="vectors", sample=0.25)
    assert tally.counts["dog"].low <= 600 <= tally.counts["dog"].high
    with pytest.raises(ConfigurationError, match="sample: Input should be greater than or"):
        survey(llm, pets(1, 1), sample=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": ["dog"]}, "two labels"),
        ({"labels": "dog"}, "not one string"),
        ({"labels": ["dog", "dog"]}, "twice"),
        ({"most": 9}, "9 of 4"),
        ({"sample": 0.0}, "sample: Input should be greater than or equal to"),
        ({"by": "hand"}, "'model' or 'vectors'"),
    ],
)
def test_what_vectors_cannot_tally_is_said_before_anything_is_paid(llm, options, message):
    given = {"labels": WORDS, "by": "vectors", **options}
    with pytest.raises(ConfigurationError, match=message):
        llm.tally("", given.pop("labels"), pets(2, 2), **given)
