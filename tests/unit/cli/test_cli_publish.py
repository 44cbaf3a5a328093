"""`publish`, and `ask --published`: what they print, what they pay, and what goes wrong."""

import json

import pytest

from dpicl_rag import Bundle
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.cli import serve, settings_file

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
    place = ("--corpus", "absent", "--published", str(home / "bundle"))
    assert cli("ask", ABOUT, *place).exit_code == 0
    result = cli("ask", "Which code is it?", *place)
    assert "does not have this; the documents are asked" in result.stderr
    assert "no corpus named 'absent'" in result.stderr


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--tally", "what about?=travel"), "two labels or more"),
        (("--questions", "no-such-file"), "cannot be read"),
        (("--records", "no-such-folder"), "cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(publish, given, why):
    result = publish(*given)
    assert result.exit_code != 0
    assert why in " ".join(result.output.split())


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
