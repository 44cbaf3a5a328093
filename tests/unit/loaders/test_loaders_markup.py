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
    def fail(markup: str) -> str:
        raise ValueError(markup)

    monkeypatch.setattr("dpicl_rag.loaders.markup.get_text", fail)
    assert words("<style>p {}</style><p>one</p><p>two") == "one two"
