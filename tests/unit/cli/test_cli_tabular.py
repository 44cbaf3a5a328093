"""`tabular`: from a private table, or one's own row, to what may be shown."""

from __future__ import annotations

import json
import sys

import pytest

from dpicl_rag.tabular import Schema

SCHEMA = """
text = "{age} years, {job}."
question = "Rich?"
[label]
name = "rich"
values = ["No", "Yes"]
aliases = { 0 = "No", 1 = "Yes" }
[[column]]
kind = "number"
name = "age"
low = 0
high = 100
cuts = [30, 60]
[[column]]
kind = "category"
name = "job"
values = ["clerk", "smith"]
"""


@pytest.fixture
def schema(home):
    path = home / "schema.toml"
    path.write_text(SCHEMA)
    return str(path)


@pytest.fixture
def people(home, secret):
    path = home / "people.csv"
    rows = [f"{20 + n},{('clerk', secret)[n % 2]},{n % 2},owner{n % 9}" for n in range(40)]
    path.write_text("\n".join(["age,job,rich,owner", *rows]) + "\n")
    return str(path)


@pytest.mark.parametrize("kind", ["tables", "aggregates"])
def test_a_release_is_paid_once_and_read_again(cli, home, people, schema, spending, secret, kind):
    assert cli("budget", "set", "--corpus", "people", "--epsilon", "4").exit_code == 0
    words = ("tabular", kind, people, "--schema", schema, "--epsilon", "1", "--corpus", "people")
    out = ("--out", str(home / "release"), "--unit", "owner")
    planned = json.loads(cli(*words, "--plan", "--json").stdout)
    first = cli(*words, *out)
    assert first.exit_code == 0, first.output
    assert "Rich? Answer:" in first.output
    assert "(not recorded)" not in first.output
    spent = spending("people").spent
    assert spent == pytest.approx(planned["rho"], abs=2e-9)
    (home / "people.csv").unlink()  # nothing is read again
    again = cli(*words, *out, "--json")
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    assert spending("people").spent == spent
    assert {one["answer"] for one in found["demonstrations"]} <= {"No", "Yes"}
    kept = (home / "release" / "release.json").read_text()
    assert secret not in first.output + again.output + kept
    other = cli(*words[:-3], "2", *out)
    assert other.exit_code == 1
    assert "other settings (corpus, epsilon)" in other.stderr


def test_a_budget_that_is_used_up_releases_nothing(cli, home, people, schema):
    assert cli("budget", "set", "--corpus", "people", "--epsilon", "1").exit_code == 0
    words = ("tabular", "tables", people, "--schema", schema, "--epsilon", "5")
    out = str(home / "runs" / "release")
    refused = cli(*words, "--corpus", "people", "--out", out)
    assert refused.exit_code == 1
    assert "cannot pay" in refused.stderr
    assert not (home / "runs").exists()
    (home / "runs").mkdir()
    assert cli(*words, "--corpus", "people", "--out", out).exit_code == 1
    assert list((home / "runs").iterdir()) == []  # what was there before stays


def test_rows_are_drawn_into_a_file(cli, home, people, schema):
    words = ("tabular", "tables", people, "--schema", schema, "--epsilon", "5", "--delta", "1e-5")
    out = ("--out", str(home / "release"))
    assert cli(*words, *out, "--rows", "30", "--demonstrations", "0").exit_code == 0
    rows = home / "release" / "rows.jsonl"
    assert len(rows.read_text().splitlines()) == 30
    shown = cli(
        "tabular", "serialise", str(rows), "--schema", schema, "--row", '{"age": 7, "job": "?"}'
    )
    assert shown.exit_code == 0, shown.output
    assert len(shown.stdout.splitlines()) == 31
    assert shown.stdout.splitlines()[-1] == "7 years, other. Rich? Answer:"
    whole = cli("tabular", "serialise", str(rows), "--schema", schema, "--json")
    assert json.loads(whole.stdout)["prompt"].count("\n") == 29


