"""The pseudo-name task: draws, rows, intervals, and runs that go on."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy.stats import beta

from dpicl_rag.accounting import RANDOM_GROUPS, Budget
from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.methods import Groups, OneEach, make
from dpicl_research import pseudo_names
from dpicl_research.context_rows import Coins
from dpicl_research.image_tasks import load_image_task
from dpicl_research.pseudo_names import NAMES, arms, build_images_report, draw
from dpicl_research.scores_folder import Record, load_run
from dpicl_research.vision_prototype import VisionPrototype
from tests.support.images import ColourNetwork, an_image, unreadable

CLASSES = {
    "red": (250, 0, 0),
    "green": (0, 250, 0),
    "blue": (0, 0, 250),
    "teal": (0, 250, 250),
    "white": (250, 250, 250),
    "black": (0, 0, 0),
}


@pytest.fixture
def folder(tmp_path):
    """Six colours, eight pictures each in two halves."""
    root = tmp_path / "colours"
    for name, colour in CLASSES.items():
        for number in range(8):
            file = root / ("test" if number > 5 else "train") / name / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            shade = tuple(abs(part - number) for part in colour)
            file.write_bytes(an_image(shade, size=(8, 8)))
    return root


@pytest.fixture
def task(folder):
    return load_image_task(folder)


@pytest.fixture
def go(task, tmp_path):
    def go(
        *names, sizes=(1, 2), seeds=30, epsilons=(8.0,), task=task, model=None, on_progress=None
    ):
        chosen = arms(names or pseudo_names.METHODS, sizes)
        pseudo_names.run(
            model or VisionPrototype(ColourNetwork()),
            task,
            chosen,
            tmp_path / "run",
            pairs=(2, 6),
            seeds=seeds,
            epsilon=8.0,
            delta=1e-5,
            on_progress=on_progress,
        )
        return build_images_report(load_run(tmp_path / "run"), chosen, epsilons, 1e-5)

    return go


def test_a_seed_draws_classes_a_context_and_a_query(task):
    everything = (*task.pool, *task.test)
    seen = set()
    for seed in range(40):
        drawn = draw(task, seed, 6)
        assert draw(task, seed, 2).context == drawn.context[:2]
        named = {}
        for place, name in (*drawn.context, (drawn.query, drawn.right)):
            assert 0 <= name < len(NAMES)
            assert named.setdefault(everything[place].text, name) == name
        assert len(set(named.values())) == len(named)
        assert drawn.query >= len(task.pool) > max(place for place, _ in drawn.context)
        seen.add((everything[drawn.query].text, drawn.right))
    # Every class is asked for, under several names.
    assert {label for label, _ in seen} == set(CLASSES)
    assert len(seen) > 20


@pytest.mark.heavy
def test_every_arm_has_a_line_with_its_interval(go):
    told = []
    report = go(epsilons=(1.0, 8.0), on_progress=lambda *at: told.append(at))
    assert told[-1] == (30, 30)
    # Two without experts, two noiseless and four private ones of two sizes, two epsilons each.
    assert len(report.lines) == 2 * (2 + 2 * 2 + 4 * 2 * 2)
    for line in report.lines:
        right = round(line.accuracy * 30)
        assert line.accuracy == right / 30
        assert line.low == pytest.approx(beta.ppf(0.025, right, 31 - right) if right else 0)
        assert line.high == pytest.approx(
            beta.ppf(0.975, right + 1, 30 - right) if right < 30 else 1
        )
        assert line.low - 0.1 < line.expected < line.high + 0.1
    found = {(e.method, e.group_size, e.pairs, e.epsilon): e.expected for e in report.lines}
    assert found["zero-shot", None, 6, None] < 0.5
    assert found["k-shot", None, 2, None] < found["k-shot", None, 6, None]
    assert found["soft", 1, 6, None] == pytest.approx(found["k-shot", None, 6, None], abs=0.2)
    for method in ("poe", "votes", "votes-gaussian", "permute-and-flip"):
        for size in (1, 2):
            assert found[method, size, 6, 1.0] < found[method, size, 6, 8.0]
    table = report.tables()[0]
    assert table.columns == ("method", "per expert", "epsilon", "2 pairs", "6 pairs")
    assert len(table.rows) == len(report.lines) / 2
    assert "colours: made-up names, 30 seeds" in report.markdown()
    assert json.loads(json.dumps(report.summary()))["complete"]


def test_groups_are_charged_twice(go):
    """The noise of a group is that of a changed expert, and its rows are those of the coins."""
    report = go("poe", seeds=3)
    record = report.run.records[0]
    lone, grouped = (make("poe", group_size=size) for size in (1, 2))
    budget = Budget(8.0, 1e-5)
    assert grouped.calibrate(budget).parameter == lone.calibrate(budget).parameter / 2
    assert grouped.calibrate(budget).event == lone.calibrate(budget.then(RANDOM_GROUPS)).event
    assert lone.layouts(6) == (OneEach(),)
    assert grouped.layouts(6) == (Groups(3),)
    subsets = [s for s in Coins(record.seed, 0).subsets(Groups(3), 6) if s]
    views = pseudo_names._views(record, grouped.layouts(6), 6)
    assert len(views[Groups(3)]) == len(subsets)
    assert sorted(place for subset in subsets for place in subset) == list(range(6))


def test_noiseless_experts_come_in_groups_too():
    assert make("soft", group_size=2).layouts(8) == (Groups(4),)
    assert make("hard").layouts(8) == (OneEach(),)
    with pytest.raises(ConfigurationError, match="no parameter group_size"):
        make("k-shot", group_size=2)
    with pytest.raises(ConfigurationError, match="group_size"):
        make("soft", group_size=0)


def test_a_killed_run_goes_on_and_asks_for_nothing_twice(go):
    class Killed(Exception):
        pass

    def kill(done, total):
        if done == 4:
            raise Killed

    with pytest.raises(Killed):
        go("poe", seeds=9, on_progress=kill)
    model = VisionPrototype(ColourNetwork())
    asked = []
    original = model.label_log_probs
    model.label_log_probs = lambda *given: asked.append(given[0]) or original(*given)
    whole = go("poe", seeds=9, model=model)
    assert 0 < len(asked) <= 5 * 14
    model.label_log_probs = lambda *given: pytest.fail("asked again")
    assert go("poe", seeds=9, model=model).lines == whole.lines
    with pytest.raises(ConfigurationError, match="other settings"):
        go("poe", seeds=8)


@pytest.mark.parametrize("wrong", ["cut off", "a bomb", "text"])
def test_pictures_that_cannot_be_read_are_nobodys_row(go, folder, wrong):
    for half in ("train", "test"):
        for file in sorted(folder.glob(f"{half}/*/*.png"))[::2]:
            file.write_bytes(unreadable()[wrong])
    report = go("zero-shot", "soft", "poe", task=load_image_task(folder))
    assert report.summary()["complete"]
    rows = [len(record.rows) for record in report.run.records]
    assert 0 in rows  # nothing is said of a query that is none
    assert max(rows) > 4
    assert all(0 <= line.expected <= 1 for line in report.lines)


def test_nothing_said_is_a_guess():
    record = Record(0, 0, NAMES, 1, {})
    for name in pseudo_names.METHODS:
        (arm,) = arms([name], [2])
        views = pseudo_names._views(record, arm.method.layouts(4), 4)
        found = arm.method.distribution(views, arm.method.calibrate(Budget(1.0, 1e-5)))
        assert torch.allclose(found, torch.full((5,), 0.2).double())


def test_a_folder_without_halves_and_an_archive_are_tasks_too(folder, tmp_path, task):
    flat = tmp_path / "flat"
    for file in sorted(folder.glob("*/*/*.png")):
        (flat / file.parent.name).mkdir(parents=True, exist_ok=True)
        (flat / file.parent.name / file.name).write_bytes(file.read_bytes())
    held_out = load_image_task(flat)
    assert (len(held_out.pool), len(held_out.test)) == (36, 12)
    assert held_out.digest() != task.digest()
    with tarfile.open(tmp_path / "colours.tar.gz", "w:gz") as archive:
        archive.add(folder, "somewhere/colours")
        archive.add(Path(__file__), "train/red/notes.txt")
    packed = load_image_task(tmp_path / "colours.tar.gz")
    assert packed.digest() == task.digest()
    assert packed.name == "colours"


def test_what_is_no_task_is_refused(folder, tmp_path, monkeypatch, task, go):
    monkeypatch.delenv("DPICL_RAG_DATA", raising=False)
    with pytest.raises(
        ConfigurationError, match="give a folder of pictures, or set DPICL_RAG_DATA"
    ):
        load_image_task()
    (tmp_path / "x.tar").write_bytes(b"no archive")
    with pytest.raises(LoaderError, match="not an archive"):
        load_image_task(tmp_path / "x.tar")
    with pytest.raises(LoaderError, match="is no folder"):
        load_image_task(tmp_path / "missing")
    one = replace(task, pool=task.pool[:3])
    with pytest.raises(ConfigurationError, match="give fewer pairs"):
        go("poe", task=one)
    for name in ("sampling", "poe-prior"):
        with pytest.raises(ConfigurationError, match="has no rows of pictures"):
            arms([name], [1])
    for name in CLASSES.keys() - {"red"}:
        for file in (folder / "test" / name).iterdir():
            file.unlink()
    with pytest.raises(ConfigurationError, match="at least two classes"):
        load_image_task(folder)
