"""`corpora scores`: charged before it is shown, noisy, and without private text."""

from __future__ import annotations

import json

import pytest

from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.cli import data_folder
from dpicl_rag.ledger import Ledger


def test_each_question_is_charged_to_the_ledger(cli, mail, secret, spending):
    shown = cli("corpora", "scores", mail, "What code?", "Which entry?", "--sigma", "2")
    assert shown.exit_code == 0, shown.output
    rho = 2 / (2 * 2.0**2)
    assert spending(mail).spent == pytest.approx(rho, abs=1e-8)
    assert spending(mail).questions == 1
    assert f"rho {rho:.4g}" in shown.output
    assert "What code?" in shown.output
    assert "Which entry?" in shown.output
    assert "0.90" in shown.output
    assert "0.20" in shown.output
    assert "--threshold" in shown.output
    assert secret not in shown.output


def test_json_is_one_object_of_public_numbers(cli, mail, secret):
    shown = cli("corpora", "scores", mail, "What code?", "--units", "2", "--json")
    found = json.loads(shown.stdout)
    (histogram,) = found["histograms"]
    assert len(histogram["counts"]) == len(histogram["thresholds"]) == 15
    assert sum(histogram["counts"]) == histogram["passing"][-1]
    assert found["suggested_threshold"] in histogram["thresholds"]
    assert found["rho"] == pytest.approx(1 / 18)
    assert found["epsilon"] == pytest.approx(rho_to_epsilon(1 / 18, 1e-5))
    assert secret not in shown.output


def test_with_next_to_no_noise_the_counts_are_those_of_the_corpus(cli, mail):
    shown = cli("corpora", "scores", mail, "The code is", "--sigma", "0.05", "--json")
    (histogram,) = json.loads(shown.stdout)["histograms"]
    assert histogram["passing"][-1] == 3


def test_a_budget_that_cannot_pay_shows_nothing(cli, mail, spending):
    with Ledger(data_folder.default_ledger()) as ledger:
        ledger.set_budget(corpus=mail, rho=0.01)
    shown = cli("corpora", "scores", mail, "What code?")
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("error: the budget of corpus")
    assert spending(mail).spent == 0


@pytest.mark.parametrize(
    "words", [("mial", "What?"), ("mail", "What?", "--sigma", "0"), ("mail", " ", "--sigma", "-1")]
)
def test_a_bad_word_is_one_line(cli, mail, words):
    shown = cli("corpora", "scores", *words)
    assert shown.exit_code == 1
    assert shown.stderr.startswith("error: ")
    assert shown.output.count("\n") == 1
