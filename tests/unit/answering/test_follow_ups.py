"""Follow-ups: what is made of the last question of a conversation."""

from __future__ import annotations

import pytest

from dpicl_rag.answering.follow_ups import last_question, whole_question
from dpicl_rag.errors import ConfigurationError, EngineUnavailableError
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_reader import ScriptedReader

TURNS = [("user", "When does the canteen open?"), ("assistant", "The canteen opens at 11.")]
FOLLOW_UP = "And on Fridays?"
LEANING = "Who works there?"


def rewritten(reply, question=FOLLOW_UP, turns=TURNS):
    """What a model that writes this reply makes of a question; no model of ours is asked."""
    return whole_question(question, turns, None, ScriptedReader(lambda _: reply))


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("Since when?", "Since when does the canteen open at 11?"),
        ("Who runs it?", "Who runs the canteen?"),
        ("Who works there?", "Who works in the canteen?"),
        ("Why?", "Why does the canteen open at 11?"),
        ("Who eats there", "Who eats in the canteen?"),
    ],
)
def test_words_that_make_it_whole_are_taken(question, reply):
    assert rewritten(reply, question) == reply
    assert rewritten(f"\n{reply}\nBecause the conversation says so.", question) == reply


@pytest.mark.parametrize(
    "reply",
    [
        "",
        LEANING,
        "Ida works in the canteen.",  # an answer
        "Who works in the canteen in winter?",  # brings in what nobody said
        "Who opens the canteen?",  # drops what was asked
        "When does the canteen work?",  # asks for something else
        "When does the canteen open? Who works there?",  # two questions
        "NOTHING",
    ],
)
def test_what_cannot_be_the_question_is_not_asked(reply):
    """Two questions are never joined: documents would answer either."""
    assert rewritten(reply, LEANING) == LEANING


@pytest.mark.parametrize(
    ("before", "question", "whole"),
    [
        (
            "When does the lock open on weekdays?",
            "And at weekends?",
            "When does the lock open at weekends?",
        ),
        ("When does the lock open?", FOLLOW_UP, "When does the lock open on Fridays?"),
        ("How much is it for adults?", "And for children?", "How much is it for children?"),
        ("When does the old mill open?", "And who runs it?", "Who runs the old mill?"),
        (
            "How much is the fee for a new key?",
            "When do I pay it?",
            "When do I pay the fee for a new key?",
        ),
        (
            "Who teaches the evening course?",
            "And on which day is it?",
            "On which day is the evening course?",
        ),
        (
            "How much is it for adults on Sundays?",
            "And for children?",
            "How much is it for children on Sundays?",
        ),
        (
            "Wann öffnet die Mühle am Montag?",
            "Und am Samstag?",
            "Wann öffnet die Mühle am Samstag?",
        ),
        ("Qui garde la clé ?", "Et en août ?", "Qui garde la clé en août ?"),
        ("¿Cuándo abre el molino?", "¿Y los domingos?", "¿Cuándo abre el molino los domingos?"),
        ("A che ora apre il mulino?", "E la domenica?", "A che ora apre il mulino la domenica?"),
        # Not sure.
        ("Who teaches the courses?", "Where is it?", None),
        ("Who cares for the course?", "Where is it?", None),
        ("When does the lock of the mill at the river open?", "Where is it?", None),
        ("When does the lock open?", "Is it possible to swim?", None),
        ("When does the lock open?", "What time is it?", None),
        ("When does the lock open?", "I lost a key. Who has it?", None),
        ("When does the lock open?", "How do I do it?", None),
        ("Who has the key of the shed?", "And for the mill?", None),
        ("Who has the key?", "And the mill?", None),
        ("Who has the key?", "And who cleans?", None),
        ("The key is lost.", FOLLOW_UP, None),
    ],
)
def test_a_phrase_takes_its_place_in_the_question_before(before, question, whole):
    turns = [("user", before), ("assistant", "It is so.")]
    assert rewritten("", question, turns) == (whole or question)


def test_a_phrase_behind_a_phrase_stands_in_the_first_question():
    turns = [("user", "When does the lock open?"), ("user", FOLLOW_UP)]
    assert rewritten("", "And on Sundays?", turns) == "When does the lock open on Sundays?"


@pytest.mark.parametrize("reply", ["", "Where is the canteen?", "The key lies in the drawer."])
def test_a_question_that_says_it_all_stays_as_it_is(reply):
    question = "Who has the key of the bicycle shed?"
    assert rewritten(reply, question) == question


