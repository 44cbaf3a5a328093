"""A file of the packages is known by its base name alone."""

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = ("dpicl_rag", "dpicl_research", "langchain_dpicl_rag", "llama_index_dpicl_rag")
SHARED = {"__init__.py", "base.py"}


def repeated(*folders):
    """Base names that more than one file below the folders has."""
    names = Counter(path.name for folder in folders for path in Path(folder).rglob("*.py"))
    return sorted(name for name, files in names.items() if files > 1 and name not in SHARED)


def test_every_file_has_a_base_name_of_its_own():
    folders = [place for name in PACKAGES for place in find_spec(name).submodule_search_locations]
    assert len(folders) == len(PACKAGES)
    assert repeated(*folders) == []


@pytest.mark.parametrize(("name", "found"), [("ledger.py", ["ledger.py"]), ("base.py", [])])
def test_a_second_file_of_a_name_is_found(tmp_path, name, found):
    for folder in (tmp_path / "one", tmp_path / "two" / "deep"):
        folder.mkdir(parents=True)
        (folder / name).touch()
    assert repeated(tmp_path / "one", tmp_path / "two") == found
