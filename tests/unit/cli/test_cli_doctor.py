"""`doctor`: what it looks at, what it calls broken, and that it says nothing private."""

from __future__ import annotations

import copy
import json
import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from dpicl_rag.cli import data_folder, installation, processor
from dpicl_rag.language_models import converted_models
from dpicl_rag.language_models.hardware import on_this_machine
from dpicl_rag.ledger import Ledger
from dpicl_rag.weights import Pinned
from tests.support.fresh_python import run_python

SECTIONS = ["versions", "machine", "models", "rows", "files", "extras"]
FILES = [
    "settings",
    "ledger",
    "memory",
    "keys",
    "unit key",
    "corpora",
    "read ahead",
    "replies",
    "cache",
    "disk",
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder without models and probes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Pinned, "is_here", property(lambda pinned: pinned.is_packaged))


@pytest.fixture
def doctor(cli):
    """Run it; what it says of each thing in JSON, by section, and its status."""

    def run(*words: str) -> tuple[dict, int]:
        done = cli("doctor", "--json", *words)
        assert done.stderr == ""
        told = json.loads(done.stdout)
        named = {title: {one["about"]: one for one in told[title]} for title in SECTIONS}
        assert list(told) == ["broken", *SECTIONS]
        assert told["broken"] == sum(
            one["broken"] for those in named.values() for one in those.values()
        )
        return named, done.exit_code

    return run


def test_the_shape_of_what_it_tells(doctor):
    told, status = doctor()
    assert status == 0
    assert set(told["versions"]) >= {"dpicl-rag", "python", "torch", "transformers"}
    assert list(told["machine"]) == ["processor", "vectors", "weights", "memory", "graphics"]
    assert list(told["models"]) == ["language model", "embedder", "small"]
    assert list(told["files"]) == FILES
    assert set(told["extras"]) >= {"chroma", "server"}
    assert not {"all", "dev"} & set(told["extras"])
    for those in told.values():
        for one in those.values():
            assert list(one) == ["about", "told", "broken", "remedy"]
            assert not one["broken"]
    assert list(told["rows"]) == ["probe"]
    assert told["models"]["language model"]["told"].endswith("whose hash is right")
    assert told["models"]["small"]["told"].endswith("not here; fetched at first use")
    assert told["files"]["ledger"]["told"] == f"{data_folder.default_ledger()}, not there"


def test_the_same_in_words(cli):
    done = cli("doctor")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [*SECTIONS, "broken: nothing"]
    assert f"  dpicl-rag              {metadata.version('dpicl-rag')}" in lines


def test_it_makes_no_file(doctor, home):
    doctor()
    assert not (home / "home").exists()


def test_a_model_that_is_damaged_is_broken(doctor, cli, tmp_path, monkeypatch):
    package = tmp_path / "packages" / "weights_of_test"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model.gguf").write_bytes(b"damaged")
    monkeypatch.syspath_prepend(package.parent)
    pinned = Pinned("Test-Model", "a/b", "0" * 40, {"model.gguf": "0" * 64}, "weights_of_test")
    monkeypatch.setattr(
        converted_models, "DEFAULT", converted_models.QuantisedModel(pinned, "float32")
    )
    told, status = doctor()
    assert status == 1
    assert told["models"]["language model"]["broken"]
    assert "is damaged or another version" in told["models"]["language model"]["told"]
    shown = cli("doctor").stdout.splitlines()
    assert shown[-1] == "broken: language model"
    assert [line[:16] for line in shown if line.startswith("!")] == ["! language model"]


