"""`budget`: what is shown, set and forecast."""

from __future__ import annotations

import json
import math

import pytest

from dpicl_rag.accounting import epsilon_to_rho, rho_to_epsilon
from dpicl_rag.cli import stores
from dpicl_rag.ledger import Ledger


def spend(corpus, *charges, caller=None, units=None):
    with Ledger(stores.default_ledger()) as ledger:
        for rho in charges:
            with ledger.reserve(corpus=corpus, caller=caller, rho=rho, units=units) as hold:
                hold.commit(rho, None if units is None else [rho / 7] * len(units))


def shown(cli, *words):
    result = cli("budget", "show", "--json", *words)
    assert result.exit_code == 0
    return json.loads(result.stdout)["budgets"]


def test_show_without_a_ledger_says_that_nothing_is_limited_and_makes_no_file(cli):
    result = cli("budget", "show")
    assert result.exit_code == 0
    assert "Nothing is recorded yet." in result.stdout
    assert "recorded but not limited" in result.stderr
    assert not stores.default_ledger().exists()


def test_show_names_what_is_not_limited(cli):
    spend("mail", 0.5)
    result = cli("budget", "show")
    assert "corpus mail" in result.stdout
    assert "no limit" in result.stdout
    assert "recorded but not limited" in result.stderr


def test_show_has_a_bar_that_grows(cli):
    cli("budget", "set", "--corpus", "mail", "--rho", "1")
    assert "recorded but not limited" not in cli("budget", "show").stderr
    lengths = []
    for rho in (0.25, 0.5, 0.25):
        spend("mail", rho)
        lengths.append(cli("budget", "show").stdout.count("━"))
    assert 0 < lengths[0] < lengths[1] < lengths[2]


def test_json_of_show(cli):
    cli("budget", "set", "--corpus", "mail", "--rho", "2", "--unit-rho", "1")
    spend("mail", 0.5, caller="ann")
    corpus, caller = shown(cli)
    assert corpus == {
        "kind": "corpus",
        "name": "mail",
        "budget_rho": 2.0,
        "budget_epsilon": pytest.approx(rho_to_epsilon(2.0, 1e-5)),
        "unit_budget_rho": 1.0,
        "spent_rho": 0.5,
        "spent_epsilon": pytest.approx(rho_to_epsilon(0.5, 1e-5)),
        "reserved_rho": 0.0,
        "remaining_rho": 1.5,
        "delta": 1e-5,
        "period": "lifetime",
        "renews_on": None,
        "questions": 1,
    }
    assert (caller["kind"], caller["name"], caller["budget_rho"]) == ("caller", "ann", None)


def test_show_can_be_narrowed(cli):
    spend("mail", 0.5, caller="ann")
    spend("notes", 0.5)
    assert [row["name"] for row in shown(cli, "--corpus", "notes")] == ["notes"]
    assert [row["kind"] for row in shown(cli, "--caller", "ann")] == ["caller"]
    assert shown(cli, "--corpus", "nothing") == []


def test_individual_accounting_shows_the_bound_and_nothing_of_the_units(cli):
    spend("mail", 0.7, units=["unit-one", "unit-two"])
    (row,) = shown(cli)
    assert row["spent_rho"] == 0.7
    assert row["questions"] == 1
    result = cli("budget", "show")
    assert "bound that holds for every unit" in result.stderr
    for output in (json.dumps(row), result.output):
        assert "unit-" not in output
        assert "0.1" not in output  # 0.7 / 7 is what each unit has lost


def test_set_by_epsilon_and_period(cli):
    words = "--corpus mail --epsilon 8 --delta 1e-6 --unit-epsilon 4 --period month"
    assert cli("budget", "set", *words.split()).exit_code == 0
    (row,) = shown(cli, "--delta", "1e-6")
    # The file keeps nano-rho, rounded down.
    assert row["budget_rho"] == pytest.approx(epsilon_to_rho(8, 1e-6), abs=2e-9)
    assert row["unit_budget_rho"] == pytest.approx(epsilon_to_rho(4, 1e-6), abs=2e-9)
    assert row["budget_epsilon"] == pytest.approx(8, abs=1e-6)
    assert row["period"] == "month"
    assert row["renews_on"] is not None


