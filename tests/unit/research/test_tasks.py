"""Tasks: the papers' labels and templates, any file, and one clear error for each bad one."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from dpicl_rag.errors import ConfigurationError, MissingDependencyError
from dpicl_research.tasks import TASK_NAMES, load_task


def refused(path, **options):
    with pytest.raises(ConfigurationError) as error:
        load_task(str(path), **options)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_file_of_ten_rows_gives_eight_examples_and_two_queries(write, rows):
    task = load_task(str(write(rows)))
    assert (task.labels, len(task.pool), len(task.test)) == (("Plus", "Zero"), 8, 2)
    read = {(item.text, item.answer) for item in (*task.pool, *task.test)}
    assert read == {(row["text"], row["label"]) for row in rows}
    assert task.template.header == "Classify each text as Plus or Zero.\n\n"
    assert load_task(str(write(rows))) == task


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl.gz", "T.JSONL"])
def test_every_kind_of_file_reads_the_same(tmp_path, write, rows, name):
    path = tmp_path / name
    if ".csv" in name:
        text = "text,label\n" + "".join(f'"{r["text"]}",{r["label"]}\n' for r in rows)
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    expected = load_task(str(write(rows, "plain.jsonl")))
    found = load_task(str(path))
    assert (found.pool, found.test, found.labels) == (expected.pool, expected.test, expected.labels)


def test_columns_test_file_and_labels_can_be_given(write, rows):
    renamed = [{"q": row["text"], "a": row["label"]} for row in rows]
    pool, test = write(renamed[:8], "pool.jsonl"), write(renamed[8:], "test.jsonl")
    task = load_task(
        str(pool), text_column="q", label_column="a", labels=["Zero", "Plus"], test_file=test
    )
    assert task.labels == ("Zero", "Plus")
    assert [item.text for item in task.pool] == [row["q"] for row in renamed[:8]]
    assert [item.text for item in task.test] == [row["q"] for row in renamed[8:]]


def test_a_missing_file(tmp_path):
    assert "no such task file" in refused(tmp_path / "none.jsonl")


def test_a_file_that_is_not_what_its_name_says(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(b"not gzip")
    assert "cannot be read (BadGzipFile)" in refused(path)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"text": "a", "label": "x"}\n\xff\xfe\n')
    assert "cannot be read (UnicodeDecodeError)" in refused(path)


def test_an_empty_file(tmp_path):
    (tmp_path / "t.jsonl").write_text("\n")
    (tmp_path / "t.csv").write_text("text,label\n")
    assert "has no rows" in refused(tmp_path / "t.jsonl")
    assert "has no rows" in refused(tmp_path / "t.csv")


@pytest.mark.parametrize(("line", "says"), [("{", "not valid JSON"), ("[1]", "not a JSON object")])
def test_a_bad_line_is_named(tmp_path, line, says):
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "a", "label": "x"}\n' + line + "\n")
    assert refused(path).endswith(f"line 2: {says}")


def test_a_csv_row_of_another_length_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,label\na,x\nb,y,z\n")
    assert "line 3: the row has another number of fields" in refused(path)
    path.write_text("text,label\na,x\nb\n")
    assert "line 3: the row has another number of fields" in refused(path)


def test_a_missing_column_and_an_empty_value(write, rows):
    assert "no column 'body'; there are text, label" in refused(write(rows), text_column="body")
    rows[2]["label"] = " "
    assert "row 3: the column 'label' is empty" in refused(write(rows))


def test_an_unknown_label(write, rows):
    message = refused(write(rows), labels=["Plus", "Minus"])
    assert "unknown label 'Zero'; the labels are Plus, Minus" in message


def test_an_empty_class(write, rows):
    message = refused(write(rows), labels=["Plus", "Zero", "Minus"])
    assert "the class 'Minus' is empty" in message


def test_a_class_that_only_queries_have_is_empty(write, rows):
    pool, test = write(rows, "pool.jsonl"), write([{"text": "a", "label": "Odd"}], "test.jsonl")
    assert "the class 'Odd' is empty" in refused(pool, test_file=test)


def test_one_label_is_no_task(write):
    assert "two distinct labels" in refused(write([{"text": "a", "label": "x"}] * 9))


def test_one_row_leaves_no_examples(write):
    path = write([{"text": "a", "label": "x"}])
    assert "no examples, or no queries" in refused(path, labels=["x", "y"])


def test_an_unknown_name_lists_the_known():
    assert "unknown task 'imdb': give one of agnews, trec" in refused("imdb")


def test_a_known_task_brings_its_own_columns():
    assert "text_column: only for a task file" in refused("trec", text_column="q")


def test_without_data_the_error_names_both_remedies(monkeypatch):
    monkeypatch.delenv("DPICL_RAG_DATA", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingDependencyError, match=r"DPICL_RAG_DATA.*pip install datasets"):
        load_task("agnews")
    with pytest.raises(ConfigurationError, match=r"mitg_train\.jsonl\.gz"):
        load_task("mitg")


def test_a_data_folder_without_the_task(monkeypatch, tmp_path):
    monkeypatch.setenv("DPICL_RAG_DATA", str(tmp_path))
    assert "agnews_pool.jsonl.gz: there is no such task file" in refused("agnews")


@pytest.mark.parametrize(
    ("name", "rows", "final"),
    [
        ("agnews", {"text": "t", "label": 3}, "Technology"),
        ("trec", {"text": "t", "coarse_label": 0}, "Abbreviation"),
        ("dbpedia", {"title": "x", "content": "t", "label": 13}, "Book"),
        ("gsm8k", {"question": "t", "answer": "why\n#### 1,234"}, "1"),
        ("sst2", {"idx": 0, "sentence": "t ", "label": 1}, "Positive"),
        ("amazon", {"title": "", "content": "t", "label": 0}, "Negative"),
    ],
)
def test_rows_of_the_hub_become_those_of_the_folder(monkeypatch, name, rows, final):
    import sys
    import types

    from dpicl_research import tasks

    fake = types.SimpleNamespace(load_dataset=lambda *_, split, **__: [[rows] for _ in split])
    monkeypatch.setitem(sys.modules, "datasets", fake)
    monkeypatch.delenv("DPICL_RAG_DATA", raising=False)
    monkeypatch.setattr(tasks, "_checked", lambda task: task)
    task = load_task(name)
    assert [(i.text, i.answer) for i in (*task.pool, *task.test)] == [("t", final)] * 2


@pytest.mark.parametrize("name", TASK_NAMES)
def test_the_real_data(monkeypatch, data_folder, name):
    monkeypatch.setenv("DPICL_RAG_DATA", str(data_folder))
    try:
        task = load_task(name)
    except ConfigurationError:
        if name != "amazon":
            raise
        pytest.skip("the data folder does not have amazon")
    assert len(task.pool) > 1500
    assert len(task.test) > 400
    if task.labels:
        # Of GSM8K's answers one is 0, and it stands in the pool.
        never = {"0"} if name == "gsm8k" else set()
        assert set(Counter(item.answer for item in task.test)) == set(task.labels) - never
    else:
        for item in task.pool:
            assert item.answer in item.candidates
            assert item.shown.split()[0] == item.answer
            assert item.text.split()[0] in item.candidates