def test_a_sample_shows_both_epsilons(cli, home, people, schema):
    words = ("tabular", "aggregates", people, "--schema", schema, "--epsilon", "1")
    plan = json.loads(cli(*words, "--rate", "0.1", "--plan", "--json").stdout)
    assert plan["epsilon"] == 1.0
    assert plan["epsilon_of_sample"] == pytest.approx(2.8996, abs=1e-3)
    grouped = cli(*words, "--group-by", "rich,job,age", "--out", str(home / "release"), "--json")
    assert len(json.loads(grouped.stdout)["rows"]) == 8


@pytest.mark.parametrize("method", ["one-attribute", "bits", "one-hot"])
def test_a_report_is_all_that_leaves(cli, home, schema, secret, method):
    row = {"age": 44, "job": secret, "rich": "1", "name": secret}
    base = ("--schema", schema, "--epsilon", "2", "--method", method)
    (home / "row.json").write_text(json.dumps(row))
    ways = [
        cli("tabular", "local", *base, "--row", json.dumps(row)),
        cli("tabular", "local", *base, "--row", "-", input=json.dumps(row)),
        cli("tabular", "local", *base, "--row", str(home / "row.json")),
    ]
    sent = []
    for way in ways:
        assert way.exit_code == 0, way.output
        assert secret not in way.output
        sent.append(json.loads(way.stdout))
        assert sent[-1]["schema"] == Schema.read(schema).digest
    (home / "reports.jsonl").write_text("".join(json.dumps(one) + "\n" for one in sent * 20))
    made = cli("tabular", "collect", str(home / "reports.jsonl"), *base, "--json")
    assert made.exit_code == 0, made.output
    assert len(json.loads(made.stdout)["demonstrations"]) == 4
    other = cli("tabular", "collect", str(home / "reports.jsonl"), *base[:2], "--epsilon", "3")
    assert other.exit_code == 1
    assert "report 1 is of another" in other.stderr


def test_a_report_that_is_kept_is_made_once(cli, home, schema):
    words = ("tabular", "local", "--schema", schema, "--epsilon", "0.1", "--out", str(home / "own"))
    rows = [json.dumps({"age": age, "job": "clerk", "rich": "1"}) for age in (20, 80) * 5]
    sent = {cli(*words, "--row", row).stdout for row in rows}
    assert len(sent) == 1
    other = cli(*words[:5], "1", *words[6:], "--row", rows[0])
    assert "other settings (epsilon)" in other.stderr


def test_a_packaged_schema_is_a_pattern(cli, home):
    shown = cli("tabular", "schema", "car")
    (home / "own.toml").write_text(shown.stdout)
    assert Schema.read(home / "own.toml") == Schema.read("car")
    assert "packaged schemas are adult" in cli("tabular", "schema", "cars").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tables", "PEOPLE", "--epsilon", "0", "--out", "OUT"), "epsilon must be"),
        (("tables", "PEOPLE", "--epsilon", "1"), "--out"),
        (("tables", "ABSENT", "--epsilon", "1", "--out", "OUT"), "does not exist"),
        (
            ("aggregates", "PEOPLE", "--epsilon", "1", "--group-by", "wage", "--out", "OUT"),
            "'wage'",
        ),
        (("aggregates", "PEOPLE", "--epsilon", "1", "--rate", "2", "--out", "OUT"), "at most 1"),
        (("local", "--epsilon", "1", "--row", "zanzibar"), "a JSON object"),
        (("local", "--epsilon", "1", "--row", "[1]"), "a JSON object"),
        (("local", "--epsilon", "1", "--row", "absent.json"), "a JSON object"),
        (("serialise",), "give rows with labels"),
        (("collect", "ABSENT", "--epsilon", "1"), "no such file of reports"),
        (("serialise", "ABSENT"), "no such file of rows"),
    ],
)
def test_what_is_refused_is_one_line(cli, home, people, schema, words, said):
    named = {"PEOPLE": people, "ABSENT": str(home / "absent.jsonl"), "OUT": str(home / "release")}
    result = cli("tabular", *(named.get(word, word) for word in words), "--schema", schema)
    assert result.exit_code == 1, result.output
    assert said in result.stderr
    assert "zanzibar" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_table_that_does_not_fit_the_schema(cli, home, people):
    words = ("tabular", "tables", people, "--schema", "adult", "--epsilon", "1")
    result = cli(*words, "--out", str(home / "release"))
    assert "no column 'workclass'" in result.stderr


