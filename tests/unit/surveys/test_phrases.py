"""Surveys by a reader: units vote for the words nearest to the phrases that it says of them."""

import pytest

from dpicl_rag import ConfigurationError, EngineUnavailableError, PrivateContextLLM
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.language_models.readers.notes import phrases
from dpicl_rag.requests import Request
from dpicl_rag.surveys.count_plans import survey_plan
from dpicl_rag.surveys.paying_units import found_taking_part
from dpicl_rag.surveys.surveying import phrase_vectors, units_search
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scored_units import ScoredUnits
from tests.support.scripted_reader import ScriptedReader, document_of
from tests.unit.surveys.test_surveying import Letters, pets, survey


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    monkeypatch.setattr("dpicl_rag.surveys.surveying.SentenceTransformerEmbedder", Letters)


@pytest.fixture
def alone():
    def make(reply=lambda prompt: "sun" if "cat" in document_of(prompt) else "a dog", **settings):
        reader = ScriptedReader(reply)
        given = {"epsilon": 4.0, "agreement": "only", **settings}
        return reader, PrivateContextLLM(reader=reader, **given)

    return make


def test_units_are_what_the_reader_says(alone):
    reader, llm = alone()
    found = survey(llm, pets(), by="model")
    assert [theme.name for theme in found.themes] == ["dog", "sun"]
    for theme, true in zip(found.themes, (60, 40), strict=True):
        assert theme.units.low <= true <= theme.units.high
    assert len(reader.asked) == 100
    assert all("What is the document about?" in prompt for prompt in reader.asked)


def test_a_question_is_asked_of_each_unit(alone):
    reader, llm = alone()
    survey(llm, pets(), "Which of the rain?", by="model")
    assert all("Which of the rain?" in prompt for prompt in reader.asked)


def test_by_vectors_it_asks_nobody(alone):
    reader, llm = alone()
    survey(llm, pets())
    assert not reader.asked


def test_units_that_say_nothing_are_in_no_theme(alone):
    _, llm = alone(lambda prompt: "dog" if "dog" in document_of(prompt) else "NOTHING")
    found = survey(llm, pets(), by="model")
    assert [theme.name for theme in found.themes] == ["dog"]
    assert found.total.low <= 60 <= found.total.high < 100


def test_a_limit_of_calls_and_a_sample_widen_intervals_and_stay_true(alone):
    reader, llm = alone(max_calls=60, epsilon=8.0)
    found = survey(llm, pets(120, 80), by="model")
    assert 35 < len(reader.asked) < 85
    assert found.total.low <= 200 <= found.total.high
    reader.asked.clear()
    found = survey(llm, pets(120, 80), by="model", sample=0.5)
    assert 10 < len(reader.asked) < 50
    assert found.total.low <= 200 <= found.total.high


def test_the_same_survey_again_asks_nobody(alone, tmp_path):
    with AnswerMemory(tmp_path / "memory", "pets", embedder=BucketEmbedder()) as memory:
        reader, llm = alone(corpus="pets", knowledge=memory)
        survey(llm, pets(), by="model")
        reader.asked.clear()
        assert survey(llm, pets(), by="model").from_memory
        assert not reader.asked
        assert not survey(llm, pets()).from_memory  # by vectors it is another one


def test_a_reader_that_does_not_answer_ends_it(alone):
    def down(prompt):
        raise EngineUnavailableError

    _, llm = alone(down)
    with pytest.raises(EngineUnavailableError):
        survey(llm, pets(), by="model")


def test_what_a_reader_cannot_survey_is_refused(alone, tiny_model):
    _, llm = alone()
    with pytest.raises(ConfigurationError, match="or by a reader"):
        survey(PrivateContextLLM(tiny_model), pets(), by="model")
    with pytest.raises(ConfigurationError, match="needs the vectors of a corpus"):
        survey(llm, pets(), "dogs?", by="model", threshold=0.3)
    search = llm._run(Request.of("answer")).search(ScoredUnits({"a": [0.9]}))
    with pytest.raises(ConfigurationError, match="all units are surveyed"):
        survey(llm, search, by="model")


def test_units_below_a_threshold_are_not_read(alone):
    reader, llm = alone()
    source = ScoredUnits({f"u{n}": [0.9 if n < 30 else 0.1] for n in range(50)})
    search = units_search(source, llm.config, most=None, threshold=0.5)
    run = llm._run(Request.of("survey", question="dogs?", by="model"))
    plan = survey_plan(llm.config, 3, 1)
    with found_taking_part(plan, source, run, search, "dogs?") as (_, units, rate):
        vectors = phrase_vectors(units, "dogs?", 1, reader, run, Letters())
    assert (len(reader.asked), len(vectors.unit), rate) == (30, 30, 1.0)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "late delivery, broken box; rude staff, more",
            ("late delivery", "broken box", "rude staff"),
        ),
        ("one.", ("one",)),
        ("one, one , two", ("one", "two")),
        (" , ;", ()),
        ("NOTHING", ()),
        ("", ()),
    ],
)
def test_phrases_stand_between_commas(said, kept):
    assert phrases(ScriptedReader(lambda _: said), "q?", 3)([("d",)], None) == [kept]
