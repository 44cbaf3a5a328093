"""Scores of a run: shared work is exact work, and a killed run goes on where it stopped."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.methods import (
    METHODS,
    ContentFree,
    Groups,
    OneEach,
    OnePrompt,
    Subsampled,
    ZeroShot,
    make,
)
from dpicl_rag.prompts import CONTENT_FREE
from dpicl_research import paper_protocol
from dpicl_research.context_rows import LeaveOneOut
from dpicl_research.label_scores import Scorer
from dpicl_research.paper_protocol import context_of, queries_of, wanted_layouts
from dpicl_research.scores_folder import Reporting, load_run
from dpicl_research.tasks import Item, Task, Template

WANTED = tuple((layout, n) for n in (2, 4) for layout in (ZeroShot(), OneEach(), OnePrompt()))
REPORTING = Reporting(("soft",), 4.0, 1e-5)


def run(model, task, folder, wanted=WANTED, **changes):
    options = {"seeds": 2, "queries": 3, "text_tokens": 16, **changes}
    paper_protocol.run(model, task, wanted, folder, REPORTING, **options)
    return load_run(folder)


def naive(model, task, context, query, text_tokens=16):
    """Label log-probabilities of one prompt by itself, all its tokens in one row."""

    def cut(text):
        return model.tokenizer.encode(f" {text}")[:text_tokens]

    template = task.template
    tokens = model.tokenizer.encode_template(template.header)
    for item in context:
        tokens += model.tokenizer.encode(template.opening) + cut(item.text)
        tokens += model.tokenizer.encode(f"\n{template.closing} {item.shown}\n\n")
    tokens += model.tokenizer.encode(template.opening) + cut(query)
    tokens += model.tokenizer.encode(f"\n{template.closing}")
    labels = [model.tokenizer.encode(f" {label}") for label in task.labels]
    rows = model.read([], [tuple(tokens[:1])], room=len(tokens) + 20)
    rows.extend(tokens[1:])
    return rows.score(labels).public


@pytest.mark.heavy
def test_shared_rows_equal_prompts_read_one_by_one(tiny_model, task, tmp_path):
    wanted = [*WANTED, (Subsampled(6, 0.5), 4), (LeaveOneOut(), 4)]
    wanted.append((ContentFree(OneEach()), 2))
    found = run(tiny_model.with_cache(PrefixCache()), task, tmp_path / "run", wanted, seeds=1)
    context = context_of(task, 0, 4)
    checked = 0
    for record, query in zip(found.records, queries_of(task, 0, 3, "accuracy"), strict=True):
        for subset, row in record.rows.items():
            expected = naive(tiny_model, task, [context[i] for i in subset], query.text)
            assert row == pytest.approx(expected.tolist(), abs=1e-4)
            checked += 1
        assert set(record.content_free) == {(0,), (1,)}
        for (i,), row in record.content_free.items():
            expected = naive(tiny_model, task, [context[i]], CONTENT_FREE)
            assert row == pytest.approx(expected.tolist(), abs=1e-4)
        assert record.labels[record.right] == query.answer
        assert torch.allclose(
            record.view(OnePrompt(), 2), torch.tensor([record.rows[0, 1]]).double(), atol=1e-6
        )
    assert checked > 3 * 10


def test_each_distinct_row_is_read_once(tiny_model, task, tmp_path, monkeypatch):
    asked = []
    original = Scorer.score

    def score(self, context, query, choice, subsets):
        asked.append(list(subsets))
        return original(self, context, query, choice, subsets)

    monkeypatch.setattr(Scorer, "score", score)
    run(tiny_model, task, tmp_path / "run", seeds=1, queries=1)
    # Zero-shot, four single examples, the first two together, all four together.
    assert asked == [[(), (0,), (0, 1), (0, 1, 2, 3), (1,), (2,), (3,)]]


def test_every_method_finds_its_rows(tiny_model, task, tmp_path):
    methods = [make(name) for name in METHODS]
    found = run(tiny_model, task, tmp_path / "run", wanted_layouts(methods, [2, 4]), seeds=1)
    for method in methods:
        for n in (2, 4):
            for layout in method.layouts(n):
                view = found.records[0].view(layout, n)
                assert view.dtype == torch.float64
                assert view.shape[1] == 2
                assert torch.allclose(view.exp().sum(1), torch.ones(len(view)).double())


def test_contexts_are_nested_and_differ_between_seeds(task):
    assert context_of(task, 0, 2) == context_of(task, 0, 5)[:2]
    assert len({context_of(task, seed, 5) for seed in range(8)}) > 4
    assert len(set(context_of(task, 0, 6))) == 6
    assert len({queries_of(task, seed, 3, "accuracy") for seed in range(8)}) > 4


@pytest.mark.heavy
def test_a_killed_run_goes_on_and_ends_like_an_uninterrupted_one(tiny_model, task, tmp_path):
    whole = run(tiny_model, task, tmp_path / "whole")

    class KilledError(Exception):
        pass

    def kill(done, total):
        if done == 4:
            raise KilledError

    with pytest.raises(KilledError):
        run(tiny_model, task, tmp_path / "cut", on_progress=kill)
    file = tmp_path / "cut" / "scores.jsonl"
    assert not load_run(tmp_path / "cut").complete
    with file.open("a") as stream:
        stream.write('{"seed": 1, "quer')  # the line that was being written
    assert len(load_run(tmp_path / "cut").records) == 4
    seen = []
    resumed = run(tiny_model, task, tmp_path / "cut", on_progress=lambda d, t: seen.append((d, t)))
    assert seen == [(5, 6), (6, 6)]
    assert resumed.complete
    assert resumed.records == whole.records
    assert file.read_bytes() == (tmp_path / "whole" / "scores.jsonl").read_bytes()


def test_a_finished_run_asks_the_model_nothing(tiny_model, task, tmp_path, monkeypatch):
    run(tiny_model, task, tmp_path / "run")
    monkeypatch.setattr(Scorer, "score", lambda *a: pytest.fail("the model was asked"))
    assert run(tiny_model, task, tmp_path / "run").complete


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seeds": 3}, "seeds"),
        ({"queries": 2}, "queries"),
        ({"text_tokens": 8}, "text_tokens"),
        ({"wanted": WANTED[:3]}, "experts, layouts"),
        ({"wanted": WANTED[:-1]}, "layouts"),
    ],
)
def test_another_run_in_the_folder_is_refused(tiny_model, task, tmp_path, change, named):
    run(tiny_model, task, tmp_path / "run")
    before = (tmp_path / "run" / "scores.jsonl").read_bytes()
    with pytest.raises(ConfigurationError, match=rf"other settings \({named}\)"):
        run(tiny_model, task, tmp_path / "run", **change)
    assert (tmp_path / "run" / "scores.jsonl").read_bytes() == before


def test_another_task_of_the_same_name_is_refused(tiny_model, task, tmp_path):
    run(tiny_model, task, tmp_path / "run")
    other = dataclasses.replace(task, pool=task.pool[::-1])
    with pytest.raises(ConfigurationError, match=r"other settings \(data\)"):
        run(tiny_model, other, tmp_path / "run")


def test_two_processes_do_not_share_a_folder(tiny_model, task, tmp_path):
    def again(done, total):
        with pytest.raises(ConfigurationError, match="another evaluation is running"):
            run(tiny_model, task, tmp_path / "run")

    run(tiny_model, task, tmp_path / "run", seeds=1, queries=1, on_progress=again)


def test_damaged_folders(tiny_model, task, tmp_path):
    with pytest.raises(ConfigurationError, match="holds no run"):
        load_run(tmp_path)
    run(tiny_model, task, tmp_path / "run")
    file = tmp_path / "run" / "scores.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:20], *lines[2:]]) + "\n")
    with pytest.raises(ConfigurationError, match="line 2: damaged"):
        load_run(tmp_path / "run")
    settings = tmp_path / "run" / "run.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "version": 99}))
    with pytest.raises(ConfigurationError, match="another version"):
        load_run(tmp_path / "run")
    settings.write_text("{")
    with pytest.raises(ConfigurationError, match=r"run\.json cannot be read"):
        load_run(tmp_path / "run")
    settings.unlink()
    with pytest.raises(ConfigurationError, match=r"without their run\.json"):
        run(tiny_model, task, tmp_path / "run")


def test_fewer_examples_than_experts(tiny_model, task, tmp_path):
    with pytest.raises(ConfigurationError, match="has 6 examples, and 7 experts"):
        run(tiny_model, task, tmp_path / "run", [(OneEach(), 7)])
    assert not (tmp_path / "run").exists()


def test_fewer_test_items_than_queries(tiny_model, task, tmp_path):
    with pytest.raises(ConfigurationError, match="has 4 queries, and 5 were asked for"):
        run(tiny_model, task, tmp_path / "run", queries=5)


def test_prompts_that_do_not_fit_the_model(tiny_model, task, tmp_path):
    long = [dataclasses.replace(item, text="long " * 200) for item in task.pool]
    with pytest.raises(ConfigurationError, match="smaller --text-tokens, or fewer --experts"):
        run(
            tiny_model,
            dataclasses.replace(task, pool=tuple(long)),
            tmp_path / "run",
            text_tokens=900,
        )


def test_a_sample_must_fit_where_all_examples_would_not(tiny_model, task, tmp_path):
    long = [dataclasses.replace(item, text="long " * 200) for item in task.pool]
    wide = dataclasses.replace(task, pool=tuple(long))
    settings = {"seeds": 1, "queries": 1, "text_tokens": 600}
    with pytest.raises(ConfigurationError, match="4 examples in one prompt need"):
        run(tiny_model, wide, tmp_path / "all", [(OnePrompt(), 4)], **settings)
    found = run(tiny_model, wide, tmp_path / "run", [(Groups(4, 0.5), 4)], **settings)
    assert found.records[0].view(Groups(4, 0.5), 4).shape == (4, 2)


def test_queries_of_membership_are_the_context_and_as_many_others(tiny_model, task, tmp_path):
    wanted = [(ZeroShot(), 3), (OnePrompt(), 3)]
    found = run(tiny_model, task, tmp_path / "run", wanted, queries=6, kind="membership")
    assert found.settings.kind == "membership"
    for seed in range(2):
        items = queries_of(task, seed, 6, "membership")
        assert items[:3] == context_of(task, seed, 3)
        assert set(items) == set(task.pool)
    with pytest.raises(ConfigurationError, match="as many others"):
        run(tiny_model, task, tmp_path / "odd", wanted, queries=5, kind="membership")


@pytest.mark.parametrize("header", ["", "Sort the texts."])
def test_a_prompt_begins_as_the_tokenizer_begins_a_text(tiny_model, task, monkeypatch, header):
    monkeypatch.setattr(tiny_model.tokenizer, "start_tokens", (7,))
    headed = dataclasses.replace(task, template=dataclasses.replace(task.template, header=header))
    scorer = Scorer(tiny_model, headed, 16)
    seen = []
    monkeypatch.setattr(tiny_model, "read", lambda head, *_, **__: seen.append(head) or 1 / 0)
    query = task.pool[0]
    with pytest.raises(ZeroDivisionError):
        scorer.score([], query.text, scorer.choice(query), [()])
    assert seen == [[7, *tiny_model.tokenizer.encode(header)]]


def test_labels_that_begin_alike_are_read_once(tiny_model, task):
    digits = dataclasses.replace(task, labels=("17", "18", "19"))
    query = Item("a", "18", "18")
    choice = Scorer(tiny_model, digits, 16).choice(query)
    assert choice.lead == tuple(tiny_model.tokenizer.encode(" 1"))
    assert choice.continuations == tuple((tiny_model.tokenizer.encode(d)[0],) for d in "789")
    assert choice.right == 1


def test_extraction_compares_first_tokens_of_the_query_s_words(tiny_model, tmp_path):
    words = ("red", "rose", "blue")
    item = Item("red rose blue", "blue", "blue note", words)
    spans = Task("spans", Template("", "Sentence:", "Genre:"), (), (item,) * 3, (item,))
    # The tiny tokenizer has a token per byte, and a space begins every word.
    choice = Scorer(tiny_model, spans, 16).choice(item)
    assert (choice.labels, choice.right) == (("red", "blue"), 1)
    assert choice.lead == tuple(tiny_model.tokenizer.encode(" "))
    assert choice.continuations == tuple(tuple(tiny_model.tokenizer.encode(c)) for c in "rb")
    wanted = [(ZeroShot(), 2), (OneEach(), 2), (ContentFree(OneEach()), 2)]
    record = run(tiny_model, spans, tmp_path / "run", wanted, seeds=1, queries=1).records[0]
    assert record.view(OneEach(), 2).shape == (2, 2)