HEADER = "age,job,rich,owner\n"
ROW = '{"age": 44, "job": "clerk", "rich": "1", "owner": "ann"}\n'


@pytest.mark.parametrize(
    ("name", "without", "beside"),
    [
        ("people.csv", HEADER, HEADER + "44,clerk,1,ann\n"),
        ("people.jsonl", "", ROW),
        ("people.jsonl", '{"age": 9, "owner": "bob"}\n', '{"age": 9, "owner": "bob"}\n' + ROW),
        ("people.jsonl", "no JSON\n", "no JSON\n" + ROW),
        ("people.csv", HEADER + '1,"clerk\n', HEADER + '1,"clerk\n44,clerk,1,ann\n'),
    ],
    ids=["no rows", "no lines", "a column of one row", "no JSON", "an unclosed quote"],
)
@pytest.mark.parametrize("kind", ["tables", "aggregates"])
def test_no_row_decides_whether_there_is_a_release(
    cli, home, schema, spending, kind, name, without, beside
):
    """Of no rows, too: noise, which is paid for like any other."""
    assert cli("budget", "set", "--corpus", "people", "--epsilon", "9").exit_code == 0
    told = []
    for at, content in enumerate((without, beside)):
        (home / name).write_text(content)
        words = ("tabular", kind, str(home / name), "--schema", schema, "--unit", "owner")
        out = ("--epsilon", "1", "--corpus", "people", "--out", str(home / f"release {at}"))
        result = cli(*words, *out)
        assert result.exit_code == 0, result.output
        assert len(result.stdout.splitlines()) > 1
        told.append(
            (result.stderr, result.stdout.splitlines()[-1], len(result.stdout.splitlines()))
        )
    assert told[0] == told[1]
    assert spending("people").spent > 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("people.txt", "no table by its name"),
        ("people.csv", "no column 'owner'"),
        ("nowhere.csv", "does not exist"),
        ("broken.csv.gz", "cannot be read"),
    ],
)
def test_what_is_no_table_is_refused_before_a_row_is_read(cli, home, people, schema, name, said):
    (home / "people.txt").write_text(HEADER)
    (home / "people.csv").write_text("age,job,rich\n")
    (home / "broken.csv.gz").write_bytes(b"\x1f\x8b and no archive")
    words = ("tabular", "tables", str(home / name), "--schema", schema, "--unit", "owner")
    result = cli(*words, "--epsilon", "1", "--out", str(home / "release"))
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_damaged_release_is_refused(cli, home, people, schema):
    words = ("tabular", "tables", people, "--schema", schema, "--epsilon", "1")
    out = ("--out", str(home / "release"))
    assert cli(*words, *out).exit_code == 0
    (home / "release" / "release.json").write_text("{")
    assert "damaged" in cli(*words, *out).stderr


def test_evaluate_tabular_takes_one_s_own_rows(cli, home, schema, people):
    own = ("--schema", schema, "--train", people, "--test", people)
    few = ("--epsilon", "5", "--k", "1,2", "--seeds", "1", "--queries", "2")
    words = ("evaluate", "tabular", *own, *few, "--out", str(home / "run"))
    first = cli(*words)
    assert first.exit_code == 0, first.output
    assert "naive Bayes, tables" in first.output
    assert "| schema |" in (home / "run" / "results.md").read_text()
    found = json.loads(cli(*words, "--json").stdout)
    assert found["epsilons"] == [5.0]
    assert {line["task"] for line in found["lines"]} == {"schema"}
    assert "needs --schema, --train and --test" in cli("evaluate", "tabular", *own[:4]).stderr
    missing = cli("evaluate", "tabular", *own[:4], "--test", str(home / "absent.csv"))
    assert "absent.csv: there is no such table" in missing.stderr
    assert cli(*words, "--k", "0").exit_code == 2