def test_set_answers_with_the_new_budget(cli):
    result = cli("budget", "set", "--caller", "ann", "--rho", "1", "--json")
    (row,) = json.loads(result.stdout)["budgets"]
    assert (row["kind"], row["name"], row["budget_rho"]) == ("caller", "ann", 1.0)
    assert "caller ann" in cli("budget", "set", "--caller", "ann", "--rho", "2").stdout


def test_an_infinite_budget_is_no_limit(cli):
    cli("budget", "set", "--corpus", "mail", "--rho", "1")
    cli("budget", "set", "--corpus", "mail", "--rho", str(math.inf))
    assert shown(cli)[0]["budget_rho"] is None


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--corpus mail", 2),
        ("--corpus mail --rho 1 --epsilon 1", 2),
        ("--corpus mail --rho 1 --unit-rho 1 --unit-epsilon 1", 2),
        ("--corpus mail --rho 1 --period week", 2),
        ("--rho 1", 1),
        ("--corpus mail --caller ann --rho 1", 1),
        ("--corpus mail --rho -1", 1),
        ("--corpus mail --rho nan", 1),
        ("--corpus mail --epsilon 0", 1),
        ("--corpus mail --epsilon 1 --delta 2", 1),
        ("--corpus mail --rho 1 --unit-rho 2", 1),
        ("--caller ann --rho 1 --unit-rho 1", 1),
    ],
)
def test_a_wrong_budget_is_refused(cli, words, status):
    result = cli("budget", "set", *words.split())
    assert result.exit_code == status
    assert "Traceback" not in result.output
    if status == 1:
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
    assert shown(cli) == []


def forecasts(cli, *words):
    result = cli("budget", "forecast", "--json", *words)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_forecast_counts_the_answers_left_at_the_present_rate(cli):
    cli("budget", "set", "--corpus", "mail", "--rho", "1")
    spend("mail", 0.1, 0.3)
    found = forecasts(cli)
    (row,) = found["forecasts"]
    assert row["rho_per_answer"] == pytest.approx(0.2)
    assert row["answers_left"] == 3
    assert "private" in found["individual"]
    result = cli("budget", "forecast")
    assert "corpus mail: 3 more answers under fixed accounting at rho 0.2 each" in result.stdout
    assert "individual accounting are not forecast" in result.stderr


def test_the_forecast_comes_true(cli):
    cli("budget", "set", "--corpus", "mail", "--rho", "1")
    spend("mail", 0.25)
    left = forecasts(cli)["forecasts"][0]["answers_left"]
    assert left == 3
    spend("mail", *[0.25] * left)
    assert forecasts(cli)["forecasts"][0]["answers_left"] == 0


def test_forecast_at_a_given_epsilon(cli):
    cli("budget", "set", "--caller", "ann", "--rho", str(epsilon_to_rho(4, 1e-5) * 5.5))
    (row,) = forecasts(cli, "--epsilon", "4")["forecasts"]
    assert row["answers_left"] == 5


def test_forecast_before_the_first_answer_needs_an_epsilon(cli):
    cli("budget", "set", "--corpus", "mail", "--rho", "1")
    assert forecasts(cli)["forecasts"][0]["answers_left"] is None
    assert "give --epsilon" in cli("budget", "forecast").stdout


def test_forecast_without_a_budget(cli):
    spend("mail", 0.5)
    assert forecasts(cli)["forecasts"] == []
    assert "no budget to run out" in cli("budget", "forecast").stdout


def test_a_file_that_is_no_ledger(cli, home):
    path = home / "ledger.sqlite"
    path.write_text("not a database, but long enough to look like one" * 20)
    result = cli("budget", "show", "--ledger", str(path))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
