"""`synthesise examples`: from a private table to texts."""

from __future__ import annotations

import json

import pytest

from tests.support.speaking_model import SpeakingModel

BASE = ("--labels", "x,y", "--epsilon", "2", "--max-tokens", "3")


@pytest.fixture
def table(home, monkeypatch):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", SpeakingModel)
    path = home / "private.csv"
    rows = [f"turn-{n % 3},{'xyz'[n % 3]},who{n}" for n in range(12)]
    path.write_text("\n".join(["text,label,owner", *rows]) + "\n")
    return path


def test_texts_are_written_and_the_same_command_shows_them_again(cli, home, table):
    words = ("synthesise", "examples", str(table), *BASE, "--unit", "owner", "--json")
    first = cli(*words, "--method", "few-shot", "--rate", "0.5", "--out", str(home / "run"))
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert [text["label"] for text in found["texts"]] == ["x", "y"]
    assert (found["epsilon"], found["rho"]) == (2.0, None)
    again = cli(*words, "--method", "few-shot", "--rate", "0.5", "--out", str(home / "run"))
    assert again.stdout == first.stdout
    shown = cli("synthesise", "show", str(home / "run"))
    assert "finished; 2 of 2" in shown.output


@pytest.mark.parametrize(
    "lines",
    [[], [{"text": "turn-0"}], [{"text": "turn-0", "label": "x"}], [{"label": "x"}], ["no JSON"]],
    ids=["nothing", "no label", "a label", "no text", "no JSON"],
)
def test_no_row_decides_whether_texts_are_written(cli, home, table, lines):
    path = home / "private.jsonl"
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{line}\n" for line in written))
    words = ("synthesise", "examples", str(path), *BASE, "--method", "difference")
    result = cli(*words, "--out", str(home / "run"))
    assert result.exit_code == 0, result.output
    assert [line.partition(":")[0] for line in result.stdout.splitlines()][:2] == ["x", "y"]
    assert len(result.stdout.splitlines()) == 3
    assert "private" not in result.stderr


def test_a_budget_pays_and_runs_out(cli, home, table, spending):
    assert cli("budget", "set", "--corpus", "mail", "--epsilon", "2").exit_code == 0
    words = ("synthesise", "examples", str(table), *BASE, "--method", "difference")
    first = cli(*words, "--corpus", "mail", "--out", str(home / "one"))
    assert first.exit_code == 0, first.output
    assert "spent: epsilon 2" in first.output
    assert spending("mail").spent > 0
    second = cli(*words, "--corpus", "mail", "--out", str(home / "two"))
    assert second.exit_code == 1
    assert "cannot pay" in second.output
    assert not (home / "two").exists()


def test_a_plan_reads_nothing(cli, home):
    words = ("synthesise", "examples", str(home / "absent.csv"), *BASE, "--plan")
    assert cli(*words).exit_code == 0
    plan = json.loads(cli(*words, "--method", "adaptive", "--rate", "0.1", "--json").stdout)
    assert 1.9 < plan["true_epsilon"] <= 2.0
    assert plan["tokens_that_a_unit_pays_for"] == 3
    assert "radius" in plan["noises"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--label-column", "kind"), "no column 'kind'"),
        (("--adjacency", "any"), "replace_one"),
        (("--method", "magic"), "one of exponential"),
        (("--method", "adaptive"), "public rate"),
    ],
)
def test_what_is_refused_is_one_line(cli, home, table, words, said):
    out = ("--out", str(home / "run"))
    result = cli("synthesise", "examples", str(table), *BASE, *out, *words)
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    folderless = cli("synthesise", "examples", str(table), *BASE)
    assert "--out" in folderless.stderr


NOISES = ("--radius-noise", "3", "--mean-noise", "1.5", "--count-noise", "2")
PUBLIC = ("--labels", "x,y", "--max-tokens", "3", "--rate", "0.5", "--method", "adaptive")


def test_constants_of_the_adaptive_method_make_the_price(cli, home, table):
    words = ("synthesise", "examples", str(table), *PUBLIC, *NOISES)
    planned = json.loads(cli(*words, "--plan", "--json").stdout)
    assert planned["epsilon"] == planned["true_epsilon"] > 0
    assert planned["noises"].startswith("Noises(radius=3.0, mean=1.5, count=2.0")
    assert "method" not in " ".join(map(str, planned.values()))  # of an object, such as its sigma
    made = json.loads(cli(*words, "--out", str(home / "run"), "--json").stdout)
    assert made["epsilon"] == planned["epsilon"]
    more = json.loads(cli(*words, "--rounds", "2", "--plan", "--json").stdout)
    assert more["epsilon"] > planned["epsilon"]
    less = cli(*words[:-6], *NOISES[2:], "--radius", "0.3", "--plan", "--json")
    assert json.loads(less.stdout)["epsilon"] < planned["epsilon"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*NOISES, "--epsilon", "1"), "give a larger epsilon, more noise"),
        (NOISES[2:], "give epsilon"),
        ((*NOISES, "--radius", "0.3"), "leave its noise out"),
        ((*NOISES, "--precision", "0"), "precision"),
        ((*NOISES[2:], "--epsilon", "1", "--method", "few-shot"), "no constants"),
    ],
)
def test_constants_that_are_refused_are_one_line(cli, home, table, words, said):
    result = cli("synthesise", "examples", str(table), *PUBLIC, *words, "--plan")
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--labels", "x,,y"), "public list of names"),
        (("--labels", ""), "public list of names"),
        (("--labels", "x,y,x"), "stands twice"),
        (("--method", "adaptive"), "public rate"),
        (("--rate", "2"), "at most 1"),
        (("--method", "few-shot", "--rate", "0.5", "--corpus", "mail"), "no charge for samples"),
    ],
)
def test_a_plan_refuses_what_the_run_refuses(cli, home, table, words, said):
    given = ("synthesise", "examples", str(table), *BASE, *words)
    told = [cli(*given, *way) for way in (("--plan",), ("--out", str(home / "run")))]
    assert [one.exit_code for one in told] == [1, 1]
    assert told[0].stderr == told[1].stderr
    assert said in told[0].stderr
    assert not (home / "run").exists()


@pytest.mark.parametrize("content", ["", "\n\n", None], ids=["empty", "blank", "missing"])
def test_an_empty_or_missing_table_is_told_of_in_one_line(cli, home, table, content):
    path = home / "other.csv"
    if content is not None:
        path.write_text(content)
    result = cli("synthesise", "examples", str(path), *BASE, "--out", str(home / "run"))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    said = "does not exist" if content is None else "a row that names the columns: text,label"
    assert said in result.stderr
    assert not (home / "run").exists()
