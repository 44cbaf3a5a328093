"""The record of planted faults fits the tree: what it edits and what it names are there."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from tests.faults.__main__ import ScratchCopy, main
from tests.faults.record import ROOT, Fault, faults

RECORD = list(faults())


TESTS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("file", sorted({fault.file for fault in RECORD}))
def test_a_fault_edits_one_place_and_names_a_test(file: str) -> None:
    assert file.startswith(("dpicl_rag/", "dpicl_research/", "integrations/"))
    text = (ROOT / file).read_text(encoding="utf-8")
    for fault in (fault for fault in RECORD if fault.file == file):
        assert (fault.name, text.count(fault.old)) == (fault.name, 1)
        assert fault.old != fault.new
        path, *names = fault.test.split("::")
        here = (ROOT / path).read_text(encoding="utf-8")
        # A contract's tests stand in its base class, so those of classes may be elsewhere.
        defined = f"def {names[-1].partition('[')[0]}("
        assert defined in (here if len(names) == 1 else TESTS), fault.name


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(RECORD) >= 60
    assert max(Counter(fault.name for fault in RECORD).values()) == 1


def test_shards_have_each_fault_once() -> None:
    assert Counter(f for n in (1, 2, 3) for f in RECORD if f.in_shard(n, 3)) == Counter(RECORD)


class TestPlanting:
    """What the runner says of an edit, by what its test then does."""

    @pytest.fixture
    def copy(self, tmp_path, monkeypatch):
        (tmp_path / "a.py").write_text("ONE = 1\n")
        monkeypatch.setattr(ScratchCopy, "__init__", lambda self, folder: None)
        found = ScratchCopy(tmp_path)
        found.folder = tmp_path
        return found

    def ended(self, monkeypatch, code: int, out: str) -> list[str]:
        """Tests end so; what the edited file said then."""
        texts: list[str] = []

        def run(copy, tests, *options):
            texts.append((copy.folder / "a.py").read_text())
            return subprocess.CompletedProcess([], code, out, "")

        monkeypatch.setattr(ScratchCopy, "run", run)
        return texts

    @pytest.mark.parametrize(
        ("code", "out", "said"),
        [
            (1, "\nFAILED a", "seen"),
            (0, "\n1 passed", "MISSED, exit 0"),
            (1, "\nERROR at setup", "MISSED, exit 1"),
            (2, "\nERROR collecting", "MISSED, exit 2"),
            (4, "\nnot found", "MISSED, exit 4"),
        ],
    )
    def test_only_a_failed_test_has_seen_it(self, copy, monkeypatch, code, out, said):
        texts = self.ended(monkeypatch, code, out)
        assert copy.plant(Fault("a", "a.py", "ONE = 1", "ONE = 2", "t")) == said
        assert texts == ["ONE = 2\n"]
        assert (copy.folder / "a.py").read_text() == "ONE = 1\n"

    def test_a_text_that_is_gone_is_missed(self, copy, monkeypatch):
        assert self.ended(monkeypatch, 1, "\nFAILED a") == []
        fault = Fault("a", "a.py", "TWO", "ONE", "t")
        assert copy.plant(fault) == "its text is there 0 times"


def test_the_record_can_be_read(capsys) -> None:
    assert main(["--list", "--shard", "1/2"]) == 0
    assert "tests/unit/" in capsys.readouterr().out
