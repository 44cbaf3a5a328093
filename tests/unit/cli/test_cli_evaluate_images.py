"""``evaluate images`` on a user's own folder."""

from __future__ import annotations

import json

import pytest

from dpicl_research import vision_prototype
from tests.support.images import ColourNetwork, an_image, unreadable
from tests.support.tiny_vision_folders import save_tiny_qwen


@pytest.fixture
def photos(home, monkeypatch):
    monkeypatch.setattr(vision_prototype, "EfficientNetLite", ColourNetwork)
    root = home / "photos"
    for name, colour in {"rose": (250, 0, 0), "sky": (0, 0, 250), "grass": (0, 250, 0)}.items():
        (root / name).mkdir(parents=True)
        for number in range(10):
            content = an_image(tuple(abs(c - number) for c in colour), size=(8, 8))
            (root / name / f"{number}.png").write_bytes(content)
    return root


@pytest.fixture
def evaluate(cli, photos, home):
    def run(*words):
        options = ("--seeds", "4", "--pairs", "2,3", "--out", str(home / "run"))
        return cli("evaluate", "images", str(photos), *options, *words)

    return run


def test_a_folder_of_pictures_ends_with_a_table(evaluate):
    result = evaluate()
    assert result.exit_code == 0, result.output
    assert "photos: made-up names, 4 seeds" in result.stdout
    for words in ("poe", "votes-gaussian", "k-shot", "no noise", "3 pairs"):
        assert words in result.stdout


def test_json_is_one_object_and_the_same_again(evaluate):
    first = evaluate("--json")
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert found["seeds"] == 4
    assert {line["epsilon"] for line in found["lines"]} == {None, 1.0, 4.0, 8.0}
    assert evaluate("--json", "--quiet").stdout == first.stdout


@pytest.mark.one_in(2)
@pytest.mark.parametrize("command", ["images", "membership-images"])
def test_the_folder_of_a_vision_language_model_is_read(cli, photos, home, command):
    model = str(save_tiny_qwen(home / "qwen"))
    words = ("--model", model, "--seeds", "2", "--pairs", "2", "--methods", "k-shot,poe")
    found = cli("evaluate", command, str(photos), *words, "--out", str(home / "own"), "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["complete"]
    head = json.loads((home / "own" / "run.json").read_text())
    assert head["settings"]["model"].startswith("vision-language 1")


@pytest.mark.parametrize("wrong", sorted(unreadable()))
def test_a_damaged_picture_is_not_told_of(evaluate, photos, wrong):
    (photos / "rose" / "secret-3.png").write_bytes(unreadable()[wrong])
    result = evaluate("--methods", "poe")
    assert result.exit_code == 0
    assert "secret" not in result.output
    assert "4 seeds" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--epsilon", "0"), "numbers above 0"),
        (("--pairs", "two"), "numbers above 0"),
        (("--methods", "nonsense"), "no method is called"),
        (("--pairs", "99"), "give fewer pairs"),
        (("--model", "./no-model"), "cannot load the vision-language model"),
    ],
)
def test_errors_are_one_line(evaluate, words, says, home, monkeypatch):
    monkeypatch.chdir(home)
    (home / "no-model").mkdir()
    result = evaluate(*words)
    assert result.exit_code != 0
    assert says in " ".join(result.stderr.split())


def test_a_run_is_not_taken_for_another_kind(evaluate, cli, home):
    assert evaluate().exit_code == 0
    result = cli("evaluate", "report", str(home / "run"))
    assert result.exit_code == 1
    assert "evaluate images" in result.stderr


def test_membership_of_pictures_is_attacked_and_reported(cli, photos, home, monkeypatch):
    words = ("--seeds", "2", "--pairs", "3", "--methods", "k-shot,poe", "--out", str(home / "run"))
    result = cli("evaluate", "membership-images", str(photos), *words, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["seeds"], found["examples"], found["epsilon"]) == (2, 6, 4.0)
    assert [line["path"] for line in found["attacks"]][-1] == "poe"
    again = cli("evaluate", "report", str(home / "run"), "--json")
    assert json.loads(again.stdout) == found
    refused = cli("evaluate", "membership-images", str(photos), "--pairs", "99", "--quiet")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "give fewer pairs" in refused.stderr
