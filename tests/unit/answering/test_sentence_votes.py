"""Who may vote, and for what."""

import pytest
import torch

from dpicl_rag import PromptTemplate
from dpicl_rag.answering.canonical_form import canonical_form
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.sentence_votes import VoteReader, naming, vote_reader, votes_of_notes
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.languages.answer_keys import answer_keys

END = 0


class Letters:
    """A token a letter; 0 ends an answer."""

    stop_tokens = frozenset({END})

    def decode(self, token_ids):
        return "".join(map(chr, token_ids))


def said(text, log_prob=-0.1, end=True):
    ids = (*map(ord, text), *([END] if end else []))
    return Continuation(ids, (log_prob,) * len(ids))


QUESTION = "How long does a refund take?"


def vote(text, document, *, log_prob=-0.1, bare=-2.0, end=True, form=canonical_form, stop=()):
    """Of a document that has words of the question, and others."""
    made = VoteReader(
        Letters(),
        QUESTION,
        [[f"Of a refund, and what it takes: {document}"]],
        form,
        lambda before, tokens: bare * len(tokens),
        stop,
    )
    return sentences(made.votes((), [said(text, log_prob, end)]))[0]


def sentences(votes):
    return [vote and vote.sentence for vote in votes]


def test_what_a_document_says_is_a_vote():
    assert vote("A refund takes nine days.", "nine Days.") == "refund takes 9 days"
    assert vote("A refund takes 9 days.", "nine days.") == "refund takes 9 days"


def test_a_word_that_the_document_lacks_has_no_vote():
    assert vote("A refund takes two days.", "It takes nine days.") is None
    assert vote("The answer is 2222.", "Her card number is 222.") is None


def test_other_endings_of_a_word_are_the_same_word():
    assert vote("It has arrived, after nine days.", "arrives after a day or nine") is not None
    assert vote("It took nine.", "taken: nine") is None


def test_words_of_the_question_and_small_words_may_be_missing():
    assert vote("It does take nine.", "nine") == "It does take 9"


@pytest.mark.parametrize(
    ("document", "votes"),
    [
        ("A refund takes nine days.", True),
        ("Refunds: nine days, however long.", True),
        ("Our refund is nine days.", False),
        ("The Breezer is nine days old.", False),
    ],
)
def test_a_document_that_lacks_the_words_of_the_question_has_no_vote(document, votes):
    made = VoteReader(Letters(), QUESTION, [[document]], canonical_form, lambda *_: -20.0)
    assert (made.votes((), [said("nine days.")])[0] is not None) == votes


@pytest.mark.parametrize(
    "frame",
    [
        "A visitor telephones: {}",
        "Good evening! {}",
        "{} Thank you so very much.",
        "My colleague would like this printed. {}",
    ],
)
def test_a_document_need_not_have_the_words_around_a_question(frame):
    made = VoteReader(
        Letters(),
        frame.format(QUESTION),
        [["A refund takes nine days."], ["A refund, he said."]],
        canonical_form,
        lambda *_: -20.0,
    )
    assert made.asked == [True, False]


def test_two_words_of_a_long_question_are_too_few():
    question = "Which day do the baker, smith, miller, cooper, weaver and her sister take off work?"
    documents = [["The baker and the smith"], ["The baker, the smith and the miller"]]
    made = VoteReader(Letters(), question, documents, canonical_form, lambda *_: -20.0)
    assert made.asked == [False, True]


def test_a_question_of_small_words_asks_for_none():
    made = VoteReader(Letters(), "Who are you?", [["Nine days."]], canonical_form, lambda *_: -20.0)
    assert sentences(made.votes((), [said("nine days.")])) == ["9 days"]


@pytest.mark.parametrize(("log_prob", "bare"), [(-1.1, -9.0), (-0.1, -0.2)])
def test_what_the_document_does_not_add_has_no_vote(log_prob, bare):
    assert vote("nine days.", "nine days", log_prob=log_prob, bare=bare) is None


def test_a_sentence_that_does_not_end_has_no_vote():
    assert vote("nine days", "nine days", end=False) is None
    assert vote("nine days. And", "nine days", end=False) == "9 days"
    assert vote("nine days", "nine days") == "9 days"
    assert vote("nine days#then", "nine days", end=False, stop=("#",)) == "9 days"


@pytest.mark.parametrize(
    ("question", "form", "short"),
    [
        (QUESTION, canonical_form, "9 days"),
        ("How do refund take?", canonical_form, "refund takes 9 days"),
        (QUESTION, str.strip, "A refund takes nine days"),
    ],
)
def test_names_and_numbers_are_a_second_vote(question, form, short):
    document = "A refund takes nine days, however long."
    made = VoteReader(Letters(), question, [[document]], form, lambda *_: -40.0)
    (vote,) = made.votes((), [said("A refund takes nine days.")])
    assert vote.short == short