def test_an_extra_that_is_not_installed_names_its_line(doctor, monkeypatch):
    lines = [
        "numpy>=2",
        'no-such-thing<2; extra == "chroma"',
        'numpy<1; extra == "qdrant"',
        'dpicl-rag[chroma]; extra == "agents"',
        'numpy>=2; extra == "server"',
        'no-such-thing<2; python_version < "3" and extra == "server"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    extras = ["all", "dev", "chroma", "qdrant", "agents", "server"]
    monkeypatch.setattr(metadata, "metadata", lambda name: Extras(extras))
    told, status = doctor()
    assert status == 0, "what nobody installed is not broken"
    found = {name: (one["told"], one["remedy"]) for name, one in told["extras"].items()}
    own = metadata.version("numpy")
    assert found == {
        "chroma": ("no-such-thing is missing", "pip install 'dpicl-rag[chroma]'"),
        "qdrant": (f"numpy is {own}, and <1 is needed", "pip install 'dpicl-rag[qdrant]'"),
        "agents": ("no-such-thing is missing", "pip install 'dpicl-rag[agents]'"),
        "server": ("installed", None),
    }


class Extras:
    """The part of a distribution's metadata that is asked for."""

    def __init__(self, names):
        self.names = names

    def get_all(self, field):
        assert field == "Provides-Extra"
        return self.names


def test_what_is_always_needed_is_broken_where_it_is_missing(doctor, monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: ["no-such-thing>=1", "numpy<1"])
    told, status = doctor()
    assert status == 1
    remedy = "pip install --upgrade dpicl-rag"
    for name, words in (("no-such-thing", "is missing"), ("numpy", "and <1 is needed")):
        one = told["versions"][name]
        assert (one["broken"], one["remedy"]) == (True, remedy)
        assert one["told"].endswith(words)


def test_an_adapter_of_another_version_is_broken(doctor, monkeypatch):
    known = installation._version
    other = {"langchain-dpicl-rag": "0.0.1", "dpicl-research": metadata.version("dpicl-rag")}
    monkeypatch.setattr(installation, "_version", lambda name: other.get(name) or known(name))
    told, status = doctor()
    assert status == 1
    assert told["versions"]["langchain-dpicl-rag"]["broken"]
    assert not told["versions"]["dpicl-research"]["broken"]


def test_an_adapter_that_is_not_installed_names_its_line(doctor, monkeypatch):
    lacking = "langchain_dpicl_rag"
    monkeypatch.setattr(installation, "find_spec", lambda name: None if name == lacking else name)
    told, status = doctor()
    assert status == 0
    assert told["extras"]["langchain-dpicl-rag"]["remedy"] == "pip install langchain-dpicl-rag"
    assert "llama-index-dpicl-rag" not in told["extras"]


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
class TestModes:
    """Whether others may read what is private."""

    def test_what_the_commands_make_is_their_owners_alone(self, doctor, mail):
        with Ledger(data_folder.default_ledger()) as ledger:
            ledger.set_budget(corpus=mail, epsilon=8)
        told, status = doctor()
        assert status == 0
        for about in ("ledger", "corpora"):
            assert told["files"][about]["told"].endswith(", its owner's alone")

    @pytest.mark.parametrize("about", ["ledger", "unit key"])
    def test_a_file_that_others_may_read_is_broken(self, doctor, about):
        file = data_folder.default_ledger()
        Ledger(file).close()
        if about == "unit key":
            file = file.with_name(file.name + ".key")
            file.touch(0o600)
        file.chmod(0o640)
        told, status = doctor()
        one = told["files"][about]
        assert (status, one["broken"]) == (1, True)
        assert one["told"] == f"{file} can be read by others"
        assert one["remedy"] == f"chmod -R go-rwx '{file}'"
        file.chmod(0o600)
        assert doctor()[1] == 0

    def test_a_corpus_that_others_may_read_is_broken(self, doctor, mail, home):
        folder = home / "home" / "dpicl-rag" / "corpora"
        file = folder / f"{mail}.corpus"
        file.chmod(0o644)
        assert doctor()[1] == 0, "nobody else gets into the folder"
        folder.chmod(0o755)
        told, status = doctor()
        assert status == 1
        assert told["files"]["corpora"]["remedy"] == f"chmod -R go-rwx '{folder}'"
        file.chmod(0o600)
        assert doctor()[1] == 0


def test_a_ledger_that_does_not_open_is_broken(doctor):
    file = data_folder.default_ledger()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no database" * 100)
    file.chmod(0o600)
    told, status = doctor()
    assert status == 1
    assert "not a ledger" in told["files"]["ledger"]["told"]


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["words", "json"])
def test_nothing_of_a_corpus_or_its_spend_is_told(cli, home, secret, monkeypatch, words):
    """The same output, to the letter, whatever the corpora hold and have spent."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(3, 2, 1))

    def said(name: str, text: str, documents: int, epsilon: float) -> str:
        lines = [{"text": f"{text} {n}", "owner": f"{text} {n}"} for n in range(documents)]
        source = home / f"{name}.jsonl"
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert cli("ingest", str(source), "--corpus", name, "--unit", "owner").exit_code == 0
        with Ledger(data_folder.default_ledger()) as ledger:
            ledger.set_budget(corpus=name, epsilon=epsilon)
            with ledger.reserve(corpus=name, rho=0.01, units=[lines[0]["owner"]]) as held:
                held.commit(epsilon / 1000, [epsilon / 2000])
        done = cli("doctor", *words)
        assert done.stderr == ""
        return done.stdout

    before = said("one", "a", 1, 8.0)
    after = said("canary-mail", secret, 9, 3.25)
    assert before == after
    for private in (secret, "canary-mail", "3.25"):
        assert private not in after


def test_rows_and_rehearsal_of_a_model_that_is_probed(doctor, tiny_model, monkeypatch, tmp_path):
    kept = "dpicl_rag.rehearsal.kept_rehearsals.user_cache_path"
    monkeypatch.setattr(kept, lambda *_, **__: tmp_path)  # other tests rehearse it, too
    monkeypatch.setattr("dpicl_rag.language_models.defaults._toys", set())
    told, status = doctor("--probe")
    assert status == 0
    assert told["rows"]["default"]["told"] == "rows keep every bit in company: they share passes"
    assert told["rows"]["rehearsal"]["told"] == "not held yet"
    monkeypatch.setattr(type(tiny_model), "shares_passes", lambda self: False)
    monkeypatch.setattr("dpicl_rag.rehearsal.kept_rehearsals.is_toy", lambda model: True)
    told, status = doctor("--probe")
    assert status == 0
    assert told["rows"]["default"]["told"].startswith("rows are read one at a time here")
    assert told["rows"]["rehearsal"]["told"].startswith("a toy: answers ")


def test_what_a_probe_found_is_told_later_without_a_model(doctor, tiny_model, monkeypatch):
    model = copy.copy(tiny_model)
    monkeypatch.setattr(model._model, "name_or_path", "/somewhere/tiny-model")
    model._probe_results = on_this_machine()
    assert model.shares_passes()
    told, status = doctor()
    assert status == 0
    assert list(told["rows"]) == ["tiny-model", "probe"]
    one = told["rows"]["tiny-model"]
    assert one["told"].startswith("rows keep every bit in company (torch.float32, cpu, ")
    assert f"torch {metadata.version('torch')}" in one["told"]
    # Sizes of products are kept there too, as many as documents had lengths for.
    for number in range(3):
        on_this_machine().sizes(f"tile {number}", lambda: (64, 32), (64, 32))
    assert doctor() == (told, status)


def test_a_model_that_cannot_be_loaded_is_broken(doctor, tmp_path):
    told, status = doctor("--probe", "--model", str(tmp_path / "nothing"))
    assert status == 1
    assert told["rows"][str(tmp_path / "nothing")]["broken"]


def test_it_loads_no_model_and_not_torch(home):
    code = """
