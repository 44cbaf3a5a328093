"""Answers of models that can be silent: one count of keys, and no token is drawn."""

from collections import Counter

import pytest

from dpicl_rag import AnswerMemory, PrivateContextLLM, Rehearsal
from dpicl_rag.accounting.stability import DIRECT, Adjacency
from dpicl_rag.answering import private_run, whole_answers
from dpicl_rag.answering.canonical_form import canonical_form
from dpicl_rag.answering.sentence_votes import VoteReader
from dpicl_rag.answering.written_sentences import in_order, says_no_more
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.documents import Document
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian, TruncatedGeometric
from dpicl_rag.mechanisms.private_counts import Agreement
from dpicl_rag.requests import Request
from dpicl_rag.results import UNSUPPORTED, Estimate
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.answering.test_whole_answers import END, SIZE, counted, speech

__all__ = ["counted"]

LIST = "Which words are said?"


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    knows = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: knows)


def documents(*words):
    return [Document(f"says {word}", f"u{at}") for at, word in enumerate(words)]


def llm(**settings):
    model = SyntheticModel(SIZE, speech, frozenset({END}))
    return PrivateContextLLM(model, max_tokens=8, **settings)


MAIL = "Subject: A\nFrom: Ida <ida@elm.example>\n\nHello.\n\nsays {0}\n\nIda\nElm court"


@pytest.mark.parametrize("word", ["refund", "other", "refundx"])
@pytest.mark.parametrize(
    ("question", "written"), [(LIST, "says {0}"), ("What is it?", "says {0}"), (LIST, MAIL)]
)
def test_a_unit_moves_its_own_keys_by_one_and_pays_for_them(counted, word, question, written):
    """Of a mail it says what is above the signature."""
    corpus = documents(*["refund"] * 5, "other", "third")
    llm().answer(question, [*corpus, Document(written.format(word), "new")])
    (with_it,) = counted
    counted.clear()
    llm().answer(question, corpus)
    (without,) = counted
    assert with_it["rho"] == without["rho"] == pytest.approx(with_it["paid"])
    moved = Counter(with_it["keys"])
    moved.subtract(without["keys"])
    key = word if question == LIST else word.capitalize()
    assert {key: count for key, count in moved.items() if count} == {key: 1}
    assert with_it["able"].sum() == sum(with_it["keys"].values())


@pytest.mark.parametrize(("question", "keys"), [(LIST, 3), ("Why?", 2), ("Who is it?", 1)])
def test_noise_is_that_of_the_keys_that_a_unit_may_have(tmp_path, question, keys):
    request = Request.of("answer", question=question)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        plan = llm(ledger=ledger).plan(documents("a"), request)
    (step,) = plan.ladder.steps
    assert plan.only_agreement
    assert step.keys == keys
    assert step.noise.rho * keys <= step.rho * (1 + 1e-9)
    assert keys * step.noise.tail(step.threshold - 1) <= step.delta * (1 + 1e-9)
    # Without a ledger they share a vote, which has all of epsilon and delta as they are.
    (step,) = llm(delta=1e-5).plan(documents("a"), request).ladder.steps
    assert step == Agreement.selecting(
        step.epsilon, 1e-5, DIRECT, Adjacency.ADD_OR_REMOVE_ONE, keys
    )
    assert (step.keys, step.threshold) == (keys, 1 + step.noise.highest)


def test_no_token_is_drawn_where_nobody_agrees():
    found = llm().answer("What is it?", documents("refund", "other", "third"))
    assert (found.text, found.by, found.supported) == (UNSUPPORTED, None, False)


def test_all_parts_that_enough_say_are_the_answer(monkeypatch):
    monkeypatch.setattr(TruncatedGeometric, "draw", lambda *_: 0)
    shown = []
    monkeypatch.setattr(
        Agreement,
        "draw",
        lambda self, held, randomness, honest=Agreement.draw: (
            shown.append(honest(self, held, randomness)) or shown[-1]
        ),
    )
    found = llm(epsilon=8.0).answer(LIST, documents(*["refund"] * 20, *["other"] * 30, "third"))
    assert [one.key for one in shown[0]] == ["other", "refund"]
    assert found.by == "agreement"
    # The items of a unit share its vote, where each may have several.
    assert found.parts == (("other", None), ("refund", None))
    assert found.text.endswith("was not counted. What few documents name is missing.")


def test_items_are_shown_with_their_spaces(monkeypatch):
    monkeypatch.setattr(TruncatedGeometric, "draw", lambda *_: 0)
    monkeypatch.setattr(
        whole_answers,
        "spelled",
        lambda question, keys: [f"{key[:2]} {key[2:]} of {question.text}" for key in keys],
    )
    found = llm(epsilon=8.0).answer(LIST, documents(*["refund"] * 20))
    assert found.parts == ((f"re fund of {LIST}", None),)


def test_items_are_told_with_the_counts_that_passed_the_threshold(monkeypatch, tmp_path):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda *_: 2)
    corpus = documents(*["refund"] * 70, *["other"] * 90, "third")
    with (
        Ledger(tmp_path / "ledger.sqlite") as ledger,
        AnswerMemory(tmp_path / "memory", "mail", embedder=BucketEmbedder()) as memory,
    ):
        asked = llm(ledger=ledger, epsilon=8.0, units=200, corpus="mail", knowledge=memory)
        found = asked.answer(LIST, corpus)
        again = asked.answer(LIST, corpus)
        assert [one.question for one in memory.entries()] == [LIST, LIST]
    assert (again.text, again.parts, again.rho) == (found.text, found.parts, 0.0)
    assert [(part.text, part.estimate.units) for part in found.parts] == [
        ("other", 92),
        ("refund", 72),
    ]
    within = found.agreeing_within
    assert found.parts[1].estimate == Estimate(72, 72 - within, 72 + within)
    assert found.text.endswith(
        f" About 92 documents ({92 - within} to {92 + within}) name other; "
        f"72 ({72 - within} to {72 + within}) name refund. What few documents name is missing."
    )
    assert found.public_numbers()["parts"][0]["count"]["units"] == 92
    # A question for one thing has one answer.
    assert llm(epsilon=8.0).answer("What is it?", documents(*["refund"] * 30)).parts == ()