def test_documents_that_are_not_about_it_are_not_asked():
    documents = [["A refund takes long."], ["nothing"], ["Refunds: take nine days."]]
    made = VoteReader(Letters(), QUESTION, documents, canonical_form, lambda *_: -40.0)
    assert made.asked == [True, False, True]


def test_of_known_names_and_numbers_those_are_counted_who_say_them():
    documents = ["A refund takes nine days.", "A refund takes ten days.", "A refund.", "Hello."]
    heard = []

    class Rows:
        def continue_each(self, token_ids, most, asked):
            heard.append((tuple(token_ids), most, list(asked)))
            return [said("It takes 9 days."), said("ten days."), said("9 days."), said("9 days.")]

    made = VoteReader(
        Letters(), QUESTION, [[text] for text in documents], canonical_form, lambda *_: -40.0
    )
    found = naming(Rows(), key="9 days", phrasings=[(7,)], most=5, reader=lambda: made)
    assert found.tolist() == [True, False, False, False]  # the third has no nine, and no vote
    assert heard == [((7,), 5, [True, True, False, False])]


def test_of_no_experts_none_names_it():
    made = VoteReader(Letters(), QUESTION, [], canonical_form, lambda *_: -40.0)

    class Rows:
        def continue_each(self, token_ids, most, asked):
            return []

    found = naming(Rows(), key="9 days", phrasings=[(7,)], most=5, reader=lambda: made)
    assert (found.dtype, len(found)) == (torch.bool, 0)


def raises(text):
    raise ValueError(text)


@pytest.mark.parametrize("form", [raises, lambda text: None, lambda text: "  ", lambda text: 3])
def test_a_form_that_fails_for_one_unit_takes_its_vote_and_tells_nobody(form):
    assert vote("nine days.", "nine days", form=form) is None


def test_a_vote_is_a_function_of_its_own_unit():
    documents = [["nine days"], ["two days"], ["nothing"]]
    words = [said("nine days."), said("two days."), said("nine days.")]

    def votes(which):
        made = VoteReader(
            Letters(),
            "?",
            [documents[at] for at in which],
            canonical_form,
            lambda before, tokens: -2.0 * len(tokens),
        )
        return sentences(made.votes((), [words[at] for at in which]))

    assert votes([0, 1, 2]) == ["9 days", "2 days", None]
    assert votes([2, 0]) == [None, "9 days"]


@pytest.mark.parametrize(
    ("document", "keys"),
    [
        ("Die Kurse sind Yoga und Töpfern.", ["pottery"]),
        ("The courses are pottery and yoga.", ["pottery"]),
        ("Die Kurse: Töpfern, Piano Stool.", ["pianostool", "pottery"]),
        ("Die Kurse: Töpfern, Piano.", ["pottery"]),
    ],
)
def test_a_thing_of_a_worked_example_is_no_vote(document, keys):
    """A model listed one that no document names; those in other languages were believed."""
    question = "Which courses are there?"
    made = VoteReader(
        Letters(),
        question,
        [[document]],
        canonical_form,
        lambda before, tokens: 0.0,
        examples=answer_keys(question).words("Piano stool"),
        silent=True,
    )
    [found] = made.votes((), [said("Piano Stool and Pottery.")])
    assert sorted(found.keys) == keys


@pytest.mark.parametrize("thing", ["Piano stool", "Choir", "Moss", "Kite"])
@pytest.mark.parametrize("reads", ["model", "reader"])
def test_no_thing_of_an_example_that_is_shown_is_a_vote(thing, reads, tiny_model):
    """Of their documents, too: a real model listed the subject of one for 21 units."""
    text, document = "List the courses that people ask about.", "Die Kurse sind Yoga und Töpfern."
    question = Question(text, PromptTemplate(), tiny_model, PrivacyConfig(), silent=True)
    assert thing.casefold() in question.examples.casefold()
    sentence = f"{thing} and pottery."
    if reads == "reader":
        [found] = votes_of_notes(question, [[sentence]], [[document]])
    else:
        made = vote_reader(question, [[document]])
        ids = tuple(tiny_model.tokenizer.encode(sentence))
        [found] = made.votes((), [Continuation(ids, (0.0,) * len(ids))])
    assert found.keys == ("pottery",)


def test_nothing_private_is_shown():
    made = VoteReader(Letters(), "?", [["secret"]], canonical_form, lambda before, tokens: 0.0)
    assert repr(made) == "VoteReader(<private>)"
    assert "115" not in repr(said("secret"))
