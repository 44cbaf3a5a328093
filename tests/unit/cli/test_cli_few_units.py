"""Settings that leave an answer too few units are told on stderr, by public numbers."""

from __future__ import annotations

import json


def test_a_k_that_leaves_too_few_units_is_told_on_stderr(cli, mail):
    words = ("What is the code?", "--corpus", mail, "--max-tokens", "4", "--json")
    result = cli("ask", *words, "--top-k", "2")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: at most about 2 units are read for an answer")
    assert json.loads(result.stdout)["tokens"] <= 4
    assert cli("ask", *words, "--threshold", "0.9").stderr == ""
