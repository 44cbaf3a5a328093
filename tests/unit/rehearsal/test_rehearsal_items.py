"""The public items: what is right stands in the documents, and nothing is of the benchmarks."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from dpicl_rag import PromptTemplate
from dpicl_rag.languages.languages import QuestionKind, language_of
from dpicl_rag.rehearsal import rehearsing
from dpicl_rag.rehearsal.rehearsal_items import rehearsal_items
from dpicl_rag.rehearsal.rehearsing import rehearsal_version

ROOT = Path(__file__).parents[3]
ITEMS = rehearsal_items()
LANGUAGES = ("en", "de", "fr", "es", "it")
RUN = 6
"""Words that stand together in two texts only if one has them from the other."""


def kind(item):
    return language_of(item.question).kind(item.question)


def runs(text):
    words = re.findall(r"\w+", text.casefold())
    return {tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_items_of_both_sorts(language):
    own = [item for item in ITEMS if item.language == language]
    assert sum(item.right is not None for item in own) >= 8
    assert sum(item.near for item in own) >= 4
    assert sum(item.right is None and not item.near for item in own) >= 4
    assert {language_of(item.question).code for item in own} == {language}


def test_many_kinds_of_answers_are_asked_for():
    names = "reason number weekday time date person place yes_or_no other"
    assert {kind(item) for item in ITEMS} >= set(map(QuestionKind, names.split()))


def test_what_is_right_stands_in_documents_that_tell_and_in_no_others():
    rights = {}
    for item in ITEMS:
        if item.right is not None and not item.right.startswith("^"):
            assert item.is_right(item.document), item
            rights[item.question] = item.right
    for item in ITEMS:
        if item.right is None and (right := rights.get(item.question)):
            assert not re.search(right, item.document, re.IGNORECASE), item


def test_an_answer_is_right_that_says_so():
    [yes] = [one for one in ITEMS if one.right == "^yes"]
    assert yes.is_right("Yes, the archive is open.")
    assert not yes.is_right("No, but yes would be nice.")
    assert not next(one for one in ITEMS if one.right is None).is_right("anything")


def test_no_item_stands_there_twice():
    assert max(Counter((item.document, item.question) for item in ITEMS).values()) == 1


def test_documents_are_short_and_long():
    words = sorted(len(item.document.split()) for item in ITEMS)
    assert words[0] < 30
    assert 150 < words[-1] <= 250


def test_no_document_is_of_a_benchmark_or_a_worked_example():
    found = set()
    for file in (
        *(ROOT / "benchmarks").rglob("*.py"),
        *(ROOT / "benchmarks").rglob("*.toml"),
        *(ROOT / "dpicl_rag" / "languages").glob("worked_examples.toml"),
    ):
        found |= runs(file.read_text("utf-8"))
    own = set().union(*(runs(item.document) for item in ITEMS))
    assert own & found == set()


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("rehearsal_items", lambda: ITEMS[1:]),
        ("mail_as_read", lambda text: text[1:]),
        ("PromptTemplate", lambda: PromptTemplate(system="Be brief.")),
    ],
)
def test_the_version_follows_from_items_and_from_what_is_read_of_them(monkeypatch, name, other):
    version = rehearsal_version()
    monkeypatch.setattr(rehearsing, name, other)
    assert rehearsal_version.__wrapped__() != version
