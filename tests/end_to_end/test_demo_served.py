"""``make demo`` in a process of its own: it prints a link, and the page there answers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.chromium import browsing, require_browser

ROOT = Path(__file__).parents[2]
PATIENCE = 240  # seconds until something is there; a busy machine is slow
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals"),
    pytest.mark.skipif(shutil.which("make") is None, reason="needs make"),
]


def command_of(target):
    """What ``make`` runs for a target, by this interpreter and in this environment."""
    told = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    *settings, python, module_flag, module = shlex.split(told.strip().splitlines()[-1])
    assert python == ".venv/bin/python"
    given = dict(setting.split("=", 1) for setting in settings)
    return [sys.executable, module_flag, module], os.environ | given


@contextmanager
def demo(folder):
    """The demo, its lines up to the questions that it proposes, and when the link came."""
    command, environment = command_of("demo")
    process = subprocess.Popen(
        [*command, "--port", "0"],
        cwd=ROOT,
        env={**environment, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            lines, came = [], None
            for line in process.stdout:
                lines.append(line.rstrip())
                if "http://" in line and came is None:
                    came = time.monotonic()
                if "Ctrl-C" in line:
                    break
            yield process, lines, came
        finally:
            process.kill()


def test_it_ends_with_a_page_that_answers(tmp_path, record_property):
    require_browser()
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder, demo(folder) as (process, told, came):
        (at,) = [row for row, line in enumerate(told) if line.startswith("Open http://")]
        url = re.search(r"http://\S+", told[at])[0]
        question = told[at + 1].strip()
        assert question.endswith("?")
        with browsing() as browser:
            page = browser.new_page()
            page.set_default_timeout(PATIENCE * 1000)
            page.goto(url)
            page.wait_for_selector("#send:enabled")
            page.fill("#question", question)
            page.click("#send")
            page.wait_for_selector(".turn .cost:not(:empty)")
            took = time.monotonic() - came
            said = page.inner_text(".turn .answer >> nth=0")
            cost = page.inner_text(".turn .cost")
        record_property("seconds_from_link_to_answer", round(took, 1))
        sys.stdout.write(f"\n{took:.1f} s from the link to the end of the first answer\n")
        # What is said is the model's; that it ended and was paid for is the page's.
        assert said.strip()
        assert "It spent at most" in cost
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not any(Path(folder).iterdir())