class Letters:
    stop_tokens = frozenset({0})

    def decode(self, token_ids):
        return "".join(map(chr, token_ids))


def votes(question, *pairs):
    """Of documents and what their experts say."""
    reader = VoteReader(
        Letters(),
        question,
        [[document] for document, _ in pairs],
        canonical_form,
        lambda *_: -400.0,
        silent=True,
    )
    said = [Continuation((*map(ord, text), 0), (-0.1,) * (len(text) + 1)) for _, text in pairs]
    return [vote and vote.keys for vote in reader.votes((), said)]


def test_who_says_nothing_has_no_vote_and_whoever_speaks_needs_no_word_of_the_question():
    found = votes(
        "When does the pool open?",
        ("Doors at a quarter to seven.", "The pool opens at 6:45."),
        ("Doors at a quarter to seven.", "NOTHING"),
        ("Doors at a quarter to seven.", "The pool opens at 9:30."),
        ("Ab 6.45 Uhr.", "It opens at quarter to seven."),
    )
    assert found == [("6:45",), None, None, ("6:45",)]


def test_who_says_nothing_has_no_vote_whatever_its_document_says():
    assert votes("What is in it?", ("There is nothing in it.", "NOTHING")) == [None]


def test_a_sentence_that_has_no_answer_of_the_kind_is_no_vote():
    found = votes(
        "When does the pool open?",
        ("Best, the front desk.", "The front desk opens the pool."),
        ("Open early.", "It opens early."),
    )
    assert found == [None, None]
    found = votes("Who opens the pool?", ("Ask our caretaker.", "The caretaker does."))
    assert found == [("caretaker",)]


def test_names_and_numbers_of_the_question_stand_in_the_document():
    said = "It is treated with Blerpox."
    found = votes(
        "What is Zonkitis treated with?",
        ("Zonkitis: prescribed Blerpox.", said),
        ("Farbitis: prescribed Blerpox.", said),
    )
    assert found == [("Blerpox",), None]


def test_a_reason_has_several_words_that_its_document_states():
    found = votes(
        "Why is the sauna closed?",
        ("New tiles for the floor of the sauna.", "Because the floor gets new tiles."),
        ("The sauna is shut until May.", "Because the floor gets new tiles."),
        ("La sauna está cerrada por las baldosas del suelo.", "Because of the floor tiles."),
    )
    assert found == [("floor", "tile"), None, ("floor", "tile")]


@pytest.mark.parametrize(
    ("sentence", "true"),
    [
        ("The pool opens at 6:45", True),
        ("The pool opens at 6:45 on weekdays", False),
        ("The pool opens at 9:30", False),
        ("The pool opens", False),
        ("", False),
    ],
)
def test_a_written_sentence_brings_in_nothing(sentence, true):
    assert says_no_more(sentence, "When does the pool open?", ["6:45"]) == true


def test_a_written_sentence_does_not_turn_the_question_round():
    question = "What is Zonkitis treated with?"
    assert in_order("Zonkitis is treated with Blerpox", question)
    assert not in_order("Blerpox is treated with Zonkitis", question)
    assert in_order("Blerpox", question)
    assert in_order("Im Nordtor kann man parken", "Wo kann man parken?")
    assert in_order("Ida teaches the beginners' course", "Who teaches the beginners' course?")


SIGNED = (
    "Subject: {0}\nFrom: Moss Hall <desk@moss.example>\n\n"
    "Hello,\n\n{1}\n\nThe front desk\nMoss Hall"
)


def test_who_sent_a_mail_is_no_answer_of_it():
    found = votes(
        "Where is lost property kept?",
        (SIGNED.format("Swimming", "We open at 9."), "The front desk."),
        (SIGNED.format("Swimming", "We open at 9."), "In Moss Hall."),
        (SIGNED.format("Lost", "It is kept in Moss Hall."), "In Moss Hall."),
        ("place: Moss Hall", "In Moss Hall."),
    )
    assert found == [None, None, ("Moss Hall",), ("Moss Hall",)]
    # A document in another language has other words, but no other sender.
    listed = votes(
        "Which courses are there?",
        (SIGNED.format("Kurse", "Es gibt am Samstag Tauchen, und das ist alles."), "Front desk."),
        (SIGNED.format("Kurse", "Es gibt am Samstag Tauchen, und das ist alles."), "Diving."),
    )
    assert listed == [None, ("diving",)]


def test_a_sentence_that_does_not_end_has_the_keys_before_its_last_word():
    question = "When does the pool open?"
    reader = VoteReader(
        Letters(), question, [["It opens at 6:45."]], canonical_form, lambda *_: 0.0, silent=True
    )

    def vote(text):
        (found,) = reader.votes((), [Continuation((*map(ord, text),), (-0.1,) * len(text))])
        return found and found.keys

    assert vote("The pool opens at 6:45 on") == ("6:45",)
    assert vote("The pool opens at 6:45") is None


def test_words_that_a_document_lacks_take_the_place_of_no_key():
    (found,) = votes(
        "Why is the sauna closed?",
        ("It is the floor: the sauna gets new tiles.", "Because the floor is retiled with tiles."),
    )
    assert found == ("floor", "tile")
