"""docs/papers.md: every command is run as it stands there, on made-up data and tiny models.

All of them are typed in one folder, as somebody does who reads the page from its top: runs that
share a folder must fit each other. A new row of the page is run without a change here. One that
names a file that is not there needs it in `place`, and one that takes long needs a line in `TINY`.
All but three are heavy; `test_cli_papers_page` parses every one.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from dpicl_rag.cli import console, data_folder
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.methods import METHODS
from dpicl_rag.tabular.schema import Schema
from dpicl_research import vision_prototype
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.command_line import run_command
from tests.support.images import ColourNetwork
from tests.support.made_up_peers import install_made_up_peers
from tests.support.papers_page import COMMANDS, collected, commands_of, rows_of
from tests.support.tiny_benchmark import make_tiny_benchmark, write_photos, write_table
from tests.support.tiny_model import build_tiny_model, save_tiny_model
from tests.support.tiny_vision_folders import save_tiny_qwen

TINY: Mapping[str, str] = {
    "dpicl-rag evaluate run": "--seeds 2 --queries 2 --text-tokens 6 --shot-tokens 2",
    "dpicl-rag evaluate membership": "--seeds 2 --examples 4 --text-tokens 6",
    "dpicl-rag evaluate synthetic": "--seeds 1 --queries 2 --max-tokens 2 --text-tokens 6",
    "dpicl-rag evaluate synthetic-membership": "--seeds 1 --max-tokens 2 --attacked 2",
    "dpicl-rag evaluate radius": "--max-tokens 2 --text-tokens 6",
    "dpicl-rag evaluate images": "--seeds 2",
    "dpicl-rag evaluate membership-images": "--seeds 2",
    # t-tests are over seeds
    "dpicl-rag evaluate tabular --task adult,car": "--seeds 2 --queries 1",
    "dpicl-rag evaluate tabular": "--seeds 1 --queries 1",
    "python -m benchmarks.tabular": "--runs 2",
}
"""Sizes that are put behind a command's own options, by its first words, the longest first; of an
option that is given twice the last one counts."""

ALWAYS = (
    "dpicl-rag classify",
    "dpicl-rag evaluate run --task agnews --methods all",
    "python -m benchmarks.tabular --published",
)
"""Beginnings of the commands that every run of the tests runs, the first command of each: an
answer, a whole evaluation, and a program that is no command of ours."""

FEWER = 40
"""Where examples are sampled, so many times fewer of them, at so many times the rate: the prompts
of a query keep their number."""

SMALL = {
    **{"num_hidden_layers": 1, "max_position_embeddings": 8192},
    **{"num_attention_heads": 1, "num_key_value_heads": 1},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands are typed: it has the files that they name, and the benchmark data."""
    folder = tmp_path_factory.mktemp("papers")
    make_tiny_benchmark(folder / "data")
    write_table(folder / "train.csv", Schema.read("adult"), 20)
    write_photos(folder / "photos")
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar
        save_tiny_qwen(folder / "my-vlm")
        save_tiny_model(folder / "my-model", **SMALL)
    lines = [{"text": f"The train leaves at {n}.", "owner": f"o{n}"} for n in range(3)]
    (folder / "mail.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def model() -> TransformersModel:
    """Smaller than the usual one, with a context that holds the longest prompts, a token a byte."""
    return build_tiny_model(**SMALL)


@pytest.fixture(autouse=True)
def home(place: Path, monkeypatch: pytest.MonkeyPatch, model: TransformersModel) -> Path:
    """The same user's folder for all commands; models and other packages are made up."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_DATA_HOME", str(place / "home"))
    monkeypatch.setenv("DPICL_RAG_DATA", str(place / "data"))
    monkeypatch.delenv("DPICL_RAG_STORE", raising=False)
    monkeypatch.delenv("DPICL_RAG_LEDGER", raising=False)
    monkeypatch.setattr(data_folder, "load_embedder", lambda name, device=None: BucketEmbedder())
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: model)
    monkeypatch.setattr(vision_prototype, "EfficientNetLite", ColourNetwork)
    install_made_up_peers(monkeypatch)
    console.show_tracebacks(False)
    return place


def tiny(command: str) -> list[str]:
    """The words of a command, with small sizes behind its own."""
    words = shlex.split(command)
    more = next((sizes for name, sizes in TINY.items() if f"{command} ".startswith(f"{name} ")), "")
    if "--exemplars" in words:
        words += ["--experts", str(math.ceil(int(after(words, "--experts")[0]) / FEWER))]
        if rates := after(words, "--rate"):
            words += ["--rate", ",".join(f"{FEWER * float(rate):.9g}" for rate in rates)]
    return words + shlex.split(more)


def after(words: Sequence[str], option: str) -> list[str]:
    """What an option names, separated by commas; nothing where it is not given."""
    given = dict(pairwise(words)).get(option, "")
    return [part for part in given.split(",") if part]


def type_in(command: str) -> None:
    """Run a command and look at what it leaves.

    Raises:
        AssertionError: It failed, or it did not print or write what it promises.
    """
    first, *words = tiny(command)
    if first == "pytest":
        assert collected(words) > 0, f"no test is named by {command}"
        return
    with pytest.MonkeyPatch.context() as patch:
        said = of_module(words, patch) if first == "python" else of_program(first, words)
    check_printed(said, words)
    for option in ("--out", "--plot"):
        for name in after(words, option):
            assert written(Path(name)), f"{option} {name} is empty"


def of_program(name: str, words: Sequence[str]) -> str:
    assert name == "dpicl-rag"
    result = run_command(*words, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def of_module(words: Sequence[str], patch: pytest.MonkeyPatch) -> str:
    flag, name, *rest = words
    assert flag == "-m"
    patch.setattr("sys.argv", [name, *rest])
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        try:
            importlib.import_module(name).main()
        except (Exception, SystemExit) as error:
            raise AssertionError(f"{name}: {error!r}") from error
    return stream.getvalue()


def check_printed(said: str, words: Sequence[str]) -> None:
    """Something is printed: numbers beside every method that an evaluation is asked for."""
    assert said.strip(), "nothing is printed"
    if words[:1] == ["evaluate"]:
        methods = [*after(words, "--methods"), *after(words, "--method")]
        for name in METHODS if methods == ["all"] else methods:
            line = rf"(?<![\w-]){re.escape(name)}(?![\w-]).*\d"
            assert re.search(line, said), f"no line with numbers for {name}"


def written(path: Path) -> bool:
    """Whether something is in a file, or in some file of a folder."""
    files = [path, *path.rglob("*")] if path.exists() else []
    return any(file.is_file() and file.stat().st_size for file in files)


class Reader:
    """Somebody who types the commands of the page, each once, and first what they read of."""

    def __init__(self, commands: Sequence[str]) -> None:
        self._commands = commands
        self._done: set[str] = set()

    def type(self, command: str) -> None:
        """Run a command unless it was run; see `type_in`."""
        if command in self._done:
            return
        for before in self._before(shlex.split(command)):
            self.type(before)
        type_in(command)
        self._done.add(command)

    def _before(self, words: Sequence[str]) -> Iterator[str]:
        """The page's commands that make the runs that this one reads."""
        made = set(after(words, "--out"))
        for word in words:
            if word.startswith("runs/") and word not in made:
                makes = [c for c in self._commands if word in after(shlex.split(c), "--out")]
                assert makes, f"no command of the page makes {word}"
                yield makes[0]
        if "ingest" not in words and after(words, "--corpus"):
            (corpus,) = after(words, "--corpus")
            yield f"dpicl-rag ingest {corpus}.jsonl --corpus {corpus}"


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(COMMANDS)


def beginning(start: str) -> str:
    """The first command of the page that starts so."""
    return next(command for command in COMMANDS if command.startswith(start))


def marks_of(command: str) -> list[pytest.MarkDecorator]:
    """A command is heavy unless it is one of the three."""
    return [] if command in map(beginning, ALWAYS) else [pytest.mark.heavy]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "command", [pytest.param(each, marks=marks_of(each), id=each[:80]) for each in COMMANDS]
)
def test_a_command_of_the_page_runs(command: str, reader: Reader) -> None:
    reader.type(command)


