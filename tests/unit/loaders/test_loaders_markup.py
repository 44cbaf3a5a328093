"""Text of HTML that strangers wrote."""

import pytest

from dpicl_rag.loaders.markup import text_of_html


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
