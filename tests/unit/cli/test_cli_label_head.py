"""`synthesise labels` and `classify --released`: paid once, free afterwards."""

from __future__ import annotations

import json

import pytest

from tests.support.bucket_embedder import BucketEmbedder

BASE = ("--labels", "sun,rain", "--epsilon", "8")


@pytest.fixture
def table(home, monkeypatch):
    monkeypatch.setattr("dpicl_rag.cli.data_folder.load_embedder", lambda *_: BucketEmbedder())
    path = home / "private.csv"
    rows = [f"{w} {n},{k},who{n}" for n in range(80) for k, w in KINDS]
    path.write_text("\n".join(["text,label,owner", *rows]) + "\n")
    return path


KINDS = (("sun", "warm bright day"), ("rain", "wet grey cloud"), ("snow", "cold white flake"))


def test_a_head_is_paid_once_and_its_labels_are_free(cli, home, table, spending):
    assert cli("budget", "set", "--corpus", "notes", "--epsilon", "8").exit_code == 0
    words = ("synthesise", "labels", str(table), *BASE, "--corpus", "notes", "--out")
    first = cli(*words, str(home / "head"))
    assert first.exit_code == 0, first.output
    assert "--released" in first.output
    assert "spent: epsilon 8" in first.output
    spent = spending("notes").spent
    assert spent > 0
    assert cli(*words, str(home / "head")).stdout == first.stdout
    for text, label in (("a warm bright day", "sun"), ("a wet grey cloud", "rain")):
        told = cli("classify", text, "--released", str(home / "head"))
        assert told.stdout.splitlines()[0] == label
        assert "free" in told.stdout
    found = cli("classify", "warm day", "--released", str(home / "head" / "release.json"), "--json")
    assert json.loads(found.stdout)["rho"] == 0
    assert spending("notes").spent == spent
    second = cli(*words, str(home / "other"))
    assert (second.exit_code, (home / "other").exists()) == (1, False)
    assert "bright" not in (home / "head" / "release.json").read_text()


def test_a_plan_reads_nothing_and_refusals_are_one_line(cli, home, table):
    planned = cli("synthesise", "labels", str(home / "absent.csv"), *BASE, "--plan", "--json")
    assert json.loads(planned.stdout)["epsilon"] == 8
    for words, said in (
        ((), "--out"),
        (("--adjacency", "any", "--out", str(home / "x")), "replace_one"),
        (("--label-column", "kind", "--out", str(home / "x")), "no column 'kind'"),
    ):
        refused = cli("synthesise", "labels", str(table), *BASE, *words)
        assert refused.exit_code == 1
        assert said in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
    assert "there is no release" in cli("classify", "x", "--released", str(home)).stderr
    assert cli("classify", "x", "--label", "a", "--label", "b").exit_code == 2
