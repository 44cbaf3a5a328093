"""Budgets in the settings file: set where the ledger has none, and never raised by a file."""

from __future__ import annotations

import json
import math
import multiprocessing

import pytest

from dpicl_rag.cli import (
    data_folder,
    file_budgets,
    options,
    serve,
    settings_file,
)
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.ledger.budgets import Period

BUDGET = '[corpora.mail]\nbudget = 20.0\nperiod = "month"\nstrict = true\n'
SET = ("budget", "set", "--corpus", "mail")
ASKING = {
    "ask": ("ask", "q?", "--corpus", "mail", "--max-tokens", "2"),
    "ask --plan": ("ask", "q?", "--corpus", "mail", "--plan"),
    "classify": (
        "classify",
        "q?",
        "--corpus",
        "mail",
        "--label",
        "a",
        "--label",
        "b",
        "--epsilon",
        "2",
    ),
    "count": ("count", "q?", "--corpus", "mail"),
    "tally": ("tally", "q?", "--corpus", "mail", "--label", "a", "--label", "b"),
    "survey": ("survey", "--corpus", "mail"),
    "scores": ("corpora", "scores", "mail", "q?"),
}


@pytest.fixture
def written(home):
    """The user's own settings file."""

    def write(text):
        path = settings_file.own_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("command", ASKING)
def test_a_command_that_books_answers_sets_the_budget_of_the_file(
    cli,
    mail,
    written,
    spending,
    home,
    command,
):
    result = cli(
        *SET, "--epsilon", "20", "--period", "month", "--strict", "--ledger", str(home / "other")
    )
    assert result.exit_code == 0
    with Ledger(home / "other") as other:
        (wanted,) = other.status()
    written(BUDGET)
    result = cli(*ASKING[command])
    assert result.exit_code == 0, result.output
    found = spending("mail")
    for name in ("budget", "unit_budget", "period", "strict", "delta"):
        assert getattr(found, name) == getattr(wanted, name), name
    assert "budget set" not in result.output


def test_what_is_served_has_the_budget_of_the_file(cli, mail, written, spending):
    path = written(BUDGET + "epsilon = 2.0\n")
    found = settings_file.choose(None)
    chosen = serve.chosen_settings(serve.Serving(), {}, found)
    assert chosen["mail"].privacy == {"epsilon": 2.0}

    def started():
        serving = serve.Serving()
        with serve.opened_corpora(chosen, serving) as served:
            serve.open_service(served, serving, None, max_calls=None, polish=False).close()

    started()
    status = spending("mail")
    assert (status.period, status.strict) == (Period.MONTH, True)
    written(BUDGET.replace("20.0", "30.0"))
    assert settings_file.choose(None).path == path
    started()
    assert spending("mail").budget == status.budget


def test_nothing_is_set_for_others_or_without_a_ledger(cli, mail, written):
    written("[corpora.other]\nbudget = 20.0\n")
    assert cli(*ASKING["count"]).exit_code == 0
    with Ledger(data_folder.default_ledger()) as ledger:
        assert {one.name: one.budget for one in ledger.status()} == {"mail": None}
    written(BUDGET)
    assert cli(*ASKING["count"], "--no-ledger").exit_code == 0
    with Ledger(data_folder.default_ledger()) as ledger:
        assert not ledger.has_budget("mail")


@pytest.mark.parametrize("own", [("--epsilon", "5"), ("--epsilon", "50"), ("--rho", "inf")])
def test_the_budget_of_the_ledger_holds_and_a_line_says_so(
    cli,
    mail,
    written,
    spending,
    own,
):
    assert cli(*SET, *own).exit_code == 0
    before = spending("mail").budget
    path = written(BUDGET)
    result = cli(*ASKING["count"], "--epsilon", "1")
    assert result.exit_code == 0
    (line,) = [one for one in result.stderr.splitlines() if "budget" in one]
    assert str(path) in line
    command = "dpicl-rag budget set --corpus mail --epsilon 20.0 --period month --strict"
    assert f"`{command}`" in line
    assert spending("mail").budget == before
    assert spending("mail").period is Period.LIFETIME
    # What the line names makes it so, and it is not said again.
    assert cli(*command.split()[1:]).exit_code == 0
    assert "budget" not in cli(*ASKING["count"], "--fresh").stderr


def test_an_answer_is_refused_when_the_budget_is_used_up(cli, mail, written, spending):
    written("[corpora.mail]\nbudget = 1.0\nstrict = true\n")
    said = []
    for _ in range(20):
        result = cli(*ASKING["count"], "--epsilon", "0.5", "--fresh")
        if result.exit_code:
            said.append(result.stderr)
            break
    assert said
    assert "budget" in said[0]
    found = spending("mail")
    assert found.spent <= found.budget < math.inf
    assert options.epsilon_of(found.spent) <= 1.0


