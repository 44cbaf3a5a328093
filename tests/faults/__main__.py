"""Plant every recorded fault in a scratch copy, and see the named test fail.

``python -m tests.faults [--shard 1/4] [--only NAME] [--list]`` exits with 1 where one is missed.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from rich.progress import Progress

from tests.faults.record import ROOT, Fault, faults

PROCESSES = min(4, os.cpu_count() or 1)
SECONDS = 120
"""For one test: a fault that makes it hang is not seen by it."""


class ScratchCopy:
    """A copy of the checkout that is broken on purpose."""

    _stamps = count(1)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
        for name in filter(None, names.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def run(self, tests: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]:
        """Run tests on the copy's code, not on the installed one."""
        paths = os.pathsep.join([str(self.folder), str(self.folder / "integrations")])
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a copy is imported many times
        environment.setdefault("DPICL_RAG_DATA", str(ROOT.parent / "shared" / "data"))
        options = ("-x", "-q", "-rf", "-p", "no:cacheprovider", "--no-header", *options)
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS * len(tests),
            check=False,
        )

    def plant(self, fault: Fault) -> str:
        """What became of a fault: ``seen``, or why it was missed."""
        path = self.folder / fault.file
        honest = path.read_text(encoding="utf-8")
        if honest.count(fault.old) != 1:
            return f"its text is there {honest.count(fault.old)} times"
        try:
            self._write(path, honest.replace(fault.old, fault.new))
            ended = self.run([fault.test])
        except subprocess.TimeoutExpired:
            return "its test hangs"
        finally:
            self._write(path, honest)
        if ended.returncode == 1 and "\nFAILED " in ended.stdout:
            return "seen"
        return f"MISSED, exit {ended.returncode}"

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Compiled files know a source by its size and its second.
        stamp = time.time() + 10 * next(self._stamps)
        os.utime(path, (stamp, stamp))


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant what was asked for; the number of missed faults decides the exit."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--shard", default="1/1", help="2/4 is the second of four parts")
    parser.add_argument("--only", default="", help="faults whose name has these words")
    parser.add_argument("--list", action="store_true", help="print the record, plant nothing")
    asked = parser.parse_args(arguments)
    shard, shards = map(int, asked.shard.split("/"))
    chosen = [f for f in faults() if f.in_shard(shard, shards) and asked.only in f.name]
    if asked.list:
        for fault in chosen:
            print(f"{fault.name}\n    {fault.file}\n    {fault.test}")
        return 0
    with tempfile.TemporaryDirectory() as folder, Progress() as progress:
        copies: queue.Queue[ScratchCopy] = queue.Queue()
        for number in range(PROCESSES):
            copies.put(ScratchCopy(Path(folder, str(number))))
        honest = copies.get()
        tests = list(dict.fromkeys(fault.test for fault in chosen))
        ended = honest.run(tests, "-n", str(PROCESSES)) if tests else None
        copies.put(honest)
        if ended is not None and ended.returncode:
            print(ended.stdout[-4000:], ended.stderr[-2000:])
            return 1
        bar = progress.add_task("planting faults", total=len(chosen))

        def plant(fault: Fault) -> tuple[Fault, str, float]:
            copy, begun = copies.get(), time.monotonic()
            try:
                return fault, copy.plant(fault), time.monotonic() - begun
            finally:
                copies.put(copy)
                progress.advance(bar)

        with ThreadPoolExecutor(PROCESSES) as pool:
            results = list(pool.map(plant, chosen))
    for fault, result, seconds in results:
        print(f"{result:8} {seconds:5.1f} s  {fault.name}  ({fault.test})")
    missed = sum(result != "seen" for _, result, _ in results)
    print(f"{len(results) - missed} faults seen, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
