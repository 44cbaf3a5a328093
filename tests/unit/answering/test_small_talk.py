"""Small talk: what it is follows from its words alone, and its reply from nothing private."""

from __future__ import annotations

import pytest

from dpicl_rag import Ledger, PrivateContextLLM
from dpicl_rag.answering.follow_ups import whole_question
from dpicl_rag.errors import MissingDocumentsError
from dpicl_rag.knowledge.answer_memory import same_words
from dpicl_rag.languages.small_talk import is_small_talk, without_courtesies
from dpicl_rag.mechanisms.randomness import Randomness
from tests.support.failing_engine import FailingEngine
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_reader import ScriptedReader

MODEL = ScriptedModel({"depot": "It opens at seven.", "": "Hello to you!"})
SMALL = (
    *("hi", "Hi!", "HELLO there :)", "Hey \N{WAVING HAND SIGN}", "Good morning, everyone!"),
    *("How are you?", "hello, how are you today?", "Thanks", "Thank you so much!", "Many thanks"),
    *("ok thanks", "Great, thank you", "Thanks for your help, bye", "See you later!", "Good night"),
    *("Hallo", "Guten Tag!", "Gr\u00fc\u00df Gott", "Gr\u00fcezi", "Wie geht's?", "Vielen Dank!"),
    *("Danke sch\u00f6n", "Tsch\u00fcss", "Mach\u2019s gut", "Sch\u00f6nen Tag noch"),
    *("Bonjour !", "Salut, \u00e7a va ?", "Merci beaucoup", "Au revoir", "\u00c0 bient\u00f4t"),
    *("\u00a1Hola!", "\u00a1Hola! \u00bfQu\u00e9 tal?", "Buenos d\u00edas", "Muchas gracias"),
    *("Hasta ma\u00f1ana", "Adio\u0301s"),
)
ASKED = (
    *("", " ", "?!", "\N{WAVING HAND SIGN}", "ok", "and you?", "so", "again", "all", "yes", "no"),
    *("Hi, where is the office?", "thanks Anna", "hello world", "good", "day", "morning"),
    *("How is it?", "How is it going?", "What's up?", "How are they?", "Who are you?", "help"),
    *("Thanks to whom?", "Is it a good day?", "How do you open the depot?", "the bye-law"),
    *("Danke an wen?", "Wie geht das?", "Gute Frage", "Merci \u00e0 qui ?", "Gracias a qui\u00e9n"),
    *("\u00bfC\u00f3mo est\u00e1?", "hi 7", "hi x", "\u4f60\u597d", "thanks " * 40, "hi" * 200),
)


COURTEOUS = [
    ("Hello! When does it open?", "When does it open?"),
    ("Hi, when does it open?", "when does it open?"),
    ("Please tell me: When does it open? Thank you so much.", "When does it open?"),
    ("Good morning everyone. A quick question: Who is it, please?", "Who is it"),
    ("Sorry to bother you, who is it?\nMany thanks, bye", "who is it?"),
    ("Guten Tag! Eine kurze Frage: Wo ist es? Danke.", "Wo ist es?"),
    ("Entschuldigung, wo ist es bitte?", "wo ist es bitte?"),
    ("Bonjour ! Dites-moi, s'il vous plaît : Où est-ce ? Merci.", "Où est-ce ?"),
    ("Buenos días. ¿Dónde está? ¡Gracias!", "¿Dónde está?"),
    ("Scusi, dov'è? Grazie mille", "dov'è?"),
    ("Hello all, how are you today? Who is it? Thanks in advance!", "Who is it?"),
]
KEPT = [
    "I am a senior. How much is it?",
    "Hi Anna, when does it open?",
    "A customer asks: When does it open?",
    "Who said thank you to the club?",
    "Thank you.",
    "Today: when does it open?",
    "No thanks, when does it open?",
    "When does it open? Today please.",
    "What is on drive C:",
    "What is the German for: thank you?",
    "hello " * 40 + ", when does it open?",
]


