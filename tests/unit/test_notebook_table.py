"""What a notebook shows of results: their text, escaped, and public numbers alone."""

from __future__ import annotations

from dpicl_rag.results import PrivateAnswer, PrivateLabel
from dpicl_rag.synthesis.released_records import Synthesis, SyntheticRecord

TEXT = "<b>Tom</b> & Ann"
NUMBERS = (
    "<tr><th>epsilon</th><td>8</td></tr><tr><th>delta</th><td>1e-05</td></tr>"
    "<tr><th>rho</th><td>0.25</td></tr>"
)


def answer(**given):
    return PrivateAnswer(
        TEXT, 8.0, 1e-5, 0.25, 4, stopped_by="end", corpus="mail", **given
    )._repr_html_()


def test_an_answer_is_its_text_and_public_numbers():
    assert answer(supported=True, recalled=3) == (
        '<p style="white-space: pre-wrap">&lt;b&gt;Tom&lt;/b&gt; &amp; Ann</p><table>'
        "<tr><th>supported</th><td>by the documents</td></tr>"
        f"{NUMBERS}<tr><th>ended by</th><td>end</td></tr></table>"
    )
    assert "not by the documents" in answer(supported=False)
    assert "not asked" in answer()
    assert "answered before" in answer(supported=True, from_memory=True)


def test_a_label_is_a_text_too():
    shown = PrivateLabel("<yes>", 8.0, 1e-5, 0.25)._repr_html_()
    front = '<p style="white-space: pre-wrap">&lt;yes&gt;</p>'
    assert shown == f"{front}<table>{NUMBERS}</table>"


def test_of_many_records_the_first_are_shown():
    records = [SyntheticRecord(f"<i>{n}</i>", None, "key", 1, "end") for n in range(25)]
    shown = Synthesis(tuple(records), 8.0, 1e-5, 0.25)._repr_html_()
    assert "25 synthetic records, the first 20 of them here" in shown
    assert "&lt;i&gt;19&lt;/i&gt;" in shown
    assert "<i>" not in shown
    assert "20&lt;/i&gt;" not in shown
    few = Synthesis(tuple(records[:2]), 8.0, 1e-5, None)._repr_html_()
    assert "2 synthetic records</p>" in few
    assert "rho" not in few
