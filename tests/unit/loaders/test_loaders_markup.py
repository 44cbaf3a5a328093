"""Text of HTML that strangers wrote."""

import pytest

from dpicl_rag.loaders.markup import ORIGINAL_MESSAGE, text_of_html


def words(markup: str) -> str:
    return " ".join(text_of_html(markup).split())


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p>one</p><p>two &amp; three</p>", "one two & three"),
        ("<style>p {}</style><script>x()</script><p>one", "one"),
        ("<?xml version='1.0' encoding='utf-8'?><p>one</p>", "one"),
        ("no markup", "no markup"),
        ("<table><tr><td>a<td>b</table>", "a b"),
        ("a &lt;b&gt;", "a <b>"),
        ("", ""),
        ("<!-- only a comment -->", ""),
        ("a<!-- never closed", "a<!-- never closed"),
        ("\ud800\x00one", "\ufffdone"),
    ],
)
def test_text(markup: str, expected: str) -> None:
    assert words(markup) == expected


def test_deep_markup_loses_nothing() -> None:
    # The parser stops at 256 levels.
    markup = "<p>first</p>" + "<div>" * 2000 + "deep" + "</div>" * 2000 + "<p>last &amp; least</p>"
    assert words(markup) == "first deep last & least"


def test_a_failing_parser_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(tree: object, _: object) -> str:
        raise ValueError(tree)

    monkeypatch.setattr("dpicl_rag.loaders.markup.Inscriptis", fail)
    assert words("<style>p {}</style><p>one</p><p>two") == "one two"


@pytest.mark.heavy
def test_tables_are_laid_out_within_a_public_size() -> None:
    """Every cell is padded to the widest of its column: 60 KB would take 300 MB."""
    for markup, many in (
        ("<table><tr><td>" + "z" * 30_000 + "<tr><td>a" * 10_000 + "</table><p>end", "a"),
        ("<table><tr>" + "<td>b" * 30_000 + "<tr><td>c" * 30_000 + "</table><p>end", "c"),
    ):
        found = text_of_html(markup)
        assert len(found) < 10 * len(markup)
        assert found.split()[-3:] == [many, many, "end"]
    rows = "".join(f"<tr><td>{'z' * 100}<td>{number}" for number in range(3))
    assert text_of_html(f"<table>{rows}<tr><td>a</table>").split("\n")[0] == "z" * 100 + "  0"


def test_what_is_laid_out_counts_for_all_tables_together() -> None:
    one = "<table><tr><td>" + "z" * 10_000 + "<tr><td>a" * 1_000 + "</table>"
    assert len(text_of_html(one)) > 10_000_000
    assert len(text_of_html(2 * one)) < 100_000


def test_a_complete_document_is_laid_out_to_its_last_line() -> None:
    head = "<head><title>hidden</title><script>if (a<b) hidden()</script></head>"
    markup = (
        f"<!DOCTYPE html><html>{head}<body>one<br>two<p>three</p></body></html>\n<p>a list's foot"
    )
    assert text_of_html(markup) == "one\ntwo\n\nthree\n\na list's foot"


def test_deep_markup_has_lines_and_no_script() -> None:
    markup = (
        "<title>hidden</title><script>if (a<b) hidden()</script>" + "<div>" * 300 + "one<br>two"
    )
    assert text_of_html(markup) == "one\ntwo"
    assert text_of_html("<script>no end" + "<div>" * 300 + "one") == "no end\none"


@pytest.mark.parametrize(
    "quote",
    [
        "<blockquote type='cite'><div>their</div><blockquote>words</blockquote></blockquote>",
        "<div class='gmail_quote'><div class='gmail_attr'>their</div>words</div>",
        "<div class='gmail_attr x'>their<br>words</div>",
        "<div id='OLK_SRC_BODY_SECTION'><b>their</b><p>words</p></div>",
        "<div class='yahoo_quoted'>their words</div>",
        "<div name='quote'>their words</div>",
    ],
)
def test_quotes_are_marked_by_their_elements(quote: str) -> None:
    markup = f"<html><body>own{quote}<p>own again</p></body></html>"
    lines = [line for line in text_of_html(markup, marks_quotes=True).split("\n") if line]
    assert [line.strip() for line in lines if line[0] != ">"] == ["own", "own again"]
    assert "> " not in text_of_html(markup)


@pytest.mark.parametrize(
    "header",
    [
        "<div id='appendonsend'></div><hr><div id='divRplyFwdMsg'>x</div>",
        "<div style='border:none;BORDER-TOP:solid'><p><b>Nuo:</b> a<b>Kada:</b> b<b>Kam:</b> c",
    ],
)
def test_what_a_header_stands_above_is_below_a_mark(header: str) -> None:
    text = text_of_html(f"own{header}<p>their words", marks_quotes=True)
    assert text.split("\n")[:2][-1].strip() == ORIGINAL_MESSAGE
