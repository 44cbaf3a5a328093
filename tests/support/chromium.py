"""Debian's Chromium, driven by Playwright; a test without one of the two is skipped."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

PATH = shutil.which("chromium") or shutil.which("chromium-browser")


def require_browser():
    """Playwright's interface; skips the test, or the module that is being imported."""
    found = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if PATH is None:
        pytest.skip("no chromium here: apt-get install chromium", allow_module_level=True)
    return found


@contextmanager
def browsing():
    """A browser without a window."""
    with require_browser().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
