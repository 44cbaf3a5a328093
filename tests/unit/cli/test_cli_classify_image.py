"""``classify-image`` on a user's own folders."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from dpicl_rag.configuration import ImageMethodName, MethodName
from dpicl_research import vision_prototype
from tests.support.images import ColourNetwork, an_image, unreadable
from tests.support.tiny_vision_folders import save_tiny_qwen


@pytest.fixture
def photos(home, monkeypatch):
    monkeypatch.setattr(vision_prototype, "EfficientNetLite", ColourNetwork)
    root = home / "photos"
    for name, colour in {"rose": (250, 0, 0), "sky": (0, 0, 250)}.items():
        (root / name).mkdir(parents=True)
        for number in range(10):
            content = an_image(tuple(abs(c - number) for c in colour))
            (root / name / f"{number}.png").write_bytes(content)
    (home / "query.png").write_bytes(an_image((255, 30, 30)))
    return root


@pytest.fixture
def classify(cli, photos, home):
    def run(*words, query="query.png"):
        given = (str(home / query), str(photos), "--label", "rose", "--label", "sky")
        return cli("classify-image", *given, "--model", "vision-prototype", *words)

    return run


def test_a_label_is_drawn_and_booked_to_the_folder(classify, spending):
    result = classify("--epsilon", "4")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == ["rose", "spent: epsilon 4, delta 0, rho 2"]
    assert spending("photos").spent == 2.0


def test_groups_a_method_and_a_corpus(classify, spending):
    words = ("--groups", "5", "--method", "votes-gaussian", "--corpus", "album", "--json")
    result = classify(*words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["label"], found["delta"]) == ("rose", 1e-5)
    assert spending("album").spent == pytest.approx(found["rho"])


def test_without_a_ledger_nothing_is_recorded(classify, spending):
    assert "(not recorded)" in classify("--no-ledger").stdout
    with pytest.raises((ValueError, OSError)):
        spending("photos")


@pytest.mark.parametrize("wrong", sorted(unreadable()))
def test_a_damaged_picture_is_not_told_of(classify, photos, wrong):
    before = classify("--no-ledger")
    (photos / "rose" / "secret.png").write_bytes(unreadable()[wrong])
    after = classify("--no-ledger")
    assert (after.exit_code, after.stdout, after.stderr) == (0, before.stdout, before.stderr)


def test_a_folder_without_pictures_is_answered_too(classify, photos, spending):
    """Whether there is one would be told by an error."""
    for picture in sorted(photos.rglob("*.png")):
        picture.unlink()
    result = classify("--epsilon", "4")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] in ("rose", "sky")
    assert spending("photos").spent == 2.0


def test_the_folder_of_a_vision_language_model_is_read(classify, home, spending, monkeypatch):
    """Qwen2.5-VL with random weights: nothing stands in for it."""
    monkeypatch.delattr(vision_prototype, "EfficientNetLite")
    model = save_tiny_qwen(home / "qwen")
    result = classify("--model", str(model), "--epsilon", "4", "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert found["label"] in ("rose", "sky")
    assert (found["epsilon"], spending("photos").spent) == (4.0, found["rho"])


def test_errors_are_one_line(classify, cli, home, photos):
    (home / "query.txt").write_text("no picture")
    refused = classify(query="query.txt")
    assert refused.exit_code == 1
    assert "the query is no JPEG or PNG image that can be read" in refused.stderr
    alone = cli("classify-image", str(home / "query.png"), str(photos), "--label", "rose")
    assert alone.exit_code == 2
    assert "at least two labels" in " ".join(alone.stderr.split())
    missing = cli(
        *("classify-image", str(home / "query.png"), str(home / "nowhere")),
        *("--label", "a", "--label", "b", "--model", "vision-prototype"),
    )
    assert missing.exit_code == 1
    assert "is no folder" in missing.stderr


def test_a_model_is_always_named(cli, photos, home):
    """What stands in for a model is none that somebody chose for private pictures."""
    given = (str(home / "query.png"), str(photos), "--label", "rose", "--label", "sky")
    refused = cli("classify-image", *given)
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "give --model, the folder or Hugging Face id" in refused.stderr


@pytest.mark.parametrize("method", get_args(MethodName))
def test_help_lists_the_methods_that_it_takes(classify, cli, method):
    listed = method in get_args(ImageMethodName)
    result = classify("--method", method, "--no-ledger")
    assert (result.exit_code == 0) == listed, result.output
    shown = "".join(cli("classify-image", "--help", env={"COLUMNS": "400"}).stdout.split())
    assert (f"|{method}|" in shown or f"<{method}|" in shown or f"|{method}>" in shown) == listed
