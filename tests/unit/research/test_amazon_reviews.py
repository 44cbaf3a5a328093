"""Amazon polarity from small files made like its own."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_research import amazon_reviews
from dpicl_research.tasks import load_task

REVIEWS = '"2","Great CD","My lovely ""Pat"" has\\none voice"\n"1","","broke at once"\n'


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a file of the data folder, which the task then reads."""
    monkeypatch.setenv("DPICL_RAG_DATA", str(tmp_path))
    folder = tmp_path / "amazon_review_polarity_csv"
    folder.mkdir()

    def write(name, text):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    for file in ("train.csv", "test.csv"):
        write(file, REVIEWS)
    return write


def test_reviews_are_title_and_text(put):
    task = load_task("amazon")
    assert [(item.text, item.answer) for item in task.pool] == [
        ('Great CD My lovely "Pat" has one voice', "Positive"),
        ("broke at once", "Negative"),
    ]
    assert task.test == task.pool
    assert (task.template.opening, task.template.closing) == ("Review:", "Sentiment:")


def test_of_a_long_file_the_beginning_is_read(put, monkeypatch):
    monkeypatch.setattr(amazon_reviews, "MOST_ROWS", 2)
    put("train.csv", REVIEWS * 3 + "damaged")
    assert len(load_task("amazon").pool) == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no rows"),
        (b'"1","\xff","b"\n', r"read \(UnicodeDecodeError\)"),
        ('"3","a","b"\n', "a label of 1 or 2"),
        ('"1","a"\n', "line 1: not 3 fields"),
        ('"1","a","' + "b" * 200_000, "CSV"),
    ],
)
def test_a_file_that_is_another_is_one_sentence(put, text, says):
    put("test.csv", text)
    with pytest.raises(ConfigurationError, match=says) as error:
        load_task("amazon")
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(put, tmp_path):
    (tmp_path / "amazon_review_polarity_csv" / "test.csv").unlink()
    with pytest.raises(ConfigurationError, match=r"test\.csv: there is no such task file"):
        load_task("amazon")