@pytest.mark.parametrize(("question", "asked"), [*COURTEOUS, *zip(KEPT, KEPT, strict=True)])
def test_courtesies_around_a_question_are_not_of_it(question, asked):
    assert without_courtesies(question) == asked
    assert same_words(question) == same_words(asked)


def test_of_courtesies_alone_the_last_is_left():
    assert without_courtesies("Hello! Thanks!") == "Thanks!"


@pytest.mark.parametrize("text", SMALL)
def test_greetings_thanks_and_goodbyes_are_small_talk(text):
    assert is_small_talk(text)


@pytest.mark.parametrize("text", ASKED)
def test_one_word_beside_them_makes_a_question(text):
    assert not is_small_talk(text)


class Unread(list):
    """Documents that nobody may look at."""

    def __iter__(self):
        pytest.fail("looked at")


class NoCoins(Randomness):
    """Coins that nobody may toss."""

    def uniform(self):
        pytest.fail("tossed")

    def below(self, bound):
        pytest.fail("tossed")


@pytest.mark.parametrize(
    "settings", [{}, {"agreement": "only"}, {"unsupported": "refuse"}], ids=str
)
@pytest.mark.parametrize("text", ["hi", "Vielen Dank!"])
def test_its_reply_depends_on_no_document_and_costs_nothing(text, settings, tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=1e-6, strict=True)
        before = ledger.status()
        llm = PrivateContextLLM(MODEL, ledger=ledger, randomness=NoCoins(), **settings)
        depots = [f"The depot opens at {n}." for n in range(40)]
        # The same event with probability one, whatever the corpus.
        found = [llm.answer(text, Unread(given)) for given in ([], depots[:1], depots)]
        assert found[0] == found[1] == found[2]
        assert ledger.status() == before
    answer = found[0]
    assert (answer.text, answer.by, answer.supported) == ("Hello to you!", "public", None)
    assert (answer.epsilon, answer.delta, answer.rho, answer.from_memory) == (0.0, 0.0, 0.0, False)
    assert answer.public_numbers()["by"] == "public"
    assert "no document was asked" in answer._repr_html_()


def test_it_streams_and_stops_as_answers_do():
    stream = PrivateContextLLM(MODEL).stream("hi", Unread())
    assert [piece.strip() for piece in stream] == ["Hello", "to", "you!"]
    assert stream.answer.stopped_by == "end"
    llm = PrivateContextLLM(MODEL, max_tokens=2)
    assert (llm.answer("hi", []).text, llm.answer("hi", []).stopped_by) == ("Hello to", "length")
    assert PrivateContextLLM(MODEL, stop=(" you",)).answer("hi", []).text == "Hello to"


def test_a_reader_replies_where_nothing_else_is_loaded():
    prompts = []

    def reply(prompt):
        prompts.append(prompt)
        return "Hello.\nWhat else?"

    llm = PrivateContextLLM(reader=ScriptedReader(reply), agreement="only")
    answer = llm.answer("Hi", Unread(["private"]))
    assert (answer.text, answer.by, answer.stopped_by) == ("Hello.", "public", "end")
    assert len(prompts) == 1
    assert "private" not in prompts[0]


def test_an_engine_that_does_not_answer_ends_it():
    answer = PrivateContextLLM(FailingEngine(MODEL, 0)).answer("hi", Unread())
    assert (answer.text, answer.stopped_by, answer.rho) == ("", "unavailable", 0.0)


def test_no_documents_at_all_are_still_an_error():
    with pytest.raises(MissingDocumentsError):
        PrivateContextLLM(MODEL).answer("hi", None)


def test_thanks_after_an_answer_are_no_question_about_it():
    turns = [("user", "When does the depot open?"), ("assistant", "It opens at seven.")]
    assert whole_question("Thank you!", turns, FailingEngine(MODEL, 0)) == "Thank you!"
    answer = PrivateContextLLM(MODEL).answer("Thank you!", Unread(), turns=turns)
    assert (answer.question, answer.by) == ("Thank you!", "public")
