"""`publish`, and `ask --published`: what they print, what they pay, and what goes wrong."""

import json

import pytest

from dpicl_rag import Bundle
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.cli import data_folder, serve, settings_file
from dpicl_rag.synthesis import Synthesis, SyntheticRecord
from dpicl_rag.synthesis.released_records import RECORDS_FILE
from tests.support.command_line import unwrapped

RHO = epsilon_to_rho(2.0, SHARES.beside_pool(1e-5))
TALLY = ("--tally", "what about?=travel,work")
ABOUT = "What are the documents about?"


@pytest.fixture
def publish(cli, mail, home):
    def run(*given):
        return cli("publish", mail, "--into", str(home / "bundle"), *TALLY, *given)

    return run


def test_the_plan_is_a_price_for_each_item_and_pays_nothing(publish, home):
    found = json.loads(publish("--question", "Which code?", "--plan", "--json").stdout)
    assert [part["name"] for part in found["parts"]] == ["survey", "tally", "answer"]
    assert found["rho"] == pytest.approx(RHO, rel=0.02)
    assert "whole" in publish("--plan").stdout
    assert not (home / "bundle").exists()


def test_a_bundle_is_paid_for_once_and_answers_for_nothing(
    cli, publish, mail, home, spending, secret, monkeypatch
):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)  # vectors tell
    made = publish("--json")
    found = json.loads(made.stdout)
    assert found == {
        "folder": str(home / "bundle"),
        "items": 2,
        "epsilon": 2.0,
        "delta": 1e-5,
        "rho": pytest.approx(RHO, rel=0.02),
        "lost": [],
        "changes": [],
        "release": 1,
    }
    paid = spending("mail").spent
    assert paid <= RHO
    again = publish()
    assert again.exit_code == 1
    assert "--again" in again.stderr
    place = ("--corpus", mail, "--published", str(home / "bundle"))
    told = cli("ask", ABOUT, *place)
    assert "it costs nothing" in told.stdout
    free = json.loads(cli("ask", ABOUT, *place, "--json").stdout)
    assert (free["by"], free["rho"]) == ("published", 0.0)
    assert spending("mail").spent == paid
    assert secret not in made.output + told.output


def test_a_bundle_needs_no_corpus_and_what_it_lacks_is_asked_of_one(cli, publish, home):
    assert publish().exit_code == 0
    bundle = ("--published", str(home / "bundle"))
    assert cli("ask", ABOUT, *bundle).exit_code == 0
    lacking = cli("ask", "Which code is it?", *bundle)
    assert lacking.exit_code == 2
    assert "does not have this; name the corpus" in unwrapped(lacking.stderr)
    result = cli("ask", "Which code is it?", *bundle, "--corpus", "absent")
    assert "does not have this; the documents are asked" in result.stderr
    assert "no corpus named 'absent'" in result.stderr


def test_columns_are_published_and_asked_for_nothing(cli, publish, mail, home):
    made = publish("--column", "folder=inbox,archive", "--column", "no such column", "--json")
    assert json.loads(made.stdout)["items"] == 4
    listed, found = Bundle.open(home / "bundle").items[2:]
    assert (listed.question, list(listed.numbers["counts"])) == (
        "How many have each folder?",
        ["inbox", "archive"],
    )
    assert found.numbers["counts"] == {}
    assert "are not listed" in found.text
    told = cli("ask", "how many have each folder", "--published", str(home / "bundle"))
    assert listed.text in told.stdout


def test_a_label_head_is_published_and_labels_new_texts_for_nothing(
    cli, publish, mail, home, spending
):
    column = ("--label-column", "folder=inbox,archive")
    plan = json.loads(publish(*column, "--plan", "--json").stdout)
    assert plan["parts"][-1]["what"] == "Which folder does a text have?"
    made = publish(*column)
    assert "A label head: it gives any text one of inbox, archive." in made.stdout
    paid = spending("mail").spent
    bundle = ("--published", str(home / "bundle"))
    told = cli("classify", "A flight to Oslo", *bundle)
    label, grounds = told.stdout.splitlines()
    assert label in ("inbox", "archive")
    assert grounds.startswith("by a label head that was published on ")
    assert grounds.endswith("; it costs nothing")
    given = ("--label", "archive", "--label", "inbox", "--json")
    found = json.loads(cli("classify", "A flight to Oslo", *bundle, *given).stdout)
    assert found == {"label": label, "epsilon": 0.0, "delta": 0.0, "rho": 0.0}
    assert spending("mail").spent == paid
    refused = cli("classify", "A flight", *bundle, "--released", str(home))
    assert "not both" in unwrapped(refused.stderr)


def test_synthetic_records_answer_what_a_bundle_lacks(cli, publish, home):
    record = SyntheticRecord("The canteen opens at noon.", None, "mail", 4, "end")
    made = Synthesis((record,), 3.0, 1e-5, 0.2)
    (home / "run").mkdir()
    made.write(home / "run" / RECORDS_FILE)
    assert publish("--records", str(home / "run")).exit_code == 0
    found = cli("ask", "When does it open?", "--published", str(home / "bundle"), "--json")
    told = json.loads(found.stdout)
    assert (told["synthetic"], told["rho"]) == ({"epsilon": 3.0, "delta": 1e-5}, 0.0)


def test_the_questions_asked_most_are_published_first(cli, publish, mail, home):
    with data_folder.open_memory(mail, None, None, None, shared=False) as memory:
        for question in ("Who?", "Where?", "When?"):
            memory.remember(question, "Told.")
        memory.count_asked(memory.entries()[1])
    assert publish("--remembered", "1").exit_code == 0
    assert Bundle.open(home / "bundle").items[-1].question == "Where?"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--tally", "what about?=travel"), "two labels or more"),
        (("--questions", "no-such-file"), "cannot be read"),
        (("--records", "no-such-folder"), "cannot be read"),
        (("--label-column", "folder"), "give the labels as a public list"),
        (("--label-column", "folder=inbox"), "at least two labels"),
    ],
)
def test_what_is_wrong_is_one_line(publish, given, why):
    result = publish(*given)
    assert result.exit_code != 0
    assert why in unwrapped(result.output)


def test_a_bundle_is_served_alone_or_before_its_corpus(publish, mail, home):
    assert publish().exit_code == 0
    folder, file = home / "bundle", settings_file.choose(None)
    alone = serve.Serving(published=[folder])
    beside = serve.Serving(published=[folder], corpus=[mail])
    for serving, is_alone in ((alone, True), (beside, False)):
        chosen = serve.chosen_settings(serving, {}, file)
        with serve.opened_corpora(chosen, serving) as served:
            assert list(served) == [mail]
            assert isinstance(served[mail].documents, Bundle) == is_alone
            assert served[mail].published == Bundle.open(folder)
