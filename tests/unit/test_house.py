"""The drawing of the house: what imports what, how large it is, and who owns a name.

Sizes and shared names are a little above the present ones: whoever makes them smaller lowers these,
and who needs more says why.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("dpicl_rag", "integrations")
MOST_LINES = 73_641  # experts of the packaged model read one sentence of their unit
MOST_FILES = 353
LONGEST = 450
SHARED_FILES = {"base.py"}
MOST_SHARED_TYPES = 9

pytestmark = [pytest.mark.heavy, pytest.mark.guard]  # whichever comes first reads every file


def files(root: Path = ROOT, folders: tuple[str, ...] = PRODUCT) -> dict[str, Path]:
    """Files of packages by the names of their modules."""
    found = {}
    for folder in folders:
        within = root / "integrations" if folder == "integrations" else root
        for file in sorted((root / folder).rglob("*.py")):
            parts = file.relative_to(within).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def imported(file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Modules of ours that a file imports, within functions and for types alone too."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = [f"{node.module}.{name.name}" for name in node.names]
            names = [one if one in modules else node.module for one in whole]
        else:
            continue
        yield from (name for name in names if name in modules)


def imports(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    return {name: set(imported(file, modules)) - {name} for name, file in modules.items()}


def room(module: str) -> str:
    """The folder, or the file beside the folders, that a module is in."""
    package, *within = module.split(".")
    return within[0] if package == "dpicl_rag" and within else package


def storeys() -> list[list[str]]:
    """Rooms as CONTRIBUTING lists them, a line each."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    block = text.split("## The order of rooms")[1].split("```")[1]
    return [line.split() for line in block.strip().splitlines()]


def wrong_ways(edges: Mapping[str, set[str]], order: list[list[str]]) -> set[str]:
    """Imports of a room that does not stand above."""
    height = {name: level for level, line in enumerate(order) for name in line}
    return {
        f"{one} imports {other}"
        for one, others in edges.items()
        for other in others
        if room(one) != room(other) and height[room(other)] >= height[room(one)]
    }


def test_a_room_imports_what_stands_above_it():
    modules, order = files(), storeys()
    assert {room(name) for name in modules} == {name for line in order for name in line}
    assert wrong_ways(imports(modules), order) == set()


def test_a_wrong_way_is_found():
    edges = {"dpicl_rag.cli.ask": {"dpicl_rag.ledger"}, "dpicl_rag.ledger": {"dpicl_rag.cli.ask"}}
    assert wrong_ways(edges, [["ledger"], ["cli"]]) == {
        "dpicl_rag.ledger imports dpicl_rag.cli.ask"
    }
    assert len(wrong_ways(edges, [["ledger", "cli"]])) == 2


def circle(edges: Mapping[str, set[str]]) -> list[str]:
    """A circle of files, if there is one."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_files_import_each_other_in_no_circle():
    # A package's own file lists what is in it.
    modules = {name: file for name, file in files().items() if file.name != "__init__.py"}
    assert circle(imports(modules)) == []


def test_a_circle_is_found():
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_the_house_grows_no_larger():
    lines = {name: len(file.read_text("utf-8").splitlines()) for name, file in files().items()}
    assert sum(lines.values()) <= MOST_LINES
    assert len(lines) <= MOST_FILES
    assert max(lines.values()) <= LONGEST, max(lines, key=lambda name: lines[name])


def shared_files(*folders: Path) -> set[str]:
    """Base names that more than one file below the folders has."""
    names = Counter(file.name for folder in folders for file in folder.rglob("*.py"))
    return {name for name, many in names.items() if many > 1} - {"__init__.py"}


def test_a_file_is_known_by_its_base_name_alone():
    folders = (ROOT / "dpicl_rag", ROOT / "dpicl_research", ROOT / "integrations")
    assert all(folder.is_dir() for folder in folders)
    assert shared_files(*folders) == SHARED_FILES


@pytest.mark.parametrize(("name", "found"), [("ledger.py", {"ledger.py"}), ("__init__.py", set())])
def test_a_second_file_of_a_name_is_found(tmp_path, name, found):
    for folder in (tmp_path / "one", tmp_path / "two" / "deep"):
        folder.mkdir(parents=True)
        (folder / name).touch()
    assert shared_files(tmp_path / "one", tmp_path / "two") == found


def types(file: Path) -> Iterator[str]:
    """Names of types that a module defines."""
    for node in parsed(file).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id[:1].isupper() and not target.id.isupper():
                yield target.id


def test_no_more_types_share_a_name():
    owners = defaultdict(set)
    for module, file in files().items():
        for name in types(file):
            owners[name].add(module)
    shared = {name: those for name, those in owners.items() if len(those) > 1}
    assert len(shared) <= MOST_SHARED_TYPES, shared
