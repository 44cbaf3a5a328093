"""The product stands without its research: nothing of it imports ``dpicl_rag.research``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESEARCH = "dpicl_rag.research"
BESIDE = ("dpicl_rag/research/*.py", "dpicl_rag/cli/evaluate*.py")
"""What may import it: itself, and the commands that run it."""


def product() -> Iterator[Path]:
    for folder in ("dpicl_rag", "integrations"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            if not any(file.relative_to(ROOT).match(pattern) for pattern in BESIDE):
                yield file


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
        "import dpicl_rag.research.tasks",
        "from dpicl_rag import research",
        "from dpicl_rag.research.tasks import load_task",
        "def f():\n    from dpicl_rag.research import tasks",
        "if TYPE_CHECKING:\n    from dpicl_rag.research.tasks import Task",
        "import_module('dpicl_rag.research.tasks')",
    )
    for source in planted:
        assert of_research(source), source
    assert not of_research("from dpicl_rag.researcher import tasks")
    assert not of_research('"""See dpicl_rag.research for more."""')
