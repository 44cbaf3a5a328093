"""Items of lists: counted without their spaces, shown with those that a model would write."""

from dataclasses import dataclass

import pytest
import torch

from dpicl_rag import PromptTemplate
from dpicl_rag.answering import written_sentences
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.written_sentences import spelled
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ContextLengthError
from dpicl_rag.mechanisms.step import DenseStep

LIST = "Which courses are there on Saturdays?"


@dataclass
class Reader:
    """A public row that knows one way to write something."""

    tokenizer: object
    known: str

    def extend(self, tokens):
        pass

    def score(self, continuations):
        likely = [float(self.tokenizer.decode(one) == self.known) for one in continuations]
        return DenseStep(torch.tensor(likely), torch.empty(0, len(likely)))


@pytest.fixture
def spell(tiny_model, monkeypatch):
    """Spells a key of a question with a row that knows one way to write something."""

    def spell(key, known, question=LIST):
        reads = Reader(tiny_model.tokenizer, known)
        monkeypatch.setattr(written_sentences, "read_public_row", lambda *_, room: reads)
        asked = Question(question, PromptTemplate(), tiny_model, PrivacyConfig())
        [found] = spelled(asked, [key])
        return found

    return spell


@pytest.mark.parametrize(
    ("key", "known", "shown"),
    [
        ("ofthe", "Of the", "of the"),
        ("diving", "Diving", "diving"),
        ("diving", "Something else", "diving"),
        ("e4", "E 4", "e4"),  # a number is in no other word
        ("a b", "A b", "a b"),
        ("", "", ""),
    ],
)
def test_an_item_has_the_spaces_that_are_likeliest(spell, key, known, shown):
    assert spell(key, known) == shown


def test_all_items_are_read_at_once_and_none_is_none(tiny_model, monkeypatch):
    begun = []
    reads = Reader(tiny_model.tokenizer, "Of the")
    monkeypatch.setattr(
        written_sentences, "read_public_row", lambda *_, room: begun.append(room) or reads
    )
    asked = Question(LIST, PromptTemplate(), tiny_model, PrivacyConfig())
    assert spelled(asked, ["diving", "ofthe"]) == ["diving", "of the"]
    assert spelled(asked, []) == []
    assert len(begun) == 1


@pytest.mark.parametrize(
    "question", ["Who is it?", "Why is it closed?", "Welche Kurse gibt es am Samstag?"]
)
def test_other_keys_stay_as_they_are(spell, question):
    assert spell("ofthe", "Of the", question) == "ofthe"


def test_where_the_question_leaves_no_room_it_stays_as_it_is(tiny_model, monkeypatch):
    def full(*_, room):
        raise ContextLengthError("too long")

    monkeypatch.setattr(written_sentences, "read_public_row", full)
    asked = Question(LIST, PromptTemplate(), tiny_model, PrivacyConfig())
    assert spelled(asked, ["ofthe"]) == ["ofthe"]
