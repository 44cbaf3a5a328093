"""``dpicl-rag keys``: made, shown once, listed and taken back."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from dpicl_rag.cli import data_folder
from dpicl_rag.server.api_keys import KeyFile


def listed(cli):
    return json.loads(cli("keys", "list", "--json").stdout)["keys"]


def test_a_key_is_made_listed_and_taken_back(cli, spending):
    words = ("--corpus", "mail", "--epsilon", "4", "--period", "month")
    made = cli("keys", "add", "ann", *words, "--a-minute", "10", "--each", "2", "--json")
    assert made.exit_code == 0, made.output
    key = json.loads(made.stdout)["key"]
    assert KeyFile(data_folder.default_keys()).find(key).name == "ann"
    (row,) = listed(cli)
    assert row.pop("made")
    assert row == {
        "name": "ann",
        "role": "caller",
        "corpora": ["mail"],
        "each": 2,
        "a_minute": 10,
    }
    table = cli("keys", "list").output
    assert "ann" in table
    assert key not in table
    assert spending("ann", "caller").period.value == "month"
    assert json.loads(cli("keys", "remove", "ann", "--json").stdout) == {"removed": "ann"}
    assert listed(cli) == []
    assert spending("ann", "caller").budget is not None  # what was spent is not forgotten


def test_without_keys_nobody_is_listed(cli):
    assert "Nobody has a key yet." in cli("keys", "list").output


@pytest.mark.parametrize(
    "words", [("add", "ann"), ("remove", "bob"), ("add", ""), ("add", "bob", "--a-minute", "0")]
)
def test_what_cannot_be_done_is_said_in_one_line(cli, words):
    assert cli("keys", "add", "ann").exit_code == 0
    shown = cli("keys", *words)
    assert shown.exit_code in (1, 2)
    assert "Traceback" not in shown.output
    assert [row["name"] for row in listed(cli)] == ["ann"]


def test_no_key_goes_without_the_budget_that_it_was_to_have(cli):
    data_folder.default_ledger().parent.mkdir(parents=True, exist_ok=True)
    data_folder.default_ledger().write_bytes(b"no ledger" * 1000)
    shown = cli("keys", "add", "ann", "--epsilon", "4")
    assert shown.exit_code == 1
    assert "dpk-" not in shown.output
    assert listed(cli) == []


def test_a_budget_is_not_changed_by_a_key_that_is_there(cli, spending):
    cli("keys", "add", "ann", "--epsilon", "4")
    before = spending("ann", "caller").budget
    assert cli("keys", "add", "ann", "--epsilon", "400").exit_code == 1
    assert spending("ann", "caller").budget == before


def test_whose_corpora_are_closed_is_listed_given_and_ended(cli):
    owner = json.loads(cli("keys", "add", "olga", "--owner", "--json").stdout)["key"]
    with closing(KeyFile(data_folder.default_keys())) as keys:
        keys.close_corpus("house-mail", keys.find(owner))

    def closed():
        return json.loads(cli("keys", "list", "--json").stdout)["closed"]

    assert closed() == {"house-mail": "olga"}
    assert "house-mail is closed to all keys but olga's" in cli("keys", "list").output
    assert "keys give house-mail NAME" in cli("keys", "remove", "olga").output
    assert closed() == {"house-mail": None}
    assert "house-mail is closed to all keys;" in cli("keys", "list").output
    assert cli("keys", "give", "house-mail", "olga").exit_code == 1
    cli("keys", "add", "olga", "--owner")
    assert "that of olga" in cli("keys", "give", "house-mail", "olga").output
    assert closed() == {"house-mail": "olga"}
    assert json.loads(cli("keys", "open", "house-mail", "--json").stdout)["closed"] is None
    assert closed() == {}
