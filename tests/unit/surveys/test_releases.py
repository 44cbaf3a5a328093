"""A kind that is left out is told from the question alone, and costs what its plan says."""

from __future__ import annotations

import pytest

from dpicl_rag import Corpus, Document, Ledger, PrivateContextLLM
from dpicl_rag.accounting import Stability
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.requests import Request
from dpicl_rag.retrieval import GivenDocuments, PrivateThresholdRetriever, ThresholdRetriever
from dpicl_rag.retrieval.retrievers import whole_of
from dpicl_rag.surveys import tallies
from tests.support.readings import LABELLING, SEEING

COUNT = "How many tenants complain about the lift?"
TALLY = "Are there more complaints about the lift or about the heating?"
SURVEY = "What do people complain about?"
PERSON = "What did Ada write on Monday?"
FACT = "When does the laundry open?"
KINDS = {COUNT: "count", TALLY: "tally", SURVEY: "survey", PERSON: "person", FACT: "answer"}
UNITS = [Document(f"says a {at}", f"unit {at}") for at in range(6)]


@pytest.fixture(autouse=True)
def a_model_that_can_count(monkeypatch):
    monkeypatch.setattr(tallies, "LABELS", ("a", "b"))
    monkeypatch.setattr(tallies, "yes_or_no_of", lambda _: SEEING)
    monkeypatch.setattr(tallies, "labelling_of", lambda _: LABELLING)


def a_model(**more):
    def speech(text, drawn):
        return [2.0 * (letter in text.split()) for letter in "abcdefghijklmnopqrstuvwxyz"]

    return PrivateContextLLM(SyntheticModel(26, speech), corpus="mail", **more)


class Unread(list):
    """Documents at which nobody may look."""

    def __iter__(self):
        raise AssertionError("looked at")


@pytest.mark.parametrize("question", KINDS)
def test_neighbours_get_the_same_kind_for_the_same_price(question, tmp_path):
    llm, asked = a_model(ledger=Ledger(tmp_path / "ledger")), Request.of(None, question=question)
    corpora = (UNITS, UNITS[:-1], [*UNITS[:-1], Document("Ada says b", "ada")], [])
    told = [llm.plan(one, asked).as_dict() for one in corpora]
    assert llm.settled(asked).kind == KINDS[question]
    assert told == [llm.plan(UNITS, llm.settled(asked)).as_dict()] * len(corpora)
    assert llm.plan(Unread(), asked).as_dict() == told[0]


def test_one_person_is_told_before_anything_is_paid_and_no_document_is_looked_at(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    for found in (
        a_model(ledger=ledger).ask(PERSON, Unread()),
        a_model(ledger=ledger).begin(Request.of(None, question=PERSON), Unread()).whole(),
    ):
        assert (found.kind, found.by, found.supported) == ("person", "public", False)
        assert (found.epsilon, found.delta, found.rho) == (0.0, 0.0, 0.0)
    assert not [one for one in ledger.status() if one.spent]
    assert a_model().ask(PERSON, UNITS, kind="answer").kind == "answer"


def test_numbers_at_a_door_of_text_cost_what_the_plan_and_the_ledger_say(tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    llm, asked = a_model(ledger=ledger), Request.of(None, question=COUNT, max_tokens=9, stop=(".",))
    answer = llm.begin(asked, UNITS).whole()
    plan = llm.plan(UNITS, asked)
    [spent] = [one.spent for one in ledger.status() if (one.kind, one.name) == ("corpus", "mail")]
    assert answer.rho == pytest.approx(plan.rho) == pytest.approx(spent)
    assert (answer.kind, answer.by, answer.question) == ("count", "counts", COUNT)
    assert set(answer.numbers) == {"yes", "asked", "read_right", "complete"}
    assert str(answer.numbers["yes"]["units"]) in answer.text


def test_the_kind_of_a_follow_up_is_that_of_the_whole_question():
    turns = (("user", COUNT), ("assistant", "About 9 say yes."))
    asked = a_model().settled(Request.of(None, question="And about the heating?", turns=turns))
    assert asked.kind == "count"
    assert asked.question == "How many tenants complain about the heating?"


def test_fields_of_one_kind_settle_it_and_others_are_refused():
    assert Request.of(None, question=FACT, labels=("a", "b")).settled().kind == "tally"
    assert Request.of(None, question=FACT, votes=2).settled().kind == "survey"
    assert Request.of(None, question=COUNT, sample=0.5).settled().sample == 0.5
    with pytest.raises(ConfigurationError, match="sample: the kind answer has none"):
        Request.of(None, question=FACT, sample=0.5).settled()


def test_a_count_is_of_all_units_that_a_search_looks_in(tmp_path):
    with Corpus.create("mail", tmp_path) as corpus:
        assert whole_of(PrivateThresholdRetriever(corpus, 3, thin_to=3)) is corpus
        near = ThresholdRetriever(corpus, 0.2)
        assert whole_of(near) is near
        within = whole_of(PrivateThresholdRetriever(corpus, where={"year": 2026}))
        assert within.where == {"year": 2026}
    cut = GivenDocuments(UNITS, Stability(added=0, changed=1))
    with pytest.raises(ConfigurationError, match="a part that a search has found"):
        a_model().ask(COUNT, cut)
