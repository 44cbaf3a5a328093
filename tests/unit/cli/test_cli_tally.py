"""`count` and `tally`: numbers with intervals, what they spent, and what goes wrong."""

import json

import pytest

from dpicl_rag.accounting import epsilon_to_rho

LABELS = ("--label", "travel", "--label", "work")
ONE = {"epsilon": 1.0, "delta": 1e-5, "rho": pytest.approx(epsilon_to_rho(1.0, 1e-5))}


def test_a_count_is_one_sentence_and_what_it_spent(cli, mail):
    result = cli("count", "Is it about a code?", "--corpus", mail)
    assert result.exit_code == 0
    said, spent, unlimited = result.stdout.splitlines()
    assert said.startswith("About ")
    assert said.endswith("95 in 100 that say no.")
    assert spent.startswith("spent: epsilon 8, delta 1e-05, rho 1.2")
    assert unlimited.startswith("no budget is set")


def test_json_is_one_object(cli, mail):
    result = cli("count", "a code?", "--corpus", mail, "--epsilon", "1", "--json")
    found = json.loads(result.stdout)
    assert set(found.pop("yes")) == {"units", "low", "high"}
    assert found.pop("text").endswith("95 in 100 that say no.")
    assert found.pop("read_right") == {"yes": 0.9, "no": 0.95}
    assert 0 <= found.pop("asked") <= 400  # two, with the noise of a fiftieth of epsilon 1
    assert found == {"complete": True, "from_memory": False, **ONE}
    assert result.stderr == ""


def test_a_tally_has_a_bar_for_each_label(cli, mail):
    result = cli("tally", "what about?", "--corpus", mail, *LABELS)
    assert result.exit_code == 0
    said = [line.split()[0] for line in result.stdout.splitlines()]
    assert sorted(said) == ["Ranges", "no", "spent:", "travel", "work"]  # no budget is set
    assert "\u2588" in result.stdout


def test_a_tally_in_json(cli, mail):
    result = cli("tally", "what about?", "--corpus", mail, *LABELS, "--epsilon", "1", "--json")
    found = json.loads(result.stdout)
    assert list(found["counts"]) == list(found["shares"]) == ["travel", "work"]
    assert set(found["total"]) == {"units", "low", "high"}
    assert {name: found[name] for name in ONE} == ONE


def test_a_tally_by_vectors_loads_no_language_model(cli, mail, monkeypatch):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)
    given = ("tally", "about", "--corpus", mail, *LABELS, "--by", "vectors")
    assert list(json.loads(cli(*given, "--json").stdout)["counts"]) == ["travel", "work"]
    assert json.loads(cli(*given, "--sample", "0.5", "--json").stdout)["rho"] > 0
    assert "leave --threshold out" in cli(*given, "--threshold", "0.5").stderr


@pytest.mark.parametrize(
    "command",
    [
        ("count", "a code?"),
        ("tally", "what?", *LABELS),
        ("tally", "what?", *LABELS, "--by", "vectors"),
        ("survey",),
        ("survey", "--question", "a code?"),
    ],
)
def test_the_same_again_costs_nothing(cli, mail, spending, command):
    first = json.loads(cli(*command, "--corpus", mail, "--json").stdout)
    spent = spending(mail).spent
    again = json.loads(cli(*command, "--corpus", mail, "--json").stdout)
    free = {"from_memory": True, "epsilon": 0.0, "delta": 0.0, "rho": 0.0}
    assert again == {**first, **free}
    said = cli(*command, "--corpus", mail).stdout
    assert said.endswith("from memory: counted before, so it costs nothing; --fresh counts again\n")
    assert spending(mail).spent == spent > 0
    for paid in ("--fresh", "--no-memory"):
        assert not json.loads(cli(*command, "--corpus", mail, "--json", paid).stdout)["from_memory"]
    assert spending(mail).spent == pytest.approx(3 * spent)


def test_what_was_counted_is_shown_and_not_edited(cli, mail):
    cli("count", "a code?", "--corpus", mail)
    (entry,) = json.loads(cli("memory", "show", "--json").stdout)["entries"]
    assert entry["answer"].endswith("95 in 100 that say no.")
    refused = cli("memory", "edit", str(entry["id"]), "none")
    assert "is a count, whose numbers stay" in refused.stderr
    assert cli("memory", "forget", str(entry["id"])).exit_code == 0
    found = json.loads(cli("count", "a code?", "--corpus", mail, "--json").stdout)
    assert not found["from_memory"]


