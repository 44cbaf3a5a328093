"""The site: it builds without a warning, its reference is whole, and programs of its pages run."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from docs import notebooks

ROOT = Path(__file__).parents[2]
PAGES = {
    page.stem: page for page in (ROOT / "docs/index.md", *(ROOT / "docs/tutorials").glob("*.md"))
}
REFERENCES = {
    "python": "dpicl_rag",
    "langchain": "langchain_dpicl_rag",
    "llama_index": "llama_index_dpicl_rag",
}
PRINTED = {  # what a page's programs must print, however the noise falls
    "index": ["privacy units     36", "corpus mail", "of 20 (5.31)"],
    "mailbox": ["privacy units     80", "epsilon 4, delta 1e-05", "from memory"],
    "langchain_app": ["40 notes", "zinc ointment", "a patient's note among them: False"],
    "llama_index_app": ["80 nodes", "source nodes: []", "refused:"],
    "served": ['{"status":"ready"}', "Mill.", "kind", "401", "caller bo"],
    "auditor": ["rho 0.5: textbook 5.299", "the claim holds: True", "epsilon is at least"],
}


def cells(text: str) -> list[re.Match[str]]:
    return [cell for cell in notebooks.CELL.finditer(text) if cell["hidden"] is None]


def outputs(text: str) -> str:
    return "\n".join(cell["output"] or "" for cell in cells(text))


@pytest.mark.heavy
@pytest.mark.parametrize("name", PAGES)
def test_programs_of_a_page_run_and_print_what_it_is_about(name):
    """The same command writes what the site shows: ``python -m docs.notebooks``."""
    shown = outputs(notebooks.run_apart(PAGES[name]))
    assert [words for words in PRINTED[name] if words not in shown] == []
    assert "dpk-…" in shown or "dpk-" not in shown


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_a_run_of_its_present_programs(name):
    """The output that is stored has the same words, and no key and no folder of a machine."""
    shown = outputs(PAGES[name].read_text("utf-8"))
    assert [words for words in PRINTED[name] if words not in shown] == []
    assert "/tmp/" not in shown
    assert not re.search(r"dpk-\w", shown)


def test_a_program_is_run_and_its_output_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (
        "Two.\n\n<!-- run\nn = 2\n-->\n\n```python\nprint(n)\n```\n\n```text\n3\n```\n\n"
        "```bash\necho dpk-abc\n```\n\n```\nnot run\n```\n"
    )
    ran = notebooks.run(page)
    assert "```python\nprint(n)\n```\n\n```text\n2\n```\n" in ran
    assert "```bash\necho dpk-abc\n```\n\n```text\ndpk-…\n```\n" in ran
    assert notebooks.run(ran) == ran
    made = notebooks.notebook(ran)
    nbformat.validate(made)
    kinds = [cell.cell_type for cell in made.cells]
    assert kinds == ["markdown", "code", "code", "markdown"]
    assert made.cells[2].source == "%%bash\necho dpk-abc"


def test_a_program_that_fails_fails_its_page(tmp_path):
    page = tmp_path / "page.md"
    for program in ("```python\n1 / 0\n```\n", "```bash\nfalse\n```\n"):
        page.write_text(program)
        with pytest.raises(subprocess.CalledProcessError):
            notebooks.run_apart(page)


@pytest.mark.parametrize("page", REFERENCES)
def test_the_reference_has_all_public_names(page):
    package = REFERENCES[page]
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text("utf-8")
    listed = re.findall(rf"^::: {package}\.(\w+)$", text, re.M)
    assert sorted(listed) == sorted(importlib.import_module(package).__all__)


@pytest.mark.heavy
def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    start = (tmp_path / "index.html").read_text("utf-8")
    assert not re.search(r'(?:src|href)="https?://(?!squidfunk)', start)  # nothing is fetched
    assert (tmp_path / "tutorials" / "mailbox.ipynb").is_file()
