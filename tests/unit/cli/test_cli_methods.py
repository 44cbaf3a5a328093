"""`classify --method`: published methods from the command line."""

from __future__ import annotations

import json
import typing

import pytest

from dpicl_rag.accounting import Budget
from dpicl_rag.configuration import MethodName
from dpicl_rag.methods import make

WORDS = ("--label", "yes", "--label", "no", "--epsilon", "2", "--threshold", "0.5", "--json")


@pytest.mark.parametrize("method", typing.get_args(MethodName))
def test_a_method_by_name(cli, mail, method):
    result = cli("classify", "Is there a code?", "--corpus", mail, *WORDS, "--method", method)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["label"] in ("yes", "no")
    assert found["delta"] == (1e-5 if method == "votes-gaussian" else 0.0)
    assert found["rho"] == pytest.approx(make(method).calibrate(Budget(2.0, 1e-5)).rho)


def test_an_unknown_method_is_refused(cli, mail):
    result = cli("classify", "Is there a code?", "--corpus", mail, *WORDS, "--method", "zero-shot")
    assert result.exit_code == 2


def test_individual_accounting_is_refused_in_one_sentence(cli, mail):
    words = (*WORDS, "--method", "votes", "--accounting", "individual")
    result = cli("classify", "Is there a code?", "--corpus", mail, *words)
    assert result.exit_code == 1
    assert "charged the same for every unit" in " ".join(result.output.split())
