"""`budget`: what is shown, set and forecast."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest

from dpicl_rag.accounting import epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.cli import data_folder
from dpicl_rag.errors import BudgetExceededError
from dpicl_rag.ledger import Ledger

REST = SHARES.beside_pool(1e-5)  # budgets keep their epsilon at this part of delta


def spend(corpus, *charges, caller=None, units=None):
    with Ledger(data_folder.default_ledger()) as ledger:
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
    assert not data_folder.default_ledger().exists()


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
        "budget_epsilon": pytest.approx(rho_to_epsilon(2.0, REST)),
        "unit_budget_rho": 1.0,
        "unit_budget_epsilon": pytest.approx(rho_to_epsilon(1.0, REST)),
        "spent_rho": 0.5,
        "spent_epsilon": pytest.approx(rho_to_epsilon(0.5, REST)),
        "reserved_rho": 0.0,
        "reserved_epsilon": 0.0,
        "remaining_rho": 1.5,
        "remaining_epsilon": pytest.approx(rho_to_epsilon(1.5, REST)),
        "unit_remaining_rho": 1.0,
        "unit_remaining_epsilon": pytest.approx(rho_to_epsilon(1.0, REST)),
        "threshold_delta": 2.5e-6,
        "threshold_delta_spent": 0.0,
        "threshold_delta_remaining": 2.5e-6,
        "threshold_answers": 200,
        "gaussian": False,
        "answer_rho": pytest.approx(epsilon_to_rho(8, REST)),
        "answer_epsilon": 8.0,
        "answers_left": 0,
        "fixed_answers_left": 1,
        "delta": 1e-5,
        "period": "lifetime",
        "renews_on": None,
        "questions": 1,
        "strict": False,
        "standing": "epsilon 4.79 of epsilon 10.9 (a unit alone epsilon 7.17) is spent. That bound "
        "holds for every unit. Answers still come, from units that have spent less; a strict "
        "budget refuses them.",
    }
    assert (caller["kind"], caller["name"], caller["budget_rho"]) == ("caller", "ann", None)


def test_a_budget_for_gaussian_noise_and_for_few_answers(cli):
    given = ("--corpus", "mail", "--epsilon", "4", "--gaussian", "--answers", "200")
    (row,) = json.loads(cli("budget", "set", *given, "--json").stdout)["budgets"]
    assert (row["gaussian"], row["threshold_answers"]) == (True, 200)
    assert row["budget_rho"] == epsilon_to_rho(4, REST, gaussian=True)
    assert row["budget_epsilon"] == pytest.approx(4)
    assert row["answer_rho"] == epsilon_to_rho(8, REST, gaussian=True)


def test_a_part_of_delta_is_set_apart_for_thresholds(cli):
    given = ("--corpus", "mail", "--epsilon", "4")
    rows = json.loads(cli("budget", "set", *given, "--thresholds", "0.5", "--json").stdout)
    (row,) = rows["budgets"]
    assert row["threshold_delta"] == row["threshold_delta_remaining"] == 5e-6
    assert row["budget_rho"] == pytest.approx(epsilon_to_rho(4, 5e-6), abs=1e-8)
    assert row["budget_epsilon"] == pytest.approx(4, abs=1e-4)
    wrong = cli("budget", "set", *given, "--thresholds", "1.5")
    assert wrong.exit_code
    assert "thresholds must be 0 or more" in wrong.stderr


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
    assert "Spent is the public bound" in result.stderr
    for output in (json.dumps(row), result.output):
        assert "unit-" not in output
        assert "0.1" not in output  # 0.7 / 7 is what each unit has lost


def test_set_by_epsilon_and_period(cli):
    words = "--corpus mail --epsilon 8 --delta 1e-6 --unit-epsilon 4 --period month"
    assert cli("budget", "set", *words.split()).exit_code == 0
    (row,) = shown(cli, "--delta", "1e-6")
    # The file keeps nano-rho, rounded down.
    assert row["budget_rho"] == pytest.approx(epsilon_to_rho(8, 7.5e-7), abs=2e-9)
    assert row["unit_budget_rho"] == pytest.approx(epsilon_to_rho(4, 7.5e-7), abs=2e-9)
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
        ("--corpus mail --unit-epsilon 1", 2),
        ("--rho 1", 1),
        ("--corpus mail --caller ann --rho 1", 1),
        ("--corpus mail --rho -1", 1),
        ("--corpus mail --rho nan", 1),
        ("--corpus mail --epsilon 0", 1),
        ("--corpus mail --epsilon 1 --delta 2", 1),
        ("--corpus mail --rho 1 --unit-rho 2", 1),
        ("--corpus mail --epsilon 4 --unit-epsilon 8", 1),
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


@pytest.mark.parametrize("command", ["show", "forecast"])
@pytest.mark.parametrize(("epsilon", "left"), [(8.0, 1), (4.0, 3), (2.0, 11)])
def test_a_lifetime_of_epsilon_8_in_answers(cli, command, epsilon, left):
    cli("budget", "set", "--corpus", "mail", "--epsilon", "8")
    assert left == int(epsilon_to_rho(8, 1e-5) / epsilon_to_rho(epsilon, 1e-5))
    result = cli("budget", command, "--json", "--epsilon", str(epsilon))
    (row,) = next(iter(json.loads(result.stdout).values()))
    assert (row["answers_left"], row["fixed_answers_left"]) == (left, left)


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 3, 4, 8, 16])
def test_a_lifetime_of_one_answer_pays_for_it(cli, epsilon):
    """Rounding the budget down to whole nano-rho takes no answer away."""
    cli("budget", "set", "--caller", "ann", "--epsilon", str(epsilon))
    (row,) = forecasts(cli, "--epsilon", str(epsilon))["forecasts"]
    assert row["answers_left"] == 1


def test_show_and_forecast_say_how_many_answers_are_left(cli):
    cli("budget", "set", "--corpus", "mail", "--epsilon", "8")
    assert "left are answers of epsilon 4" in cli("budget", "show", "--epsilon", "4").stdout
    result = cli("budget", "forecast", "--epsilon", "4")
    told = "corpus mail: epsilon 0 of epsilon 8 is spent. What is left pays for 3 more answers of "
    assert f"{told}epsilon 4.\n" in result.stdout
    assert "public bound" in result.stderr


def test_the_forecast_comes_true(cli):
    price = epsilon_to_rho(2, REST)
    cli("budget", "set", "--corpus", "mail", "--rho", str(5.5 * price))
    spend("mail", price)
    left = forecasts(cli, "--epsilon", "2")["forecasts"][0]["answers_left"]
    assert left == 4
    spend("mail", *[price] * left)
    assert forecasts(cli, "--epsilon", "2")["forecasts"][0]["answers_left"] == 0


def test_answers_left_follow_the_public_bound_and_not_what_units_paid(cli):
    """`spend` lets each unit pay a seventh of the price; the forecast must not tell."""
    price = epsilon_to_rho(2, REST)
    cli("budget", "set", "--corpus", "mail", "--rho", str(5.5 * price))
    cli("budget", "set", "--corpus", "fixed", "--rho", str(5.5 * price))
    for _ in range(3):
        spend("mail", price, units=["unit-one", "unit-two"])
        spend("fixed", price)
        fixed, mail = forecasts(cli, "--epsilon", "2")["forecasts"]
        assert mail["answers_left"] == fixed["answers_left"]
        assert mail["spent_rho"] == fixed["spent_rho"]
    assert mail["answers_left"] == 2


def test_a_unit_budget_of_its_own_is_what_answers_are_counted_by(cli):
    price = epsilon_to_rho(2, REST)
    words = ["--rho", str(6.5 * price), "--unit-rho", str(2.5 * price)]
    cli("budget", "set", "--corpus", "mail", *words)
    spend("mail", price, units=["unit-one"])
    (row,) = forecasts(cli, "--epsilon", "2")["forecasts"]
    assert (row["answers_left"], row["fixed_answers_left"]) == (1, 5)
    said = cli("budget", "forecast", "--epsilon", "2").stdout
    assert "pays for 1 more answer of epsilon 2. Under fixed accounting it pays for 5." in said


def test_a_budget_that_was_lowered_and_one_that_is_strict_say_what_comes_next(cli):
    """It said 12.2 of 5, 0 left, and answers went on."""
    price = epsilon_to_rho(4, REST)
    cli("budget", "set", "--corpus", "mail", "--epsilon", "20")
    spend("mail", *[price] * 7, units=["unit-one"])
    cli("budget", "set", "--corpus", "mail", "--epsilon", "5")
    lowered = (
        "corpus mail: epsilon 12.6 was spent, more than the budget of epsilon 5, which was lowered "
        "since. That bound holds for every unit. Answers still come, from units that have spent "
        "less; a strict budget refuses them.\n"
    )
    for command in ("show", "forecast"):
        assert lowered in cli("budget", command, "--epsilon", "4").stdout
        dear = cli("budget", command, "--epsilon", "8").stdout
        assert "An answer of epsilon 8 is refused until the budget is raised.\n" in dear
    spend("mail", 0.5, units=["unit-two"])
    strict = cli("budget", "set", "--corpus", "mail", "--epsilon", "5", "--strict").stdout
    assert "An answer of epsilon 8 is refused until the budget is raised.\n" in strict
    with pytest.raises(BudgetExceededError, match=r"epsilon 4\.79 was asked for and 0 can be paid"):
        spend("mail", 0.5, units=["unit-two"])


def test_a_budget_of_units_alone_is_forecast_too(cli):
    cli("budget", "set", "--corpus", "mail", "--rho", "inf", "--unit-epsilon", "8")
    (row,) = forecasts(cli)["forecasts"]
    assert (row["answers_left"], row["fixed_answers_left"]) == (1, None)


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


def test_a_narrow_terminal_cuts_no_number(cli, monkeypatch):
    cli("budget", "set", "--corpus", "facts", "--epsilon", "20")
    spend("facts", 0.04)
    told = {}
    for columns in ("200", "40"):
        monkeypatch.setenv("COLUMNS", columns)
        told[columns] = Counter(c for c in cli("budget", "show").stdout if c.isalnum() or c in "….")
    assert told["40"] == told["200"]
