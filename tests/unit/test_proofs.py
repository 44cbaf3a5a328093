"""docs/proofs.md: what it names exists, and no mechanism and no charge of the code lacks a row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.record import faults

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dpicl_rag"
PAGE = ROOT / "docs" / "proofs.md"
FAULTS = {fault.name for fault in faults()}


@dataclass(frozen=True)
class Row:
    """One line of the page's first two tables."""

    name: str
    code: str
    claim: str
    proof: str
    test: str
    fault: str


def rows(text: str) -> list[Row]:
    lines = [line for line in text.split("## Second opinions")[0].splitlines() if "|" in line]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [Row(*row) for row in cells if len(row) == 6 and row[1].startswith("`")]


ROWS = rows(PAGE.read_text("utf-8"))
NAMED = {row.code.strip("`") for row in ROWS}


def defines(name: str) -> bool:
    """True where a test is defined in the only file of that name, or of that end of a path."""
    file, _, function = name.partition("::")
    [path] = (ROOT / "tests").rglob(file)
    return f"def {function}(" in path.read_text("utf-8")


def anchors(page: str) -> set[str]:
    """Of headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_a_row_names_exists(row):
    [(page, anchor)] = re.findall(r"\]\((\w+\.md)#([\w-]+)\)", row.proof)
    assert anchor in anchors(page)
    assert defines(row.test.strip("`"))
    assert row.fault in FAULTS
    assert row.claim


def test_second_opinions_are_tests():
    found = re.findall(r"`((?:\w+/)?test_\w+\.py::test_\w+)`", PAGE.read_text("utf-8"))
    assert len(found) == len(ROWS) + 3
    assert all(map(defines, found))


def is_mechanism(node: ast.ClassDef) -> bool:
    """A class that draws or pays, and can be made: no protocol and no base of others."""
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    if bases & {"Protocol", "ABC"}:
        return False
    methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    if "weigh" in methods or "ChargedAlike" in bases:
        return True
    drawn = methods.get("draw")
    return drawn is not None and "randomness" in {one.arg for one in drawn.args.args}


def mechanisms(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and is_mechanism(node):
                yield node.name


def charging(folder: Path) -> Iterator[str]:
    """Files that open an account or hold a part of a budget."""
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(
                node.func, "attr", getattr(node.func, "id", "")
            ) in ("open_account", "reserve"):
                yield file.relative_to(folder).as_posix()


# How the others come to an account, or what is drawn without a charge.
PASSED_ON = {"answering/private_run.py", "ledger/account.py"}
NOT_PRIVATE = {"Best"}


def test_every_mechanism_has_a_row():
    found = set(mechanisms(PACKAGE)) - NOT_PRIVATE
    assert {"ExponentialMechanism", "Agreement", "FixedFilter", "DiscreteGaussian"} <= found
    assert found - NAMED == set()


def test_every_charge_has_a_row():
    found = set(charging(PACKAGE)) - PASSED_ON
    assert {"surveys/paying_units.py", "vision/classify.py", "tabular/charge.py"} <= found
    assert found - NAMED == set()


def test_every_row_is_of_code_that_is_there():
    files = {one for one in NAMED if one.endswith(".py")}
    assert all((PACKAGE / one).is_file() for one in files)
    assert NAMED - files <= set(mechanisms(PACKAGE))


def test_a_mechanism_and_a_charge_without_a_row_are_found(tmp_path):
    (tmp_path / "new.py").write_text(
        "class Loud:\n    def draw(self, counts, randomness): ...\n\n"
        "class Flat(ChargedAlike): ...\n\n"
        "class Shape(Protocol):\n    def draw(self, randomness): ...\n\n"
        "def release(run):\n    with run.open_account(rho=1.0): ...\n"
    )
    assert set(mechanisms(tmp_path)) == {"Loud", "Flat"}
    assert set(charging(tmp_path)) == {"new.py"}