import sys
from dpicl_rag.cli import main
sys.argv = ["dpicl-rag", "doctor"]
try:
    main()
except SystemExit as end:
    assert end.code == 0, end.code
assert not {"torch", "transformers", "scipy"} & set(sys.modules)
"""
    assert "broken: nothing" in run_python(code).stdout


class TestProcessor:
    """What is read of a processor's list."""

    def findings(self, tmp_path: Path, monkeypatch, text: str) -> dict[str, str]:
        (tmp_path / "cpuinfo").write_text(text)
        card = tmp_path / "gpus" / "0000:01"
        card.mkdir(parents=True)
        (card / "information").write_text("Model: \t\t Some Card\nIRQ:   1\n")
        monkeypatch.setattr(processor, "_CPU", tmp_path / "cpuinfo")
        monkeypatch.setattr(processor, "_CARDS", tmp_path / "gpus")
        return {one.about: one.told for one in processor.machine_findings()}

    def test_sixteen_bits_where_the_processor_multiplies_them(self, tmp_path, monkeypatch):
        text = (
            "processor : 0\nmodel name : Some CPU\nflags : fpu avx2 amx_tile avx512f\n\nflags : x"
        )
        told = self.findings(tmp_path, monkeypatch, text)
        assert told["processor"].startswith("Some CPU, ")
        assert told["vectors"] == "avx2, avx512f, amx_tile"
        assert told["weights"] == "16 bits on the processor"
        assert told["graphics"] == "Some Card"

    def test_an_arm_processor_has_features(self, tmp_path, monkeypatch):
        told = self.findings(tmp_path, monkeypatch, "processor : 0\nFeatures : fp asimd bf16\n")
        assert told["vectors"] == "asimd, bf16"
        assert told["weights"] == "32 bits on the processor"
