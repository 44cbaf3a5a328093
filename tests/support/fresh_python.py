"""A fresh interpreter, for what this one has imported, locked or set already."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]


def run_python(
    code: str, *arguments: object, env: Mapping[str, str] | None = None, status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program from the project's root, to its end.

    Args:
        code: The program.
        *arguments: Its words.
        env: Its environment, in place of this one's.
        status: What it must end with.
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env=env,
    )
    assert done.returncode == status, done.stderr
    return done
