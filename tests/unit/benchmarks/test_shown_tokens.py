"""Rows are cut as a server shows them, and every token of an answer is compared."""

from benchmarks.shown_tokens import SHOWN, cut, measure
from dpicl_rag.mechanisms.selection import ExponentialMechanism


def test_every_token_is_compared_and_what_is_shown_is_not_lost(tiny_model, monkeypatch):
    monkeypatch.setattr(tiny_model.tokenizer, "stop_tokens", frozenset())
    draw = ExponentialMechanism.draw
    found = measure(tiny_model, ["the code is 4471", "it is 9"], ["code?"], "surplus")
    assert ExponentialMechanism.draw is draw
    counts = {len(apart) for apart in found.values()}
    assert list(found) == list(SHOWN)
    assert len(counts) == 1
    assert counts.pop() > 0
    # The tiny vocabulary is shown in public, and of experts nearly so.
    assert max(found[1000, 100]) < 1e-3 < max(found[5, 5])


def test_whole_rows_are_cut_nowhere(tiny_model):
    rows = tiny_model.read((), [(1,), (2,), (3,)], room=1).extend((4,))
    whole = cut(rows, 1000, 1000)
    assert whole.rows.equal(rows.rows)
