"""docs/questions.md says what holds: its numbers are those of the accounting and the benchmarks."""

import re
from pathlib import Path

import pytest

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.private_context_llm import PrivateContextLLM
from tests.support.command_line import program

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def rows(text: str, first: str) -> list[list[str]]:
    """The table whose header begins so: its header, then its rows."""
    table = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return [cells[0], *cells[2:]]


HEADING = "documents for P 0.9: mean of the names (median name)"


def price(epsilon: float) -> float:
    """Rho of an answer under a ledger, by the public bound."""
    return PrivacyConfig.create(epsilon=epsilon, agreement="auto").rho(booked=True)


def test_a_budget_pays_for_as_many_answers_as_the_accounting_says():
    (_, *epsilons), *budgets = rows(TEXT, r"budget \ epsilon of an answer")
    assert len(budgets) == 3
    for budget, *answers in budgets:
        whole = epsilon_to_rho(float(budget), SHARES.beside_pool(1e-5))
        paid = [int(whole / price(float(epsilon))) for epsilon in epsilons]
        assert list(map(int, answers)) == paid


def test_as_many_units_must_agree_as_were_measured():
    _, *said = rows(TEXT, "epsilon of an answer")
    measured = [row for row in rows(MEASURED, HEADING) if "counts paid" in row[0]]
    told = {row[0]: row[1:] for row in measured}
    ways = ("agreement", "agreement under a ledger", "by need")
    for way, (_, *agreeing) in zip(ways, said, strict=True):
        found = told[f"{way}, counts paid"]
        assert [re.match(r"[a-z ]*\d*", cell)[0].strip() for cell in found] == [
            cell.removesuffix(" than 64") for cell in agreeing
        ]


def test_the_follow_up_of_the_document_is_asked_whole(tiny_model, capsys):
    (program,) = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.M | re.S)
    llm = PrivateContextLLM(tiny_model, max_tokens=2)
    exec(program, {"llm": llm, "corpus": ["The canteen opens at 11."] * 3})
    whole, brief = capsys.readouterr().out.splitlines()
    assert whole.startswith("When does the canteen open on Fridays? ")
    assert brief == "Who runs the canteen?"


@pytest.mark.parametrize("option", sorted(set(re.findall(r"--[a-z][a-z-]+", TEXT))))
def test_every_option_is_there(option):
    commands = program().commands
    known = {name for command in commands.values() for name in options_of(command)}
    assert option in known


def options_of(command):
    inner = getattr(command, "commands", {}).values()
    names = {name for parameter in command.params for name in parameter.opts}
    return names.union(*map(options_of, inner))


def test_readme_and_help_lead_there(capsys):
    assert "docs/questions.md" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "docs/questions.md" in program().commands["ask"].help
