"""The benchmark for a GPU runs on a CPU with a tiny shape, and needs few packages."""

import ast
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import gpu, random_weights, row_rates
from dpicl_rag.language_models import probe

ROOT = Path(gpu.__file__).parents[1]
FEW = ("--shape", "tiny", "--experts", "3", "--unit-tokens", "16", "--tokens", "4")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="module")
def model():
    return random_weights.random_model("tiny", torch.device("cpu"))


@pytest.mark.heavy
def test_a_tiny_shape_has_every_figure(capsys):
    assert gpu.main([*FEW, "--json"]) == 0
    *table, last = capsys.readouterr().out.splitlines()
    found = json.loads(last)
    assert found["sizes"] == {"experts": 3, "unit_tokens": 16, "tokens": 4}
    figures = found["shapes"]["tiny"]
    assert not figures["failed"]
    assert not figures["skipped"]
    assert figures["reading"]["seconds"] > 0
    assert figures["weights"]["parameters"] == 94_784
    assert figures["probe"]["verdict"] in "\n".join(table)
    rows = [line.split("|")[1:-1] for line in table if line.startswith("| ")][1:]
    assert [row[0].strip() for row in rows] == list(gpu.CONTENDERS) == list(row_rates.CONTENDERS)
    for name, _, speed, ratio, peak in rows:
        rate = figures[name.strip()]
        assert rate["tokens"] == 4
        assert float(speed) == round(rate["tokens_per_s"], 1) > 0
        engine = figures["engine"]["tokens_per_s"]
        assert float(ratio) == round(engine / rate["tokens_per_s"], 2)
        assert float(peak) > 0


def test_the_contenders_say_the_same():
    """In float32, where the likeliest token does not depend on who computes it."""
    plain = random_weights.random_model("tiny", torch.device("cpu"))
    for name, weight in plain._model.float().named_parameters():
        # Tied weights say their last token again; larger ones in between say others.
        weight.data.mul_(1 if "embed" in name or weight.dim() == 1 else 10)
    given = row_rates.Prompts.made_up(320, 3, 16)
    for contender in row_rates.CONTENDERS.values():
        times = []
        said = contender(plain, given, 6, lambda times=times: times.append(1))
        assert said == row_rates.bare(plain, given, 6, lambda: None)
        assert len(said) == len(times) == 6
    assert len(set(said)) > 2


def test_shapes_are_those_of_the_named_models():
    """Numbers of parameters as the models' cards have them."""
    for shape, parameters in (("small", 1_543_714_304), ("large", 7_615_616_512)):
        inner = random_weights.random_model(shape, torch.device("meta"))._model
        assert sum(weight.numel() for weight in inner.parameters()) == parameters
        kinds = {(weight.device.type, weight.dtype) for weight in inner.parameters()}
        assert kinds == {("meta", torch.bfloat16)}


def test_what_is_left_when_time_is_up_is_skipped_and_said_so(capsys):
    assert gpu.main([*FEW, "--seconds", "0"]) == 0
    said = capsys.readouterr().out
    assert "Skipped, time was up: weights, probe, reading, engine, bare, generate." in said


def test_a_rate_of_the_tokens_that_came_in_time(model, monkeypatch):
    given = row_rates.Prompts.made_up(320, 1, 8)
    now = iter(range(100))
    monkeypatch.setattr(row_rates, "time", SimpleNamespace(monotonic=lambda: next(now)))
    # Three readings of a warm-up; then the beginning and three tokens, the last one too late.
    found = row_rates.rate(row_rates.bare, model, given, 50, deadline=5)
    assert found["tokens"] == 3
    assert found["tokens_per_s"] == 1
    with pytest.raises(row_rates.OutOfTimeError):
        row_rates.rate(row_rates.bare, model, given, 50, deadline=9)


def test_a_failure_is_named_and_leaves_the_other_figures(capsys, monkeypatch):
    def broken(*_):
        raise RuntimeError("no such kernel\nat some line")

    monkeypatch.setitem(row_rates.CONTENDERS, "bare", broken)
    assert gpu.main([*FEW, "--json"]) == 1
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["shapes"]["tiny"]
    assert figures["failed"] == {"bare": "RuntimeError: no such kernel"}
    assert {"engine", "generate"} <= figures.keys()


@pytest.mark.parametrize(
    ("own", "right", "verdict"),
    [(True, True, "identical"), (False, True, "one at a time"), (False, False, "wrong")],
)
def test_the_verdict_is_that_of_the_probe(monkeypatch, own, right, verdict):
    monkeypatch.setattr(probe, "rows_are_their_own", lambda *_: own)
    monkeypatch.setattr(probe, "rows_are_right", lambda *_: right)
    found = row_rates.probed(random_weights.random_model("tiny", torch.device("cpu")))
    assert verdict in found["verdict"]
    assert not found["errors"]


def test_an_error_of_the_probe_is_told(monkeypatch):
    def broken(*_):
        raise ValueError("no such tile")

    monkeypatch.setattr(probe, "rows_are_their_own", broken)
    found = row_rates.probed(random_weights.random_model("tiny", torch.device("cpu")))
    assert found["errors"] == ["ValueError: no such tile"]


def test_what_is_missing_is_named_in_one_line(capsys, monkeypatch):
    monkeypatch.setattr(gpu, "find_spec", lambda name: None if name in ("xxhash", "torch") else 1)
    assert gpu.main([*FEW]) == 1
    assert capsys.readouterr().err == "error: not installed here: torch xxhash\n"


def test_the_large_shapes_need_a_gpu(capsys):
    assert gpu.main([]) == 1
    assert capsys.readouterr().err.startswith("error: torch sees no GPU here;")


def test_the_packages_that_it_needs_are_listed():
    """Followed from file to file, so that a new import far away is noticed here."""
    names, seen, outside = ["benchmarks.gpu"], set(), set()
    names += ["benchmarks.row_rates", "benchmarks.random_weights"]
    while names:
        name = names.pop()
        root, *rest = name.split(".")
        if root not in ("benchmarks", "dpicl_rag"):
            outside.add(root)
        elif name not in seen:
            seen.add(name)
            file = ROOT.joinpath(root, *rest)
            file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            names += [".".join([root, *rest[:depth]]) for depth in range(len(rest))]
            if file.exists():  # else it is a name in a file
                names += imported(ast.parse(file.read_text()).body)
    assert outside - sys.stdlib_module_names - {"benchmarks"} == set(gpu.NEEDED)
    assert len(seen) < 120


def imported(statements):
    """Names that are imported when a file is loaded, not by what is called later."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield statement.module
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
