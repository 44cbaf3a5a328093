"""No file takes much more than its size allows, however it is packed or nested."""

import gzip
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import Skipped, load

TOO_LARGE = "larger than 16 MiB"
FILE_TOO_LARGE = "the file takes more than 128 MiB and 100 times its size from here on; split it"
MIB = 2**20


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


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_many_records_in_few_bytes(tmp_path: Path, name: str, packed: bool) -> None:
    row = b"a\n" if name == "a.csv" else b"1\n"
    raw = (b"head\n" if name == "a.csv" else b'{"text": "x"}\n') + row * 300_000
    (tmp_path / name).write_bytes(gzip.compress(raw) if packed else raw)
    (tmp_path / "z.txt").write_text("another file is read all the same")
    found = load(tmp_path)
    last = found.report.skipped[-1]
    assert last.reason == FILE_TOO_LARGE
    assert last.position.startswith(f"{name}, after record ")
    assert found.report.read < 250_000
    assert found.documents[-1].text == "another file is read all the same"


def test_rows_under_a_long_header(tmp_path: Path) -> None:
    header = ",".join(f"column {number}" for number in range(1_000)).encode()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(header + b"\n" + b"a\n" * 2_000))
    found = load(tmp_path)
    assert len(found.documents) < 1_100
    assert found.report.skipped[-1].reason == FILE_TOO_LARGE


def test_a_long_line_is_not_unpacked_to_its_end(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wb", compresslevel=1) as file:
        file.write(b'{"text": "kept"}\n')
        for _ in range(300):
            file.write(bytes(MIB))
    found = load(tmp_path)
    assert [document.text for document in found.documents] == ["kept"]
    assert found.report.skipped == (Skipped("a.jsonl.gz, after record 1", FILE_TOO_LARGE),)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt"])
def test_a_record_that_is_too_large(tmp_path: Path, name: str, encoding: str) -> None:
    """Under UTF-16 too, and no part of it is read as a row."""
    long = "x," * (9 * MIB)
    text = f"text\n{long}\nshort\n"
    if name == "a.jsonl":
        text = f'{{"text": "{long}"}}\n{{"text": "short"}}\n'
    (tmp_path / name).write_text(text, encoding)
    if name == "a.txt":
        with pytest.raises(LoaderError, match=TOO_LARGE):
            load(tmp_path)
        return
    found = load(tmp_path)
    assert [document.text for document in found.documents] == ["short"]
    assert [item.reason for item in found.report.skipped] == [TOO_LARGE]


def test_a_quoted_field_over_many_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text\nfirst\n"' + ("word " * 200 + "\n") * 17_000)
    found = load(tmp_path)
    assert found.documents[0].text == "first"
    assert found.report.skipped[0] == Skipped("a.csv: row 2 (line 3)", TOO_LARGE)


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
}
LOAD = """
import resource, sys
from dpicl_rag.errors import LoaderError
from dpicl_rag.loaders import load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load(sys.argv[1])
except LoaderError:
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory in KiB")
@pytest.mark.parametrize("name", BOMBS)
def test_memory_of_a_small_file(tmp_path: Path, name: str) -> None:
    begin, unit, times = BOMBS[name]
    path = tmp_path / f"{name}.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(begin)
        for _ in range(100):
            file.write(unit * (times // 100))
    assert path.stat().st_size < 600_000

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))

    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=True,
    )
    assert int(done.stdout) < 400 * 1024
