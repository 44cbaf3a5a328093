"""The words that only worked examples bring, and what is counted."""

from types import SimpleNamespace

from rich.console import Console

from benchmarks.support import ask, brought_by_examples
from dpicl_rag import Example, PromptTemplate

TEMPLATE = PromptTemplate(
    system="Answer the question.",
    examples=(Example("The snail eats moss.", "What does the snail eat?", "Only moss."),),
)


def test_words_of_examples_that_stand_elsewhere_are_not_theirs():
    assert brought_by_examples(TEMPLATE, []) == {"snail", "eats", "moss", "what", "does", "only"}
    assert "snail" not in brought_by_examples(TEMPLATE, ["A Snail was here."])


def test_answers_are_counted_by_what_they_say():
    told = {
        "Where is the snail?": ("The snail is in town.", True),  # a word of its own
        "What costs 3?": ("Moss costs 3.", True),
        "Who?": ("Nobody knows.", False),
    }
    llm = SimpleNamespace(
        answer=lambda question, corpus: SimpleNamespace(
            text=told[question][0], supported=told[question][1]
        )
    )
    questions = [(question, lambda text: "town" in text) for question in told]
    examples = brought_by_examples(TEMPLATE, [])
    tally = ask(llm, None, questions, examples, Console(quiet=True))
    assert (tally.asked, tally.right, tally.supported_right, tally.supported) == (3, 1, 1, 2)
    assert tally.bled == ["Moss costs 3."]
