"""docs/papers.md: every figure under *Published* is that of the table it names.

A cell says ``Table 2 at ε 1, 2: DBpedia few-shot 64.68 64.78; DBpedia adaptive 66.76 67.48.``: rows
of the table, each with its values in the columns that are named. Other numbers do not stand there,
but settings such as ``ε 1, 2`` and names such as ``Llama-2-7B``.
"""

from __future__ import annotations

import re

import pytest

from tests.support.papers_page import ROWS, Row
from tests.support.published_figures import PAPERS, PublishedTable

SOURCE = re.compile(r"((?:Table|Section|Figure) [\w.-]+) at ([^:]+): (.+?)\.(?=\s|$)")
VALUES = re.compile(r"(.+?)((?: \d+(?:\.\d+)?)+)")
PLACE = re.compile(
    r"(?i:tables?|sections?|figures?|theorem|appendix) [\w.-]+(?: (?:and|to) [\w.-]+)?"
)
SETTING = re.compile(r"ε [\d, ]*\d|`[^`]*`|\S*[^\W\d]\S*")


def tables_of(row: Row) -> dict[str, PublishedTable]:
    """The tables of the paper that a row is about."""
    (paper,) = (name for name in PAPERS if row["paper"].startswith(name))
    return dict(PAPERS[paper])


def check(row: Row) -> None:
    """Raise unless a row's published figures are the paper's."""
    cell = row["published"]
    for name, columns, clauses in SOURCE.findall(cell):
        table = tables_of(row)[name]
        assert columns.startswith(f"{table.over} "), f"{name} is over {table.over}"
        places = columns.removeprefix(f"{table.over} ").split(", ")
        for clause in clauses.split("; "):
            found = VALUES.fullmatch(clause)
            assert found, f"no row and its values: {clause}"
            own, values = found[1], [float(value) for value in found[2].split()]
            assert values == [table.value(own, place) for place in places], clause
    rest = PLACE.sub(" ", SOURCE.sub(" ", cell))
    assert not re.search(r"\d", SETTING.sub(" ", rest)), f"a figure without its table: {rest}"


@pytest.mark.parametrize("row", ROWS, ids=[row["part"][:40] for row in ROWS])
def test_published_figures_are_those_of_the_papers(row: Row) -> None:
    check(row)


def test_most_rows_have_published_figures() -> None:
    assert sum(bool(SOURCE.search(row["published"])) for row in ROWS) > 25


@pytest.mark.parametrize(
    "cell",
    [
        "Table 2 at ε 1, 2: DBpedia few-shot 64.68 64.87.",  # a slip of the pen
        "Table 2 at ε 2, 1: DBpedia few-shot 64.68 64.78.",  # in other columns
        "Table 2 at ε 1, 2: DBpedia adaptive 64.68 64.78.",  # of another row
        "Table 2 at ε 1, 2: DBpedia few-shot 64.68.",  # one is missing
        "Table 3 at ε 1: few-shot 64.44.",  # over shots
        "Table 2 at ε 3: DBpedia few-shot 64.68.",
        "few-shot 64.68 with Llama-2-7B",  # without its table
    ],
)
def test_a_figure_that_is_not_the_paper_s_is_found(cell: str) -> None:
    row = {"paper": "AdaDPSyn (Gao et al., ICLR 2025)", "published": cell}
    check({**row, "published": "Table 2 at ε 1, 2: DBpedia few-shot 64.68 64.78. With Llama-2-7B."})
    with pytest.raises((AssertionError, KeyError, ValueError)):
        check(row)
