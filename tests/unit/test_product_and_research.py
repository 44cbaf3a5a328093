"""The product stands without its research: nothing of it imports ``dpicl_research``."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from dpicl_rag.cli.entry_points import GROUP
from dpicl_research.commands import evaluate

ROOT = Path(__file__).parents[2]
RESEARCH = "dpicl_research"


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def product() -> Iterator[Path]:
    for folder in ("dpicl_rag", "integrations"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    """Every module that a source may import, inside functions and for types alone too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value  # for importlib, and names that are imported when first used


def of_research(source: str) -> list[str]:
    return [name for name in imported(source) if f"{name}.".startswith(f"{RESEARCH}.")]


def test_no_module_of_the_product_imports_research():
    files = list(product())
    assert len(files) > 200
    found = {str(f.relative_to(ROOT)): of_research(f.read_text("utf-8")) for f in files}
    assert {file: names for file, names in found.items() if names} == {}


def test_no_module_of_the_product_imports_relatively():
    """Else a module of research could be named without its package."""
    for file in product():
        nodes = ast.walk(ast.parse(file.read_text("utf-8")))
        assert not [n for n in nodes if isinstance(n, ast.ImportFrom) and n.level], file


def test_an_import_is_found_wherever_it_stands():
    planted = (
        "import dpicl_research.tasks",
        "from dpicl_research import tasks",
        "from dpicl_research.tasks import load_task",
        "def f():\n    from dpicl_research import tasks",
        "if TYPE_CHECKING:\n    from dpicl_research.tasks import Task",
        "import_module('dpicl_research.tasks')",
    )
    for source in planted:
        assert of_research(source), source
    assert not of_research("from dpicl_researcher import tasks")
    assert not of_research('"""See dpicl_research for more."""')


def test_the_command_that_joins_them_is_of_research_alone():
    assert "entry-points" not in project(ROOT)
    declared = project(ROOT / RESEARCH)["entry-points"][GROUP]
    assert list(declared) == ["evaluate"]
    assert EntryPoint("evaluate", declared["evaluate"], GROUP).load() is evaluate.app
