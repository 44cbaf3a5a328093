"""SST-2 and Amazon polarity from small files made like theirs."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_research import sentiment_files
from dpicl_research.tasks import load_task

SST2 = 'sentence\tlabel\na "moving film \t1\nnot one laugh \t0\n'
AMAZON = '"2","Great CD","My lovely ""Pat"" has\\none voice"\n"1","","broke at once"\n'


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a file of the data folder, which the tasks then read."""
    monkeypatch.setenv("DPICL_RAG_DATA", str(tmp_path))

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    for file in ("train.tsv", "dev.tsv"):
        write(f"SST-2/{file}", SST2)
    for file in ("train.csv", "test.csv"):
        write(f"amazon_review_polarity_csv/{file}", AMAZON)
    return write


def items(task):
    return [(item.text, item.answer) for item in task.pool]


def test_sentences_and_their_sentiment(put):
    put("SST-2/dev.tsv", "sentence\tlabel\nfine\t1\n")
    task = load_task("sst2")
    assert items(task) == [('a "moving film', "Positive"), ("not one laugh", "Negative")]
    assert [(item.text, item.answer) for item in task.test] == [("fine", "Positive")]
    assert (task.name, task.labels) == ("sst2", ("Negative", "Positive"))
    assert (task.template.opening, task.template.closing) == ("Review:", "Sentiment:")


def test_reviews_are_title_and_text(put):
    task = load_task("amazon")
    assert items(task) == [
        ('Great CD My lovely "Pat" has one voice', "Positive"),
        ("broke at once", "Negative"),
    ]
    assert task.test == task.pool


def test_of_a_long_file_the_beginning_is_read(put, monkeypatch):
    monkeypatch.setattr(sentiment_files, "MOST_ROWS", 2)
    put("amazon_review_polarity_csv/train.csv", AMAZON * 3 + "damaged")
    assert len(load_task("amazon").pool) == 2


@pytest.mark.parametrize(
    ("task", "file", "text", "says"),
    [
        ("sst2", "SST-2/train.tsv", "", "the first line must be sentence and label"),
        ("sst2", "SST-2/train.tsv", "index\tsentence\n0\tfine\n", "the first line must be"),
        ("sst2", "SST-2/dev.tsv", "sentence\tlabel\n", "has no rows"),
        ("sst2", "SST-2/dev.tsv", SST2 + "fine\t-1\n", "line 4: not 2 fields with a label of 0"),
        ("sst2", "SST-2/dev.tsv", SST2 + "fine\n", "line 4: not 2 fields"),
        ("sst2", "SST-2/dev.tsv", b"sentence\tlabel\n\xff\t1\n", r"read \(UnicodeDecodeError\)"),
        ("amazon", "amazon_review_polarity_csv/test.csv", '"3","a","b"\n', "a label of 1 or 2"),
        ("amazon", "amazon_review_polarity_csv/test.csv", '"1","a"\n', "line 1: not 3 fields"),
        ("amazon", "amazon_review_polarity_csv/test.csv", '"1","a","' + "b" * 200_000, "CSV"),
    ],
)
def test_a_file_that_is_another_is_one_sentence(put, task, file, text, says):
    put(file, text)
    with pytest.raises(ConfigurationError, match=says) as error:
        load_task(task)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(put, tmp_path):
    (tmp_path / "SST-2" / "dev.tsv").unlink()
    with pytest.raises(ConfigurationError, match=r"dev\.tsv: there is no such task file"):
        load_task("sst2")
