"""`synthesise`: a corpus written once, what it would cost, and what a run holds."""

from __future__ import annotations

import json

import pytest

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from tests.support.scripted_model import ScriptedModel

OUT = ("--keys", "trie", "--words-per-unit", "5", "--topics-per-unit", "1")


@pytest.fixture
def lights(cli, home, monkeypatch):
    """A corpus with two keys, and a model that knows what to say of them."""
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 0)
    model = ScriptedModel({"alpha": "Red", "betas": "Blue", "none": "Nothing"})
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: model)
    lines = [{"text": f"{('alpha', 'betas')[n % 2]} {n}", "owner": f"o{n}"} for n in range(120)]
    source = home / "lights.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli("ingest", str(source), "--corpus", "lights", "--unit", "owner").exit_code == 0
    assert cli("budget", "set", "--corpus", "lights", "--epsilon", "8").exit_code == 0
    return "lights"


def write(cli, home, *more):
    folder = str(home / "run")
    words = ("synthesise", "corpus", "lights", "--into", "synthetic", "--epsilon", "8")
    return cli(*words, "--out", folder, *OUT, *more)


def test_a_corpus_is_written_once_and_asked_for_nothing(cli, home, lights, spending):
    written = write(cli, home, "--json")
    assert written.exit_code == 0, written.output
    told = json.loads(written.stdout)
    assert told["corpus"] == "synthetic"
    assert told["records"] == 2
    assert told["rho"] == pytest.approx(epsilon_to_rho(8.0, SHARES.beside_pool(1e-5)))
    before = spending("lights").spent
    assert 0 < before <= told["rho"]  # the bound of what was drawn
    asked = cli("ask", "What of betas?", "--corpus", "synthetic", "--json")
    answer = json.loads(asked.stdout)
    assert (answer["epsilon"], answer["rho"]) == (0.0, 0.0)
    assert answer["synthetic"]["epsilon"] == 8.0
    assert spending("lights").spent == before


def test_it_says_so_in_one_line(cli, home, lights):
    assert "as often as you like" in write(cli, home).output
    shown = cli("ask", "What of betas?", "--corpus", "synthetic").output
    assert shown.count("synthetic records, written once for epsilon 8") == 1
    assert "spent:" not in shown


def test_the_same_command_goes_on(cli, home, lights):
    first, again = write(cli, home, "--json"), write(cli, home, "--json")
    assert first.stdout == again.stdout
    other = write(cli, home, "--topics", "1")
    assert other.exit_code == 1
    assert "another plan" in other.output


def test_show_tells_what_was_released(cli, home, lights):
    write(cli, home)
    shown = cli("synthesise", "show", str(home / "run"))
    assert "finished; 2 of 2 records begun have ended" in shown.output
    found = json.loads(cli("synthesise", "show", str(home / "run"), "--json").stdout)
    assert {record["key"] for record in found["records"]} == {"alpha", "betas"}
    assert found["charges"]["rho"] == pytest.approx(epsilon_to_rho(8.0, SHARES.beside_pool(1e-5)))
    assert cli("synthesise", "show", str(home)).exit_code == 1


def test_plan_prints_charges_noise_and_hours_and_opens_no_corpus(cli, monkeypatch):
    monkeypatch.setattr("dpicl_rag.cli.data_folder.open_corpus", lambda *_: pytest.fail("opened"))
    plan = json.loads(cli("synthesise", "plan", "--epsilon", "8", "--json").stdout)
    assert plan["rho"] == pytest.approx(epsilon_to_rho(8.0, SHARES.beside_pool(1e-5)))
    assert plan["keys_rho"] + 3 * plan["record_rho"] == pytest.approx(plan["rho"])
    assert plan["list_sigma"] == pytest.approx(6.44, abs=0.01)
    assert plan["trie_sigma"] == pytest.approx(11.16, abs=0.01)
    assert (plan["list_finds_words_from_units"], plan["trie_finds_words_from_units"]) == (26, 45)
    assert plan["hours_at_most"] > 0
    assert "hours at most" in cli("synthesise", "plan", "--epsilon", "8").output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--epsilon", "-1"), "epsilon"),
        (("--epsilon", "8", "--delta", "2"), "delta"),
        (("--epsilon", "8", "--template", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_a_bad_setting_is_one_line(cli, words, told):
    result = cli("synthesise", "plan", *words)
    assert result.exit_code == 1
    assert told in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_a_bad_regular_expression_is_told_before_anything_is_paid(cli, home, lights):
    result = write(cli, home, "--keep", "(")
    assert result.exit_code == 1
    assert "regular expression" in result.output
    assert not (home / "run").exists()