@pytest.mark.parametrize(
    ("start", "old", "new"),
    [
        ("dpicl-rag evaluate run --task agnews", "--methods all", "--methods peo"),
        ("dpicl-rag evaluate run --task dbpedia", "dbpedia", "dpbedia"),
        ("dpicl-rag evaluate run --task trec", "--experts 4,8", "--experts four"),
        ("dpicl-rag evaluate report runs/subsets", "runs/subsets", "runs/subset"),
        ("dpicl-rag evaluate images photos", "photos", "fotos"),
        ("dpicl-rag evaluate synthetic --task dbpedia", "adaptive", "adapted"),
        ("dpicl-rag evaluate tabular --task adult,car", "published,0.05", "publish,0.05"),
        ("dpicl-rag tabular local", "--method one-hot", "--method one-hit"),
        ("dpicl-rag tabular local", "--schema heart", "--schema hart"),
        ("dpicl-rag synthesise examples train.csv", "--plan", "--plans"),
        ("python -m benchmarks.tabular --epsilon", "1,10", "1,x"),
        ("python -m benchmarks.tabular --published", "--published", "--publish it"),
        ("pytest -s tests/unit/research", "settings.py", "setting.py"),
        ("pytest -s tests/unit/tabular", "-k paper", "-k papyrus"),
    ],
)
def test_a_fault_in_a_command_is_found(reader: Reader, start: str, old: str, new: str) -> None:
    command = beginning(start)
    assert old in command
    with pytest.raises(AssertionError):
        reader.type(command.replace(old, new))