@pytest.mark.parametrize("kind", ["tables", "aggregates"])
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("absent.csv", None, "does not exist"),
        ("absent.jsonl", None, "does not exist"),
        ("empty.csv", "", "a row that names the columns: age,job,rich"),
        ("blank.csv", "\n\n", "a row that names the columns: age,job,rich"),
        ("other.csv", "a,b\n1,2\n", "no column 'age'"),
    ],
)
def test_a_table_that_is_refused_leaves_no_folder(cli, home, schema, kind, name, content, said):
    if content is not None:
        (home / name).write_text(content)
    words = ("tabular", kind, str(home / name), "--schema", schema, "--epsilon", "1")
    result = cli(*words, "--out", str(home / "runs" / "release"))
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert said in result.stderr
    assert not (home / "runs").exists()


@pytest.mark.parametrize(
    "words", [("--row", "absent.json"), ("--row", "{}", "--epsilon", "0")], ids=["row", "epsilon"]
)
def test_a_report_that_is_refused_leaves_no_folder(cli, home, schema, words):
    result = cli(
        "tabular", "local", "--schema", schema, "--epsilon", "1", "--out", str(home / "own"), *words
    )
    assert result.exit_code == 1
    assert not (home / "own").exists()


def test_a_row_on_stdin_is_read_once(cli, home, schema):
    words = ("tabular", "local", "--schema", schema, "--epsilon", "1", "--out", str(home / "own"))
    result = cli(*words, "--row", "-", input='{"age": 44, "job": "clerk", "rich": "1"}')
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("kind", ["tables", "aggregates"])
def test_a_plan_refuses_a_unit_without_a_name(cli, home, people, schema, kind):
    words = ("tabular", kind, people, "--schema", schema, "--epsilon", "1", "--unit", "")
    told = [cli(*words, *way) for way in (("--plan",), ("--out", str(home / "release")))]
    assert [one.exit_code for one in told] == [1, 1]
    assert "--unit names a column" in told[0].stderr
    assert told[0].stderr == told[1].stderr


def test_evaluate_tabular_has_the_paper_s_own_where_it_is_asked_for(cli, home, schema, people):
    own = ("--schema", schema, "--train", people, "--test", people)
    few = ("--seeds", "2", "--queries", "2", "--k", "2", "--epsilon", "1")
    words = ("evaluate", "tabular", *own, *few, "--out", str(home / "run"))
    result = cli(*words, "--fresh", "--rate", "0.5", "--t-tests", "--json")
    assert result.exit_code == 0, result.output
    methods = [line["arm"]["method"] for line in json.loads(result.stdout)["lines"]]
    assert {"local bits, fresh", "aggregates, rate 0.5"} <= set(methods)
    assert "| 1 | 2 | 0.5 |" in (home / "run" / "sizes.md").read_text()
    assert "Welch, 2 seeds" in (home / "run" / "t-tests.md").read_text()
    assert "other settings (rates, fresh)" in cli(*words).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rate", "published"), "packaged tasks"),
        (("--groups", "published"), "packaged tasks"),
        (("--rate", "2"), "above 0 and below 1"),
        (("--peers",), "pip install diffprivlib"),
    ],
)
def test_what_the_paper_has_not_is_refused(cli, home, schema, people, monkeypatch, words, said):
    monkeypatch.setitem(sys.modules, "diffprivlib.models", None)
    own = ("--schema", schema, "--train", people, "--test", people, "--out", str(home / "run"))
    result = cli("evaluate", "tabular", *own, *words)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert said in result.stderr
    assert not (home / "run").exists()