def test_nothing_is_asked_of_a_model_where_nothing_was_said():
    for turns in ([], [("user", " ")]):
        assert whole_question(FOLLOW_UP, turns, None) == FOLLOW_UP


def test_the_model_reads_the_turns_and_the_question_and_nothing_else():
    reader = ScriptedReader(lambda _: "NOTHING")
    long = [("user", "Where is the cellar?"), *TURNS * 4]
    whole_question(LEANING, long, None, reader)
    users, prompt = reader.asked
    assert users.count("User: When does the canteen open?\n") == 4
    assert "Assistant" not in users
    assert (
        prompt.count("User: When does the canteen open?\nAssistant: The canteen opens at 11.") == 4
    )
    assert f"Last question: {LEANING}" in prompt
    assert "cellar" not in prompt  # too long ago


def test_a_local_model_writes_it_where_there_is_no_reader():
    written = "Who works in the canteen?"
    model = ScriptedModel({"Conversation:": written})
    assert whole_question(LEANING, TURNS, model) == written


def test_what_does_not_fit_the_model_is_left_out():
    model = ScriptedModel({"canteen": "Who works in the canteen?"})
    model.context_length = 64
    assert whole_question(LEANING, TURNS, model) == LEANING


def test_a_model_that_does_not_answer_says_so():
    def down(prompt):
        raise EngineUnavailableError

    with pytest.raises(EngineUnavailableError):
        whole_question(LEANING, TURNS, None, ScriptedReader(down))


@pytest.mark.parametrize("turns", ["Hello", [("user",)], [{"role": "user"}], [("user", 7)]])
def test_turns_are_pairs_of_words(turns):
    with pytest.raises(ConfigurationError, match="pairs of speaker and words"):
        whole_question(FOLLOW_UP, turns, None)


def test_an_answer_that_says_nothing_is_not_read():
    reader = ScriptedReader(lambda _: "Who runs the canteen?")
    turns = [*TURNS, ("user", "Who cooks?"), ("assistant", "The documents do not say.")]
    whole_question("Who runs it?", turns, None, reader)
    assert "Who cooks?" in reader.asked[0]
    assert "do not say" not in reader.asked[0]


@pytest.mark.parametrize("replies", [RuntimeError("quoted"), [], ["a", "b"]])
def test_a_reader_of_ones_own_that_fails_is_one_that_does_not_answer(replies):
    class Failing(ScriptedReader):
        def replies(self, prompts, on_progress=None):
            if isinstance(replies, Exception):
                raise replies
            return replies

    with pytest.raises(EngineUnavailableError) as error:
        whole_question(LEANING, TURNS, None, Failing(str))
    assert "quoted" not in str(error.value)


@pytest.mark.parametrize("user", ["user", "User", "human"])
def test_the_last_turn_is_the_question_where_a_user_has_it(user):
    asking = (user, FOLLOW_UP)
    assert last_question([*TURNS, asking]) == (FOLLOW_UP, tuple(TURNS))
    assert last_question([asking]) == (FOLLOW_UP, ())


def test_where_nobody_asks_last_all_that_was_said_is_the_question():
    said = "user: When does the canteen open?\nassistant: The canteen opens at 11."
    assert last_question(TURNS) == (said, ())
    assert last_question(TURNS[1:]) == ("The canteen opens at 11.", ())
    assert last_question([]) == ("", ())


def test_what_was_answered_is_left_out_where_the_user_said_enough():
    turns = [("user", "Wer leitet den Kurs?"), ("assistant", "Jan Voss.")]
    asked = "Und wo findet er statt?"

    def reply(prompt):
        return f"Wo findet {'Jan Voss' if 'Jan Voss' in prompt else 'der Kurs'} statt?"

    assert whole_question(asked, turns, None, ScriptedReader(reply)) == "Wo findet der Kurs statt?"


def test_a_person_was_named_in_an_answer():
    turns = [("user", "Who leads the choir?"), ("assistant", "Ida Holm.")]
    asked = "Since when does she do it?"

    def reply(prompt):
        return f"Since when does {'Ida Holm' if 'Ida Holm' in prompt else 'she'} lead the choir?"

    whole = whole_question(asked, turns, None, ScriptedReader(reply))
    assert whole == "Since when does Ida Holm lead the choir?"