def raises(*args: object, **given: object) -> None:
    raise RuntimeError


PROGRAMS = {
    "dpicl-rag classify": "dpicl_rag.cli.classify_commands.data_folder.open_corpus",
    "dpicl-rag evaluate run": "dpicl_research.paper_protocol.run",
    "dpicl-rag evaluate membership-images": "dpicl_research.picture_membership.run",
    "dpicl-rag evaluate synthetic ": "dpicl_research.synthetic_examples.run",
    "dpicl-rag evaluate radius": "dpicl_research.radius_search.measure",
    "dpicl-rag evaluate tabular": "dpicl_research.table_labels.run",
    "dpicl-rag evaluate report runs/agnews runs/trec": "dpicl_research.plots.save",
    "python -m benchmarks.tabular": "benchmarks.tabular.bits_table",
}
"""What does the work of a command, by the command's beginning."""


@pytest.mark.parametrize(
    ("start", "runner"),
    [pytest.param(*each, marks=marks_of(beginning(each[0]))) for each in PROGRAMS.items()],
)
def test_a_fault_in_the_program_is_found(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, start: str, runner: str
) -> None:
    command = beginning(start)
    reader.type(command)
    monkeypatch.setattr(runner, raises)
    with pytest.raises(AssertionError):
        type_in(command)


@pytest.mark.heavy
def test_a_plot_that_is_not_written_is_found(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    command = beginning("dpicl-rag evaluate convergence")
    reader.type(command)
    (home / "convergence.png").unlink()
    monkeypatch.setattr("dpicl_research.plots.save_convergence", lambda report, file: None)
    with pytest.raises(AssertionError, match=r"convergence\.png is empty"):
        type_in(command)


def test_a_table_without_a_method_is_found() -> None:
    words = shlex.split("evaluate run --task trec --methods poe,votes")
    check_printed("poe | 50.0\nvotes | 25.0", words)
    for said in ("poe | 50.0\nvotes-gaussian | 25.0", "poe | 50.0\nvotes |", " "):
        with pytest.raises(AssertionError):
            check_printed(said, words)


def test_a_new_row_is_run_too() -> None:
    row = "| a part | `dpicl-rag one`, then `dpicl-rag two --k 1` | | | |"
    heads = "| part | command | here | published | why they differ |\n|---|---|---|---|---|"
    assert commands_of(rows_of(f"# Page\n\n{heads}\n{row}\n{row}\n")) == [
        "dpicl-rag one",
        "dpicl-rag two --k 1",
    ]


def test_where_examples_are_sampled_prompts_keep_their_number() -> None:
    words = tiny("dpicl-rag evaluate run --experts 4800 --exemplars 4 --rate 0.0041666667")
    assert after(words, "--experts") == ["120"]
    assert after(words, "--rate") == ["0.166666668"]
