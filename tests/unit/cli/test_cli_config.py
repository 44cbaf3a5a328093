"""The settings file and the environment: what they give to options, and where they are told."""

import json

import pytest
from click import Context
from typer.main import get_command

from dpicl_rag.cli import app, settings_file
from dpicl_rag.cli.options import DELTA
from dpicl_rag.cli.settings_file import SettingsFile, defaults_of, own_path, variables

EVERY = {
    "store": "s",
    "ledger": "l",
    "keys": "k",
    "embedder": "e",
    "model": "m",
    "reader": "r",
    "max_calls": 3,
    "corpus": "c",
    "epsilon": 2.0,
    "delta": 1e-6,
    "sync": "1h",
}


@pytest.fixture
def written(home):
    """The user's own settings file."""

    def write(text):
        own_path().parent.mkdir(parents=True, exist_ok=True)
        own_path().write_text(text)
        return own_path()

    return write


def test_each_setting_is_the_default_of_its_options():
    found = defaults_of(SettingsFile(**EVERY), get_command(app))
    asked = {"path": "s", "ledger": "l", "embedder": "e", "model": "m", "reader": "r"}
    asked |= {"max_calls": 3, "corpus": "c", "epsilon": 2.0, "delta": 1e-6}
    for command in ("ask", "classify", "count", "tally"):
        assert found[command] == asked
    # Else a survey would call a reader, and count what it costs, without being asked to.
    assert "reader" not in found["survey"]
    assert found["serve"]["keys"] == found["keys"]["list"]["keys"] == "k"
    assert found["corpora"]["forget"] == {"path": "s", "embedder": "e", "ledger": "l"}
    # A budget's epsilon is not an answer's, and a budget of no corpus is not that of one.
    assert found["budget"]["set"] == {"ledger": "l"}
    reached = {name for one in found.values() if isinstance(one, dict) for name in one}
    assert {"path", "keys", "max_calls"} <= reached


def test_evaluate_has_no_default_of_the_file():
    group = get_command(app)
    context = Context(group, default_map=defaults_of(SettingsFile(**EVERY), group))

    def options(*words):
        above, command = context, group
        for word in words:
            command = command.commands[word]
            above = command.make_context(word, [], parent=above, resilient_parsing=True)
        return above.params

    assert options("ask")["delta"] == options("tally")["delta"] == 1e-6
    for command in ("run", "synthetic", "membership-images"):
        assert options("evaluate", command)["delta"] == DELTA
    assert options("evaluate", "run")["model"] is None


def test_every_setting_is_a_field_of_the_file_and_has_a_variable():
    assert set(variables()) == set(EVERY) == set(SettingsFile.model_fields) - {"corpora"}
    assert len(set(variables().values())) == len(EVERY)


def test_the_command_line_comes_first_then_the_environment_then_the_file(cli, mail, written):
    written(f'corpus = "{mail}"\nepsilon = 3.0\n')

    def epsilon(*words, **env):
        return json.loads(cli("ask", "q?", "--plan", "--json", *words, env=env).stdout)["epsilon"]

    assert epsilon() == 3.0
    assert epsilon(DPICL_RAG_EPSILON="2") == 2.0
    assert epsilon("--epsilon", "1", DPICL_RAG_EPSILON="2") == 1.0


def test_a_ledger_of_the_file_gives_way_to_none(cli, mail, written, home):
    written(f'corpus = "{mail}"\nledger = "{home / "own.sqlite"}"\n')
    assert cli("count", "Is it?", "--no-ledger").exit_code == 0
    assert not (home / "own.sqlite").exists()
    assert cli("count", "Is it?").exit_code == 0
    assert (home / "own.sqlite").exists()


def test_config_show_says_where_each_value_comes_from(cli, written):
    path = written("epsilon = 3.0\n[corpora.mail]\nepsilon = 1.0\n")
    env = {"DPICL_RAG_MODEL": "small"}
    found = json.loads(cli("config", "show", "--json", env=env).stdout)
    rows = {row["name"]: (row["value"], row["from"]) for row in found["settings"]}
    assert rows["epsilon"] == (3.0, str(path))
    assert rows["model"] == ("small", "environment, DPICL_RAG_MODEL")
    assert rows["delta"] == (None, "default (DPICL_RAG_DELTA)")
    assert (found["file"], found["corpora"]) == (str(path), ["mail"])
    told = cli("config", "show", env=env).stdout
    assert "DPICL_RAG_MODEL" in told
    assert "served: mail" in told


def test_another_file_may_be_named(cli, written, tmp_path):
    written("epsilon = 3.0\n")
    other = tmp_path / "other.toml"
    other.write_text("epsilon = 5.0\n")
    for words, env in ((("--config", str(other)), {}), ((), {"DPICL_RAG_CONFIG": str(other)})):
        told = cli(*words, "config", "show", "--json", env=env).stdout
        rows = {row["name"]: row["value"] for row in json.loads(told)["settings"]}
        assert rows["epsilon"] == 5.0


def test_the_folder_that_one_works_in_is_not_looked_at(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dpicl-rag.toml").write_text('reader = "chat+http://elsewhere/v1#m"\n')
    assert "elsewhere" not in cli("config", "show").stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('modle = "x"', "modle: no such setting; did you mean model?"),
        ("epsilon = 0", "epsilon: "),
        ('epsilon = "high"', "epsilon: "),
        ("max_calls = 1.5", "max_calls: "),
        ("corpora = 3", "corpora: "),
        ("= 3", "is no TOML file"),
    ],
)
def test_a_wrong_file_is_one_line(cli, written, text, message):
    path = written(text)
    result = cli("config", "show")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {path}")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_named_and_not_there_is_one_line(cli, tmp_path):
    result = cli("--config", str(tmp_path / "no.toml"), "config", "show")
    assert result.exit_code == 1
    assert "cannot be read; check --config and DPICL_RAG_CONFIG" in result.stderr


def test_serve_offers_the_corpora_of_the_file(written):
    from dpicl_rag.cli.serve import Serving, chosen_settings

    written("[corpora.mail]\nepsilon = 1.0\ntop_k = 4\n")
    found = chosen_settings(Serving(), {}, settings_file.ChosenSettings.at(None))
    assert list(found) == ["mail"]
    assert (found["mail"].privacy, found["mail"].top_k) == ({"epsilon": 1.0}, 4)
    named = chosen_settings(Serving(["other"]), {}, settings_file.ChosenSettings.at(None))
    assert list(named) == ["other"]
