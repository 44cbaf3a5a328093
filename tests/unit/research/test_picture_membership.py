"""Attacks on pictures: contexts and others, leaks that are found, and runs that go on."""

from __future__ import annotations

import json

import pytest
import torch

from dpicl_rag.accounting import Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_research import picture_membership
from dpicl_research.image_tasks import load_image_task
from dpicl_research.membership import build_membership_report
from dpicl_research.picture_membership import members_and_others
from dpicl_research.pseudo_names import NAMES, arms, named_classes
from dpicl_research.scores_folder import load_run
from dpicl_research.vision_prototype import VisionPrototype
from tests.support.images import ColourNetwork, an_image, unreadable

BUDGET = Budget(4.0, 1e-5)
SIDE = ColourNetwork.side


@pytest.fixture
def folder(tmp_path):
    """Six colours, eight shades each in the half to learn from, so unlike that each is known."""
    for place in range(6):
        for number in range(10):
            half = "test" if number > 7 else "train"
            file = tmp_path / "colours" / half / f"colour {place}" / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            shade = (40 * place, 255 - 30 * number, (97 * number + 31 * place) % 256)
            file.write_bytes(an_image(shade, size=(8, 8)))
    return tmp_path / "colours"


@pytest.fixture
def task(folder):
    return load_image_task(folder)


@pytest.fixture
def go(task, tmp_path):
    def go(*names, sizes=(1,), seeds=12, model=None, on_progress=None, pairs=4):
        chosen = arms(names or ("zero-shot", "k-shot", "soft", "poe"), sizes)
        picture_membership.run(
            model or VisionPrototype(ColourNetwork(), temperature=0.01),
            task,
            chosen,
            tmp_path / "run",
            pairs=pairs,
            seeds=seeds,
            epsilon=BUDGET.epsilon,
            delta=BUDGET.delta,
            on_progress=on_progress,
        )
        run = load_run(tmp_path / "run")
        report = build_membership_report(run, [arm.method for arm in chosen], BUDGET)
        return {line.path: line for line in report.lines}

    return go


def test_members_are_the_context_and_the_others_are_none_of_it(task):
    contexts = set()
    for seed in range(20):
        both = members_and_others(task, seed, 4, SIDE)
        digests = [example.picture.digest for example in both]
        assert len(both) == len(set(digests)) == 8
        assert members_and_others(task, seed, 4, SIDE) == both
        names = {NAMES[n] for n in named_classes(task, seed).values()}
        assert {example.label for example in both} <= names == set(NAMES)
        contexts.add(tuple(digests[:4]))
    assert len(contexts) == 20


def test_a_context_that_leaks_is_found_and_a_private_label_keeps_to_its_bound(go):
    told = []
    found = go(on_progress=lambda *at: told.append(at))
    assert told[-1] == (12 * 8, 12 * 8)
    assert list(found) == ["zero-shot", "k-shot", "soft", "hard", "poe"]
    assert found["zero-shot"].likelihood_ratio.auroc == 0.5
    # A picture is most like itself.
    assert found["k-shot"].likelihood_ratio.auroc > 0.75
    assert found["k-shot"].released.auroc > 0.6
    assert 0.5 < found["poe"].released.auroc <= found["poe"].bound
    assert found["poe"].released.auroc < found["k-shot"].released.auroc


def test_a_model_that_learns_nothing_leaks_nothing(go):
    class Deaf:
        """Says of a picture what it says without any context."""

        fingerprint, side = "deaf", SIDE

        def label_log_probs(self, examples, query, labels):
            digits = [int(query.digest[i], 16) / 4 for i in range(len(labels))]
            return torch.log_softmax(torch.tensor(digits, dtype=torch.float64), dim=0)

    found = go("zero-shot", "k-shot", "poe", model=Deaf())
    attack = found["k-shot"].likelihood_ratio
    assert (attack.low, attack.auroc, attack.high) == (0.5, 0.5, 0.5)
    assert found["poe"].released.low <= 0.5 <= found["poe"].released.high


def test_groups_have_lines_of_their_own(go):
    found = go("poe", "votes", sizes=(1, 2))
    assert {"poe", "poe, 2 per expert", "votes", "votes, 2 per expert"} <= set(found)


def test_a_killed_run_goes_on(go, monkeypatch):
    class Killed(Exception):
        pass

    def kill(done, total):
        if done == 20:
            raise Killed

    with pytest.raises(Killed):
        go(on_progress=kill)
    told = []
    go(on_progress=lambda done, total: told.append(done))
    assert told[0] == 21
    monkeypatch.setattr(picture_membership, "rows_of_pairs", lambda *a: pytest.fail("read again"))
    assert go()


def test_pictures_that_cannot_be_read_are_passed_over(go, folder):
    for wrong, content in unreadable().items():
        (folder / "train" / "colour 1" / f"{wrong}.png").write_bytes(content)
    task = load_image_task(folder)
    assert len(task.pool) > 48
    for seed in range(10):
        assert len(members_and_others(task, seed, 10, SIDE)) == 20


def test_what_is_refused(go, task):
    with pytest.raises(ConfigurationError, match="fewer than 42 pictures"):
        go(pairs=21)
    with pytest.raises(ConfigurationError, match="at least 1"):
        go(pairs=0)
    go()
    with pytest.raises(ConfigurationError, match="other settings"):
        go(pairs=3)


def test_the_report_is_that_of_texts(go, tmp_path):
    go()
    run = load_run(tmp_path / "run")
    report = build_membership_report(run, [a.method for a in arms(("poe",), (1,))], BUDGET)
    assert "12 seeds x 8 examples" in report.heading()
    assert json.loads(json.dumps(report.summary()))["complete"]
