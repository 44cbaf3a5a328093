from __future__ import annotations

import json
import os

import pytest

from dpicl_research.label_scores import Scorer
from tests.support.bucket_embedder import BucketEmbedder

OPTIONS = ("--experts", "2,3", "--seeds", "2", "--queries", "2", "--text-tokens", "12")


@pytest.fixture
def source(home):
    path = home / "words.jsonl"
    rows = [{"text": f"word {n}", "label": "odd" if n % 2 else "even"} for n in range(15)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def score(cli, home, source):
    """Run on the file; the folder is ``home / "run"``."""

    def run(*words, methods="zero-shot,k-shot,soft,poe", options=OPTIONS):
        base = ("--task", str(source), "--methods", methods, "--out", str(home / "run"))
        return cli("evaluate", "run", *base, *options, *words)

    return run


def test_a_run_ends_with_the_table_and_names_the_report(score, home):
    result = score()
    assert result.exit_code == 0, result.output
    assert "words.jsonl: 2 seeds x 2 queries" in result.stdout
    for name in ("zero-shot", "k-shot", "soft", "poe", "3 experts"):
        assert name in result.stdout
    assert f"dpicl-rag evaluate report {home / 'run'}" in result.stderr


@pytest.mark.heavy
def test_every_method_is_shown_with_a_standard_error(score):
    result = score("--json", methods="all")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    from dpicl_rag.methods import METHODS

    exact = [line for line in found["methods"] if "as published" not in line["method"]]
    assert [line["method"] for line in exact] == [*METHODS, *METHODS]
    for line in found["methods"]:
        assert 0 <= line["accuracy"] <= 1
        assert line["error"] >= 0


@pytest.mark.heavy
def test_sampled_subsets_for_many_answers(score, cli, home):
    sampled = ("--exemplars", "2", "--rate", "0.4,0.8", "--answers", "20")
    result = score(*sampled, "--json", methods="zero-shot,hard,votes-gaussian,votes")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["answers"] == 20
    exact = {line["method"]: line for line in found["methods"]}
    assert exact["votes-gaussian"]["accuracy"] is not None
    assert exact["hard"]["accuracy"] is not None
    assert "no exact charge is known" in exact["votes"]["note"]
    # The report knows the run's settings, and asks for them again without being told.
    again = json.loads(cli("evaluate", "report", str(home / "run"), "--json").stdout)
    assert again["methods"] == found["methods"]
    assert {line["rate"] for line in again["by_rate"]} == {0.4, 0.8}
    assert {line["answers"] for line in again["by_answers"]} == {1, 10, 20}
    assert {spent["answers"] for spent in again["spent"]} == {1, 10, 20}
    shown = cli("evaluate", "report", str(home / "run"), "--no-sweeps").stdout
    assert "2 exemplars each, sampled at rate 0.8" in shown
    words = ("evaluate", "report", str(home / "run"), "--answers", "1", "--json")
    assert cli(*words, "--methods", "zero-shot").exit_code == 0  # takes no rate, and need not
    # Other numbers of answers need no other scores.
    one = json.loads(cli(*words).stdout)
    assert {line["note"] for line in one["methods"]} == {""}
    assert one["by_answers"] == []


def test_a_number_of_subsets_in_place_of_a_rate(score):
    words = ("--subsets", "2", "--exemplars", "2", "--experts", "8", "--answers", "5")
    result = score(*words, "--json", methods="votes-gaussian")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["methods"][0]["accuracy"] is not None
    assert score("--subsets", "2", "--rate", "0.5").exit_code == 2
    assert score("--subsets", "2", "--experts", "8").exit_code == 2
    assert score("--subsets", "2", "--exemplars", "2").exit_code == 2  # two numbers of experts
    refused = score("--subsets", "5", "--exemplars", "2", "--experts", "8")
    assert "5 subsets of 2 need 10 examples" in refused.stderr


@pytest.mark.heavy
def test_written_shots_stand_beside_the_methods(score, cli, home):
    words = ("--shots", "2", "--shot-tokens", "2", "--shot-experts", "3", "--shot-rate", "0.5")
    words += ("--delta", "1e-2")
    result = score(*words, "--json", methods="poe,few-shot")
    assert result.exit_code == 0, result.output
    found = {line["method"]: line for line in json.loads(result.stdout)["methods"]}
    assert 0 < found["few-shot, once for all answers"]["true_epsilon"] <= 4
    assert found["data-free shots"]["true_epsilon"] == 0
    again = cli("evaluate", "report", str(home / "run"), "--no-sweeps", "--json")
    assert again.stdout == result.stdout
    alone = score(*words, methods="few-shot")
    assert (alone.exit_code, alone.stderr.count("\n")) == (1, 1)
    assert "a method that reads examples too" in alone.stderr


@pytest.mark.heavy
def test_written_shots_have_a_rate_of_their_own_beside_sampled_subsets(score, cli, home):
    words = ("--shots", "2", "--shot-tokens", "2", "--shot-experts", "3", "--shot-rate", "0.5")
    words += ("--exemplars", "2", "--rate", "0.4,0.8", "--answers", "20", "--delta", "1e-2")
    result = score(*words, "--json", methods="votes-gaussian,few-shot")
    assert result.exit_code == 0, result.output
    again = json.loads(cli("evaluate", "report", str(home / "run"), "--json").stdout)
    assert again["methods"] == json.loads(result.stdout)["methods"]
    shots = "few-shot, once for all answers"
    assert {line["experts"] for line in again["methods"] if line["method"] == shots} == {2, 3}
    assert [line["epsilon"] for line in again["by_epsilon"] if line["method"] == shots] == [4]
    # Its epsilon covers all answers, and its samples are not those of the subsets.
    for sweep in ("by_answers", "by_rate", "spent"):
        methods = {line["method"] for line in again[sweep]}
        assert "votes-gaussian" in methods
        assert shots not in methods


def test_a_second_run_asks_the_model_nothing(score, monkeypatch):
    first = score("--json")
    monkeypatch.setattr(Scorer, "score", lambda *a: pytest.fail("the model was asked"))
    assert score("--json").stdout == first.stdout


def test_an_interrupted_run_says_that_it_goes_on_and_does(score, monkeypatch):
    original, calls = Scorer.score, []

    def interrupted(self, *args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(Scorer, "score", interrupted)
    result = score()
    assert result.exit_code == 130
    assert result.stderr == "interrupted; the same command goes on where it stopped\n"
    assert score("--json").exit_code == 0
    assert len(calls) == 5  # four queries, one of them twice


def test_other_settings_in_the_same_folder_are_one_error(score):
    score()
    result = score(options=("--experts", "2", *OPTIONS[2:]))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "other settings (experts, layouts)" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--task", "imdb"), "unknown task 'imdb'"),
        (("--label-column", "kind"), "no column 'kind'"),
        (("--labels", "odd,prime"), "unknown label 'even'"),
        (("--labels", "odd,,even"), "a label in the list is empty"),
        (("--labels", ""), "a label in the list is empty"),
        (("--labels", "odd,even,prime"), "the class 'prime' is empty"),
        (("--experts", "40"), "40 experts need one each"),
        (("--queries", "9"), "9 were asked for"),
        (("--methods", "magic"), "no method is called 'magic'"),
        (("--epsilon", "0"), "epsilon must be a finite number above 0"),
        (("--rate", "2"), "rate must be above 0 and at most 1"),
        (("--rate", "0.5", "--methods", "zero-shot"), "none of these methods has experts"),
    ],
)
def test_each_mistake_is_one_line(score, words, says):
    result = score(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("number", ["x", "0", "4,-1", ""])
def test_numbers_of_experts_that_are_none(score, number):
    assert score("--experts", number).exit_code == 2


def test_a_report_needs_no_model(score, cli, home, monkeypatch):
    score()
    monkeypatch.setattr(
        "dpicl_rag.language_models.defaults.default_model",
        lambda: pytest.fail("the model was loaded"),
    )
    result = cli("evaluate", "report", str(home / "run"), "--epsilon", "1", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["epsilon"] == 1.0
    assert {line["epsilon"] for line in found["by_epsilon"]} == {0.5, 1.0, 2.0, 4.0, 8.0}
    assert {line["clip"] for line in found["by_clip"]} == {0.5, 1.0, 2.0, 4.0, 8.0, 16.0}
    assert {a["predictor"] for a in found["approximation"]} >= {"soft", "hard", "k-shot"}


def test_a_report_under_replacement_shows_the_published_charge_too(score, cli, home):
    score()
    words = ("--adjacency", "replace_one", "--no-sweeps", "--methods", "poe,sampling")
    result = cli("evaluate", "report", str(home / "run"), *words)
    assert result.exit_code == 0
    assert "poe, as published" in result.stdout
    assert "7.99" in result.stdout


def test_reports_of_several_runs_are_one_object(score, cli, home):
    one = json.loads(score("--json").stdout)
    words = (str(home / "run"), str(home / "run"), "--no-sweeps", "--json")
    assert json.loads(cli("evaluate", "report", *words).stdout) == {"reports": [one, one]}


@pytest.mark.heavy
def test_a_report_is_written(score, cli, home):
    pytest.importorskip("matplotlib")
    score()
    result = cli("evaluate", "report", str(home / "run"), "--out", str(home / "report"))
    assert result.exit_code == 0
    assert (home / "report" / "report-run.md").read_text().startswith("# words.jsonl")
    assert (home / "report" / "report-run.png").exists()
    assert "written: " in result.stderr


def test_convergence_is_read_off_a_run(score, cli, home):
    pytest.importorskip("matplotlib")
    score(methods="zero-shot,k-shot,soft", options=("--experts", "1,2,3", *OPTIONS[2:]))
    picture = home / "convergence.png"
    words = ("evaluate", "convergence", str(home / "run"))
    found = json.loads(cli(*words, "--json", "--plot", str(picture)).stdout)
    assert [p["experts"] for p in found["points"] if p["predictor"] == "soft"] == [1, 2, 3]
    one = found["points"][3]["distance"]["mean"]
    assert one == pytest.approx(0, abs=1e-9)  # one example is one prompt
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "Product of experts against one prompt" in cli(*words).stdout
    refused = cli("evaluate", "convergence", str(home))
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)


def test_a_folder_without_a_run(cli, home):
    result = cli("evaluate", "report", str(home))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "holds no run" in result.stderr


def test_membership_attacks_both_paths(cli, home, source):
    words = ("--task", str(source), "--out", str(home / "attack"), "--text-tokens", "12")
    words += ("--seeds", "2", "--methods", "poe")
    result = cli("evaluate", "membership", *words, "--examples", "4", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["examples"] == 4
    paths = {line["path"]: line for line in found["attacks"]}
    assert paths["zero-shot"]["likelihood_ratio"]["auroc"] == 0.5
    assert paths["poe"]["bound"] < 1
    again = cli("evaluate", "report", str(home / "attack"))
    assert "AUROC" in again.stdout
    assert cli("evaluate", "membership", *words, "--examples", "5").exit_code == 2


@pytest.mark.one_in(3)
@pytest.mark.skipif("DPICL_RAG_DATA" not in os.environ, reason="no benchmark data")
@pytest.mark.parametrize("task", ["agnews", "trec", "dbpedia", "gsm8k"])
def test_membership_is_attacked_on_every_text_task(cli, home, task):
    """The fifth task is one of pictures: `evaluate membership-images`."""
    words = ("--seeds", "2", "--examples", "2", "--methods", "k-shot,poe", "--text-tokens", "8")
    result = cli(
        "evaluate", "membership", "--task", task, *words, "--out", str(home / "a"), "--json"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["task"], found["complete"]) == (task, True)
    assert [line["path"] for line in found["attacks"]] == [
        *("zero-shot", "k-shot", "soft", "hard", "poe")
    ]


@pytest.mark.heavy
def test_synthetic_shots_end_with_a_table_or_json(cli, home, source):
    base = ("--task", str(source), "--method", "exponential,few-shot", "--epsilon", "2", "--rate")
    sizes = ("--seeds", "1", "--queries", "2", "--shots", "2", "--max-tokens", "2", "--experts")
    words = (*base, "0.5", *sizes, "3", "--delta", "1e-2", "--out", str(home / "synthetic"))
    result = cli("evaluate", "synthetic", *words)
    assert result.exit_code == 0, result.output
    for name in ("zero-shot", "real", "no-noise", "data-free", "few-shot", "not private"):
        assert name in result.stdout
    picture = home / "synthetic.png"
    found = json.loads(
        cli("evaluate", "synthetic", *words, "--json", "--plot", str(picture)).stdout
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    refused = cli("evaluate", "synthetic", *words, "--quiet", "--plot", str(home / "no" / "p.png"))
    assert refused.exit_code == 1
    assert "the plot cannot be written there" in refused.stderr
    assert [line["arm"] for line in found["lines"]] == [
        *("zero-shot", "real", "no-noise", "data-free"),
        *("exponential", "few-shot"),
    ]


SHOTS = ("--seeds", "1", "--shots", "2", "--max-tokens", "2", "--experts", "3", "--delta", "1e-2")


@pytest.mark.heavy
def test_membership_of_what_shots_were_written_from(cli, home, source):
    words = ("--task", str(source), "--method", "difference", "--epsilon", "2", "--rate", "0.5")
    words += (*SHOTS, "--attacked", "3", "--out", str(home / "attacked"))
    found = cli("evaluate", "synthetic-membership", *words, "--json")
    assert found.exit_code == 0, found.output
    lines = json.loads(found.stdout)["lines"]
    assert [line["arm"] for line in lines][-1] == "difference"
    assert lines[-1]["bound"] < 1
    assert "AUROC" in cli("evaluate", "synthetic-membership", *words).stdout
    refused = cli("evaluate", "synthetic-membership", *words[:-4], "--attacked", "9")
    assert "at most half of the examples" in refused.stderr


@pytest.mark.heavy
def test_the_radius_of_the_adaptive_method(cli, source):
    words = ("--task", str(source), "--rate", "0.5", "--epsilon", "1,2", *SHOTS)
    found = json.loads(cli("evaluate", "radius", *words, "--json").stdout)
    assert [line["epsilon"] for line in found["radii"]] == [1.0, 2.0]
    assert found["extremes"][0]["told"] < found["extremes"][1]["told"]
    assert "told apart" in " ".join(cli("evaluate", "radius", *words).stdout.split())
    refused = cli("evaluate", "radius", *words, "--radius", "0.3")
    assert "searches for a radius" in refused.stderr


def test_constants_and_groups_of_synthetic_shots(cli, home, source):
    words = ("--task", str(source), "--method", "adaptive", "--epsilon", "50", "--rate", "0.5")
    noises = ("--radius-noise", "3", "--mean-noise", "2", "--count-noise", "3")
    words += (*SHOTS, *noises, "--per-expert", "2", "--queries", "2")
    out = ("--out", str(home / "constants"))
    found = json.loads(cli("evaluate", "synthetic", *words, *out, "--json").stdout)
    assert (found["per_expert"], found["adaptive"]["mean_noise"]) == (2, 2.0)
    assert 0 < found["lines"][-1]["true_epsilon"] < 50
    dear = cli("evaluate", "synthetic", *words, "--epsilon", "0.1", "--out", str(home / "dear"))
    assert "give a larger epsilon" in dear.stderr
    other = cli("evaluate", "synthetic", *words, *out, "--per-expert", "3")
    assert "other settings (per_expert)" in other.stderr


@pytest.mark.parametrize("epsilon", ["0", "x", "1,-2", "inf"])
def test_an_epsilon_that_is_none_is_refused(cli, source, epsilon):
    result = cli("evaluate", "synthetic", "--task", str(source), "--epsilon", epsilon)
    assert result.exit_code == 2


def test_a_label_head_stands_beside_the_methods(score, cli, home, monkeypatch):
    monkeypatch.setattr("dpicl_research.label_heads.SentenceTransformerEmbedder", BucketEmbedder)
    result = score("--json", methods="zero-shot,label-head")
    assert result.exit_code == 0, result.output
    found = {line["method"]: line for line in json.loads(result.stdout)["methods"]}
    assert found["label-head, once for all answers"]["true_epsilon"] == 4
    again = cli("evaluate", "report", str(home / "run"), "--no-sweeps", "--json")
    assert again.stdout == result.stdout
