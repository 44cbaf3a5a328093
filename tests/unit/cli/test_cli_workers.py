"""``--workers``: the same answers, labels and scores from Ray workers."""

from __future__ import annotations

import json

import pytest

from tests.support.fake_ray import install


@pytest.fixture
def ray(monkeypatch):
    return install(monkeypatch)


def test_answers_and_labels_come_from_workers(cli, mail, ray, secret):
    options = ("--corpus", mail, "--max-tokens", "3", "--no-ledger", "--json")
    asked = cli("ask", "What?", *options, "--workers", "2")
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["stopped_by"] in ("end", "length")
    assert ray.started == 2
    labels = ("--label", "yes", "--label", "no", "--corpus", mail, "--no-ledger")
    assert cli("classify", "Is it?", *labels, "--workers", "3").exit_code == 0
    assert ray.started == 5
    assert secret not in asked.output


def test_scores_are_the_same_from_workers(cli, home, ray):
    source = home / "words.jsonl"
    rows = [{"text": f"word {n}", "label": "odd" if n % 2 else "even"} for n in range(15)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for words in ((), ("--workers", "2")):
        out = home / f"run{len(words)}"
        size = ("--experts", "3", "--seeds", "1", "--queries", "3", "--text-tokens", "12")
        task = ("--task", str(source), "--methods", "soft,poe,poe-prior", "--out", str(out))
        done = cli("evaluate", "run", *task, *size, *words)
        assert done.exit_code == 0, done.output
        found.append((out / "scores.jsonl").read_text())
    assert found[0] == found[1]
    assert ray.started == 2