@pytest.mark.heavy
def test_config_show_says_what_becomes_of_it(cli, mail, written):
    written(BUDGET + "[corpora.notes]\nbudget = 3.5\n")

    def shown():
        found = json.loads(cli("config", "show", "--json").stdout)["budgets"]
        return {row["corpus"]: (row["budget"], row["standing"]) for row in found}

    told, standing = shown()["mail"]
    assert told == "epsilon 20 a month, strict"
    assert standing.startswith("not in the ledger yet")
    assert shown()["notes"][0] == "epsilon 3.5 for life"
    assert not data_folder.default_ledger().exists()
    assert cli(*ASKING["count"]).exit_code == 0
    assert shown()["mail"][1] == "in the ledger"
    assert shown()["notes"][1].startswith("not in the ledger yet")
    cli(*SET, "--epsilon", "5")
    assert "dpicl-rag budget set --corpus mail --epsilon 20.0" in shown()["mail"][1]
    told = cli("config", "show").stdout
    assert "budget of mail: epsilon 20 a month, strict, another in the ledger" in told


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("budget = 0", "greater than 0"),
        ("budget = inf", "finite"),
        ('budget = "20"', "valid number"),
        ('budget = 2.0\nperiod = "week"', "'lifetime', 'day', 'month' or 'year'"),
        ('period = "month"', "period is that of a budget"),
        ("strict = true", "strict is that of a budget"),
        ('budget = 2.0\nstrict = "yes"', "valid boolean"),
        ("buget = 2.0", "buget: no such setting; did you mean budget?"),
        ("corpora = 2.0", "corpora: no such setting"),
    ],
)
def test_a_wrong_table_ends_every_command(cli, written, table, reason):
    path = written(f"[corpora.mail]\n{table}\n")
    result = cli("budget", "show")
    assert result.exit_code == 1
    assert f"{path}, corpora.mail" in result.stderr
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_settings_of_answers_stand_beside_a_budget(written):
    written(BUDGET + 'epsilon = 2.0\nthreshold = 0.5\nsystem = "Be brief."\n')
    found = settings_file.ChosenSettings.at(None)
    table = found.settings.corpora["mail"]
    assert table.privacy == {"epsilon": 2.0}
    assert (table.threshold, table.system) == (0.5, "Be brief.")
    assert table.budget_settings == {
        "epsilon": 20.0, "delta": 1e-5, "period": "month", "strict": True, "answers": 200,
        "gaussian": False,
    }  # fmt: skip


def test_a_collection_is_known_by_the_name_that_its_answers_are_booked_under(written):
    written('[corpora."chroma:/srv/db#tickets"]\nbudget = 2.0\n')
    assert set(settings_file.ChosenSettings.at(None).budgets()) == {"tickets"}
    written('[corpora."chroma:nothing"]\nbudget = 2.0\n')
    with pytest.raises(ConfigurationError, match="chroma:FOLDER#COLLECTION"):
        settings_file.ChosenSettings.at(None).budgets()


def start(path, budget, gate, said):
    """What a command does when it opens the ledger, at the same time as others."""
    table = settings_file.CorpusTable(budget=budget)
    found = settings_file.ChosenSettings(path, settings_file.SettingsFile(corpora={"mail": table}))
    settings_file.current = lambda: found
    file_budgets.console.note = said.put
    look = Ledger.has_budget

    def has_budget(ledger, corpus):
        has = look(ledger, corpus)
        gate.wait()  # both have seen that there is none
        return has

    Ledger.has_budget = has_budget
    with file_budgets.open_book(path, "mail"):
        said.put("opened")


def test_two_processes_at_once_set_it_once(tmp_path):
    context = multiprocessing.get_context("fork")
    for number in range(2):
        path = tmp_path / f"{number}.sqlite"
        gate, said = context.Barrier(2), context.SimpleQueue()
        both = [
            context.Process(target=start, args=(path, budget, gate, said)) for budget in (2.0, 3.0)
        ]
        for one in both:
            one.start()
        for one in both:
            one.join()
        assert [one.exitcode for one in both] == [0, 0]
        told = []
        while not said.empty():
            told.append(said.get())
        # The second has another file in this test, so a line tells that it came too late.
        assert told.count("opened") == 2
        (line,) = [one for one in told if one != "opened"]
        with Ledger(path) as ledger:
            (status,) = ledger.status()
        won = round(options.epsilon_of(status.budget, 1e-5 * 0.9), 1)
        assert ("epsilon 3 for life" if won < 2.5 else "epsilon 2 for life") in line
