"""Questions about what they describe are answered in steps, and each step is paid for."""

import pytest

from dpicl_rag import Document, Ledger, PrivateContextLLM
from dpicl_rag.answering.steps import answered_in_steps
from dpicl_rag.errors import BudgetExceededError, EngineUnavailableError, StoppedError
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.requests import Request
from dpicl_rag.results import UNSUPPORTED
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scripted_reader import ScriptedReader, document_of

QUESTION = "When does the person in charge of invoices have office hours?"
FIRST = "Who is in charge of invoices?"
SECOND = "When does Weber have office hours?"


def reply(prompt):
    document = document_of(prompt)
    if FIRST in prompt:
        return document if "charge" in document else "NOTHING"
    return document if SECOND in prompt and "hours" in document else "NOTHING"


def documents(charge=30, hours=30):
    said = [Document("Weber is in charge of invoices.", f"a{n}") for n in range(charge)]
    return said + [Document("Weber has office hours at 9:30.", f"b{n}") for n in range(hours)]


def llm(reply=reply, **given):
    reader = ScriptedReader(reply)
    return reader, PrivateContextLLM(reader=reader, agreement="only", epsilon=8.0, **given)


def test_what_is_described_is_asked_for_first_and_both_are_charged(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        _, asked = llm(ledger=ledger, corpus="mail", accounting="fixed")
        plan = asked.plan(documents(), Request.of("answer", question=QUESTION))
        answer = asked.answer(QUESTION, documents())
        (spent,) = (one.spent for one in ledger.status() if one.name == "mail")
    assert "9:30" in answer.text
    assert (answer.question, answer.supported) == (SECOND, True)
    assert (answer.epsilon, answer.delta) == (plan.epsilon, plan.delta) == (16.0, 2e-5)
    assert plan.steps == (FIRST, SECOND.replace("Weber", "X"))
    assert sum(part.rho for part in plan.parts) == pytest.approx(plan.rho)
    assert 0 < answer.rho <= plan.rho
    assert answer.rho == pytest.approx(spent, rel=1e-6)


@pytest.mark.parametrize("unit", ["Mr Ode is in charge of invoices.", "Weber: 9:30 to 10."])
def test_a_neighbour_moves_each_step_by_its_own_unit_alone(unit):
    """The second question follows from what was released; documents have no other way to it."""
    asked = []
    for extra in ([], [Document(unit, "c")]):
        reader, model = llm()
        model.answer(QUESTION, [*documents(), *extra])
        asked.append({prompt for prompt in reader.asked if "Document:" in prompt})
    without, with_it = asked
    assert without <= with_it
    assert {unit} >= {document_of(prompt) for prompt in with_it - without}


def test_where_nobody_knows_the_first_it_is_asked_as_it_is():
    _, asked = llm(lambda prompt: "At 9:30." if QUESTION in prompt else "NOTHING")
    answer = asked.answer(QUESTION, documents())
    assert "9:30" in answer.text
    assert (answer.question, answer.epsilon) == (QUESTION, 16.0)


def test_steps_that_were_answered_before_are_free(tmp_path):
    with AnswerMemory(tmp_path / "memory", "mail", embedder=BucketEmbedder()) as memory:
        _, asked = llm(corpus="mail", knowledge=memory)
        first = asked.answer(FIRST, documents())
        answer = asked.answer(QUESTION, documents())
        again = asked.answer(QUESTION, documents())
    assert (first.epsilon, answer.epsilon, again.epsilon) == (8.0, 8.0, 0.0)
    assert (answer.from_memory, again.from_memory) == (False, True)
    assert again.text == answer.text


@pytest.mark.parametrize(
    ("error", "text", "stopped"),
    [
        (BudgetExceededError(1.0, 0.1, "corpus 'mail'", (4.0, 1.0)), UNSUPPORTED, "budget"),
        (EngineUnavailableError(), "", "unavailable"),
    ],
)
def test_a_step_that_cannot_be_asked_ends_the_answer_and_the_first_is_charged(error, text, stopped):
    _, asked = llm()

    def begin(question):
        if question != FIRST:
            raise error
        return asked.stream(question, documents())

    answer = answered_in_steps(QUESTION, begin, asked.model.tokenizer).whole()
    assert (answer.text, answer.supported, answer.stopped_by) == (text, False, stopped)
    assert answer.epsilon == 8.0
    assert answer.rho > 0


@pytest.mark.parametrize("search", [0.0, 0.25])
def test_a_step_that_is_stopped_tells_what_all_have_cost(tmp_path, search):
    """It said that it cost nothing, or its own search, where the first step was paid for."""
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        _, asked = llm(ledger=ledger, corpus="mail", accounting="fixed")

        def begin(question):
            if question != FIRST:
                error = StoppedError("the server is going down")
                error.rho = search
                raise error
            return asked.stream(question, documents())

        with pytest.raises(StoppedError) as stopped:
            answered_in_steps(QUESTION, begin, asked.model.tokenizer)
        (spent,) = (one.spent for one in ledger.status() if one.name == "mail")
    assert spent > 0
    assert stopped.value.rho == pytest.approx(spent + search, rel=1e-6)


def test_three_questions_are_the_most_that_one_takes():
    nested = "What is the phone number of the person in charge of the room where the sauna is?"
    _, asked = llm()
    plan = asked.plan(documents(), Request.of("answer", question=nested))
    assert plan.steps == (
        "Where is the sauna?",
        "Who is in charge of X?",
        "What is the phone number of X?",
    )
