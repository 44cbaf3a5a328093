"""No file takes much more than its size allows, however it is packed or nested."""

import errno
import gc
import gzip
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import Skipped, load, loader, streams
from dpicl_rag.loaders.sources import KINDS
from tests.support.fresh_python import run_python

TOO_LARGE = "larger than 16 MiB"
MIB = 2**20


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """A finalizer of another test's that runs at such a depth fails, for want of stack."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage")
@pytest.mark.parametrize("depth", [450, 900, 5_000, 100_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_deep_json_costs_only_its_line(tmp_path: Path, depth: int, begin: str, end: str) -> None:
    deep = '{"text": ' + begin * depth + "1" + end * depth + "}"
    (tmp_path / "a.jsonl").write_text(f'{{"text": "one"}}\n{deep}\n{{"text": "two"}}\n')
    found = load(tmp_path)
    texts = [document.text for document in found.documents]
    assert (texts[0], texts[-1]) == ("one", "two")
    assert found.report.skipped in ((), (Skipped("a.jsonl: line 2", "nested too deeply"),))
    assert found.report.read == 3


def write(path: Path, raw: bytes, packed: bool) -> Path:
    path = path.with_name(path.name + (".gz" if packed else ""))
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


@pytest.mark.one_in(4)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("large", [0, 3 * MIB])
@pytest.mark.parametrize("share", [15, pytest.param(1, marks=pytest.mark.heavy)])
def test_many_short_rows_are_all_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool, large: int, share: int
) -> None:
    """A short row takes a thousand times its size as a record; none is left out for it.

    150,000 rows, a sixth of what the smaller public limit holds; or a fifteenth of both.
    """
    for limit in ("MAX_FILE_BYTES", "MAX_PACKED_BYTES"):
        monkeypatch.setattr(streams, limit, getattr(streams, limit) // share)
    count = 150_000 // share
    rows = b"".join(b"%d\n" % (number % 10) for number in range(count))
    path = write(tmp_path / "a.csv", b"a\n" + rows + b"z" * (large + 1) + b"\n", packed)
    assert load(path).report.loaded == count + 1


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.mbox"])
def test_nothing_is_loaded_of_a_file_that_is_too_large_and_no_other_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, packed: bool
) -> None:
    monkeypatch.setattr("dpicl_rag.loaders.streams.MAX_FILE_BYTES", 2 * MIB)
    raw = b"From x Mon Dec 13 07:05:00 2000\nSubject: a\n\n" + b"b\n" * MIB
    path = write(tmp_path / name, raw, packed)
    is_alone_in_what_is_skipped(path, r"it holds more than 2 MiB, so nothing.*split it")


def is_alone_in_what_is_skipped(path: Path, reason: str) -> None:
    """By its name it is refused; inside a folder it is skipped, and another is read."""
    with pytest.raises(LoaderError, match=reason):
        load(path)
    (path.parent / "z.txt").write_text("another file")
    found = load(path.parent)
    assert [document.text for document in found.documents] == ["another file"]
    ((position, told),) = [(one.position, one.reason) for one in found.report.skipped]
    assert position == path.name
    assert re.search(reason, told)


def test_nothing_is_loaded_where_records_take_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found while it is read, when some of its rows are records already."""
    monkeypatch.setattr("dpicl_rag.loaders.streams.MAX_FILE_BYTES", 64 * MIB)
    header = ",".join(f"column {number}" for number in range(1_000))
    (tmp_path / "a.csv").write_text(header + "\n" + "a\n" * 2_000)
    is_alone_in_what_is_skipped(
        tmp_path / "a.csv", r"it takes in memory more than 64 MiB.*split it"
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("ending", {kind: ending for ending, kind in KINDS.items()}.values())
def test_no_archive_of_any_kind_stops_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr("dpicl_rag.loaders.streams.MAX_PACKED_BYTES", MIB)
    (tmp_path / "z.txt").write_text("another file")
    (tmp_path / f"bomb{ending}.gz").write_bytes(gzip.compress(bytes(20 * MIB)))
    (tmp_path / f"cut{ending}.gz").write_bytes(gzip.compress(b"text\n" * 999)[:-9])
    found = load(tmp_path)
    assert [document.text for document in found.documents] == ["another file"]
    assert {one.position for one in found.report.skipped} == {f"bomb{ending}.gz", f"cut{ending}.gz"}


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.mbox", "a.txt", "a.eml"])
def test_a_file_that_fails_while_it_is_read_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As a share does whose server went away: the first bytes are there, and then no more."""
    (tmp_path / name).write_text("text\n" * 9)
    (tmp_path / "z.md").write_text("another file")

    class Failing(io.BytesIO):
        def readinto(self, buffer: object) -> int:
            raise OSError(errno.EIO, "gone")

    opened = loader.open_stream
    monkeypatch.setattr(
        loader,
        "open_stream",
        lambda path: io.BufferedReader(Failing()) if path.name == name else opened(path),
    )
    found = load(tmp_path)
    assert [document.text for document in found.documents] == ["another file"]
    assert found.report.skipped == (Skipped(name, "the file cannot be read"),)


def test_a_small_archive_may_hold_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpicl_rag.loaders.streams.MAX_PACKED_BYTES", MIB)
    path = write(tmp_path / "a.jsonl", b'{"text": "kept"}\n' + bytes(20 * MIB), packed=True)
    with pytest.raises(LoaderError, match="unpack it or split it"):
        load(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt"])
def test_a_record_that_is_too_large(tmp_path: Path, name: str, encoding: str) -> None:
    """Under UTF-16 too, and no part of it is read as a row."""
    long = "x," * (9 * MIB)
    text = f"text\n{long}\nshort\n"
    if name == "a.jsonl":
        text = f'{{"text": "{long}"}}\n{{"text": "short"}}\n'
    (tmp_path / name).write_text(text, encoding)
    found = load(tmp_path)
    rows = [] if name == "a.txt" else ["short"]
    assert [document.text for document in found.documents] == rows
    assert [item.reason for item in found.report.skipped] == [TOO_LARGE]


@pytest.mark.heavy
@pytest.mark.parametrize("closed", [False, True])
def test_a_quoted_field_over_many_lines(tmp_path: Path, closed: bool) -> None:
    """Closed, it is one row that is too large, and no line of it is one; else it costs its line."""
    text = ("word " * 200 + "\n") * 17_000
    (tmp_path / "a.csv").write_text(f'text\nfirst\n"{text}' + ('"\nlast\n' if closed else ""))
    found = load(tmp_path)
    assert found.documents[0].text == "first"
    reason = TOO_LARGE if closed else "a quote that is not closed"
    assert found.report.skipped == (Skipped("a.csv: row 2 (line 3)", reason),)
    assert found.report.loaded == (2 if closed else 17_000)


@pytest.mark.heavy
def test_real_text_passes(tmp_path: Path) -> None:
    """Twenty times its size, and many records."""
    rows = [{"text": f"entry {number}: " + "the same words " * 20} for number in range(20_000)]
    raw = "".join(json.dumps(row) + "\n" for row in rows).encode()
    packed = gzip.compress(raw)
    assert len(raw) > 15 * len(packed)
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    assert load(tmp_path).report.loaded == 20_000


# Beginning, unit that is repeated, and how often, by name: 60 MB each, packed to 600 KB at most.
BOMBS = {
    "rows.csv": (b"a,b\n", b"a,b\n", 15_000_000),
    "fields.csv": (b"", b"a,", 30_000_000),
    "list.jsonl": (b'{"a":[', b"[],", 20_000_000),
    "lines.txt": (b"", b"a \n", 20_000_000),
    "mail.eml": (b"From: a@b.c\n\n", b"a\n", 30_000_000),
    "lines.json": (b'{"text": "a"}\n', b" \n", 5_000_000),
}
LOAD = """
import resource, sys
from collections.abc import Iterator
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import streams
from dpicl_rag.loaders import load

def peak():  # of this program alone: a process's own `ru_maxrss` begins with what forked it
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

streams.MAX_PACKED_BYTES = int(sys.argv[2])
streams.PACKED_RATIO = 0
before = peak()
try:
    load(sys.argv[1])
    print("loaded")
except LoaderError:
    print("refused")
print(peak() - before)
"""


def bomb(path: Path, name: str) -> None:
    begin, unit, times = BOMBS[name]
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(begin)
        for _ in range(100):
            file.write(unit * (times // 100))
    assert path.stat().st_size < 600_000


@pytest.mark.one_in(6)
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory in /proc")
@pytest.mark.parametrize(
    ("name", "limit", "most"),
    [
        ("rows.csv", 64 * MIB, 64),
        pytest.param("rows.csv", 1024 * MIB, 1024, marks=pytest.mark.heavy),
        pytest.param("lines.json", 1024 * MIB, 150, marks=pytest.mark.heavy),
        *((name, 1024 * MIB, 150) for name in BOMBS if name not in ("rows.csv", "lines.json")),
    ],
)
def test_memory_of_a_small_file(tmp_path: Path, name: str, limit: int, most: int) -> None:
    """No more than the limit on archives, which many rows reach, and else than a few records."""
    path = tmp_path / f"{name}.gz"
    bomb(path, name)

    ended, peak = run_python(LOAD, path, limit).stdout.split()
    assert ended == ("refused" if name == "rows.csv" else "loaded")
    assert int(peak) < most * 1024
