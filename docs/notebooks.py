"""Pages with programs that are run, and what they print below them; and the hooks of the site.

``python -m docs.notebooks docs/tutorials/mailbox.md`` runs a page and writes its outputs anew.
Blocks marked ``python`` share one namespace; ``bash`` runs in the same folder, a temporary one.
What a block prints is the ``text`` block after it. ``<!-- run`` hides a program. MkDocs loads this
file (`make docs`) for pages from outside ``docs``, and for a notebook of every tutorial.
"""

from __future__ import annotations

import io
import os
import posixpath
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
CELL = re.compile(
    r"^(?:```(?P<language>python|bash)\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?"
    r"|<!-- run\n(?P<hidden>.*?)^-->\n)",
    re.M | re.S,
)
KEY = re.compile(r"dpk-[\w-]+")  # of a server that is gone
LINK = re.compile(r"(\]\()([^)#:\s]+)([^)]*\))")
OUTSIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "THIRD_PARTY.md",
    "LICENSE",
    "benchmarks/*.md",
    "benchmarks/*.png",
    "demos/*.py",
    "demos/clients/*.py",
    "demos/clients/*.yaml",
)


def run(text: str) -> str:
    """Run the programs of a page in the working directory, and put what they print below them."""
    names: dict[str, Any] = {"__name__": "__main__"}

    def ran(cell: re.Match[str]) -> str:
        if cell["hidden"] is not None:
            exec(compile(cell["hidden"], "hidden", "exec"), names)
            return cell[0]
        code = cell["code"]
        if cell["language"] == "bash":
            done = subprocess.run(
                ["bash", "-ec", code],  # noqa: S607
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            printed = done.stdout
        else:
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(code, "page", "exec"), names)
            printed = out.getvalue()
        shown = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
        shown = KEY.sub("dpk-…", shown.replace(os.getcwd(), "."))
        block = f"```{cell['language']}\n{code}```\n"
        return f"{block}\n```text\n{shown}\n```\n" if shown else block

    return CELL.sub(ran, text)


def run_apart(page: Path) -> str:
    """Run a page in a process, a folder and a data folder of its own; the page with its outputs.

    Raises:
        subprocess.CalledProcessError: A program of the page failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        where = dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME"), f"{folder}/home")
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        paths = os.pathsep.join([str(ROOT), str(ROOT / "integrations")])
        done = subprocess.run(
            [sys.executable, "-P", "-m", "docs.notebooks", "-"],
            input=page.read_text("utf-8"),
            cwd=folder,
            env=os.environ
            | where
            | {"PATH": tools, "PYTHONPATH": paths, "COLUMNS": "88", "PYTHONWARNINGS": "ignore"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return done.stdout


def notebook(text: str) -> Any:
    """A page as a Jupyter notebook, with the outputs that it shows."""
    from nbformat import v4

    def cells() -> Iterator[Any]:
        end = 0
        for cell in CELL.finditer(text):
            if prose := text[end : cell.start()].strip():
                yield v4.new_markdown_cell(prose)
            end = cell.end()
            if cell["hidden"] is None:
                code = cell["code"].rstrip("\n")
                shown = [v4.new_output("stream", text=cell["output"])] if cell["output"] else []
                source = f"%%bash\n{code}" if cell["language"] == "bash" else code
                yield v4.new_code_cell(source, outputs=shown)
        if prose := text[end:].strip():
            yield v4.new_markdown_cell(prose)

    found = list(cells())
    for number, cell in enumerate(found):  # else ids are random, and no two builds the same
        cell["id"] = f"cell-{number}"
    return v4.new_notebook(cells=found)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages and pictures from outside ``docs``, under their paths in the repository."""
    import nbformat
    from mkdocs.structure.files import File

    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        made = nbformat.writes(notebook(page.read_text("utf-8")))
        files.append(File.generated(config, f"tutorials/{page.stem}.ipynb", content=made))
    # As the documentation of Typer says; in a process, so that colours and width are none of ours.
    words = ["-m", "typer", "dpicl_rag.cli", "utils", "docs", "--name", "dpicl-rag"]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    files.append(File.generated(config, "reference/command_line.md", content=done.stdout))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links between ``docs`` and the rest of the repository to the pages of the site."""
    source = page.file.src_uri
    outside = not (ROOT / "docs" / source).exists()
    folder = posixpath.dirname(source if outside else f"docs/{source}")

    def led(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        target = {"README.md": "docs/index.md"}.get(target, target).removeprefix("docs/")
        here = posixpath.relpath(target, posixpath.dirname(source) or ".")
        return f"{link[1]}{here}{link[3]}"

    text = LINK.sub(led, markdown)
    if source.startswith("tutorials/"):
        name = posixpath.basename(source).replace(".md", ".ipynb")
        text += f"\n\n[This page as a Jupyter notebook]({name}){{ download }}\n"
    return text


def main(arguments: list[str]) -> None:
    """Run pages; ``-`` runs the one on standard input, here."""
    if arguments == ["-"]:
        text = sys.stdin.read()
        with redirect_stdout(sys.stderr):
            ran = run(text)
        sys.stdout.write(ran)
        return
    for name in arguments:
        page = Path(name)
        page.write_text(run_apart(page), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
