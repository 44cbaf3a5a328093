"""How long does an answer take where another process keeps a processor busy?

``python -m benchmarks.busy`` times the same answer alone and beside a process that never rests:
with threads that spin while they wait for each other, as OpenMP has them, with threads that sleep,
as the command line has them, and with one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.table import Table

from benchmarks.speed import machine

WAYS = {
    "threads that spin": {"OMP_WAIT_POLICY": "active"},
    "as OpenMP has them": {},
    "threads that sleep": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}
_CELL = ("private", "16", "128")  # experts, and tokens of each
_OTHERS = ("OMP_WAIT_POLICY", "OMP_NUM_THREADS")


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Processes that never rest."""
    spin = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(spin) for _ in range(processes)]  # noqa: S603 - ourselves
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def seconds(way: dict[str, str], tokens: int) -> float:
    """Of one answer, documents not read yet, in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in _OTHERS}
    command = [sys.executable, "-m", "benchmarks.speed", "--tokens", str(tokens), "--one", *_CELL]
    done = subprocess.run(  # noqa: S603 - ourselves
        command, env=environment | way, check=True, capture_output=True, text=True
    )
    timing = json.loads(done.stdout)
    return float(timing["first_token"] + (tokens - 1) * timing["per_token"])


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tokens", type=int, default=16, help="length of an answer")
    parser.add_argument("--busy", type=int, default=1, help="processes that never rest")
    parser.add_argument("--repeat", type=int, default=2, help="processes per figure; the best one")
    options = parser.parse_args()
    console = Console()
    console.print(machine())
    table = Table("", "alone, s", f"beside {options.busy} busy, s", "times as long")
    for name, way in WAYS.items():
        alone = min(seconds(way, options.tokens) for _ in range(options.repeat))
        with busy(options.busy):
            beside = min(seconds(way, options.tokens) for _ in range(options.repeat))
        table.add_row(name, f"{alone:.1f}", f"{beside:.1f}", f"{beside / alone:.2f}")
    console.print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