def test_a_plan_pays_nothing_and_loads_nothing(cli, mail, monkeypatch):
    monkeypatch.setattr("dpicl_rag.cli.tally.asked_model", None)
    result = cli("tally", "what about?", "--corpus", mail, *LABELS, "--plan")
    assert result.stdout.startswith("noise moves each count by 1 at most, 95 times in 100; it")
    assert result.stdout.endswith("; its labels have 1,024 tokens at most\n")
    result = cli(
        "count", "a?", "--corpus", mail, "--epsilon", "1", "--sample", "0.1", "--plan", "--json"
    )
    assert json.loads(result.stdout) == {"within": 8, "sample": 0.1, "rho": ONE["rho"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--label", "work"), "at least two labels"),
        ((*LABELS, "--label", "work"), "stands there twice"),
        ((*LABELS, "--most", "3"), "more labels a unit than labels"),
        ((*LABELS, "--sample", "0"), "sample: Input should be"),
        ((*LABELS, "--plan", "--sample", "2"), "sample: Input should be"),
    ],
)
def test_what_cannot_be_tallied_is_one_line(cli, mail, options, message):
    result = cli("tally", "what about?", "--corpus", mail, *options)
    assert result.exit_code != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_units_far_from_the_question_are_left_out_if_asked(cli, mail):
    given = ("tally", "what about?", "--corpus", mail, *LABELS, "--json")
    near = json.loads(cli(*given, "--threshold", "1").stdout)
    assert near["total"]["low"] == 0


def test_a_survey_has_a_bar_for_each_theme_and_says_how_small_it_sees(cli, mail):
    result = cli("survey", "--corpus", mail)
    assert result.exit_code == 0
    bars, note, spent, _ = result.stdout.splitlines()[-4:]
    assert bars.startswith("others")
    assert note.startswith("Themes of fewer than about ")
    assert spent.startswith("spent: epsilon 8, delta 1e-05, rho 1.2")


def test_a_survey_says_that_units_may_be_left_out(cli, mail):
    cli("budget", "set", "--corpus", mail, "--epsilon", "8")
    survey = ("survey", "--corpus", mail, "--epsilon", "4", "--fresh")
    said = [cli(*survey).stdout, cli(*survey).stdout]
    for question in ("a code?", "an entry?", "a door?"):
        cli("ask", question, "--corpus", mail, "--epsilon", "4")
    said.append(cli(*survey).stdout)
    left_out = "Units that have spent their budget are not counted."
    assert [one.count(left_out) for one in said] == [0, 0, 1]


def test_a_survey_in_json_loads_no_language_model(cli, mail, monkeypatch):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)
    result = cli(
        "survey", "--corpus", mail, "--question", "a code?", "--epsilon", "1", "--json", "-q"
    )
    found = json.loads(result.stdout)
    assert found.pop("themes") == []
    told = {"text", "others", "total", "smallest", "complete", "from_memory"}
    assert set(found) == {*told, "epsilon", "delta", "rho"}


def test_a_survey_by_ones_own_words(cli, mail, home):
    (home / "words.txt").write_text("code\nentry\nweather\n")
    given = ("--vocabulary", str(home / "words.txt"), "--votes", "1")
    assert cli("survey", "--corpus", mail, *given).exit_code == 0
    result = cli("survey", "--corpus", mail, *given, "--plan")
    assert result.stdout.startswith("themes of fewer than about 3 units will not be seen; a survey")
    result = cli("survey", "--corpus", mail, *given, "--sample", "0.1", "--plan")
    assert result.stdout.startswith("themes of fewer than about 30 units will not be seen")


def test_a_plan_has_the_terms_of_its_ledger(cli, mail):
    cli("budget", "set", "--corpus", mail, "--epsilon", "100", "--gaussian")
    command = ("survey", "--corpus", mail, "--json", "-q")
    planned = json.loads(cli(*command, "--plan").stdout)
    found = json.loads(cli(*command).stdout)
    assert {name: found[name] for name in planned} == planned


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--vocabulary", "none.txt"), "a word on each line"),
        (("--votes", "1000"), "fewer words"),
        (("--threshold", "0.5"), "give one"),
    ],
)
def test_what_cannot_be_surveyed_is_one_line(cli, mail, options, message):
    result = cli("survey", "--corpus", mail, *options)
    assert result.exit_code != 0
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "command",
    [("count", "a code?"), ("tally", "what?", *LABELS), ("classify", "what?", *LABELS)],
)
def test_a_bad_threshold_is_refused_before_a_model_is_loaded(cli, mail, monkeypatch, command):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)
    result = cli(*command, "--corpus", mail, "--threshold", "2")
    assert result.exit_code != 0
    assert "threshold must lie between -1 and 1" in result.stderr
