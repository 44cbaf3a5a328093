"""Bytes are read by the charset that people mean, not by the letter of what they declare."""

import pytest

from dpicl_rag.loaders.characters import decode, decode_as, decode_html, decode_words

# The Japanese text has NEC's sign for one within a circle.
CIRCLED = b"\x1b$B2q5D\x1b(B\x1b$B-!\x1b(B\x1b$BHV\x1b(B"


@pytest.mark.parametrize(
    ("declared", "meant", "text"),
    [
        ("gb2312", "gbk", "朱镕基在三楼"),
        ("GB2312", "gb18030", "会议 𠀀"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("euc-kr", "cp949", "펲시"),
        ("shift_jis", "cp932", "①番室、㈱髙橋"),
        ("x-sjis", "cp932", "①番室"),
        ("big5", "cp950", "碁銹裏"),
        ("iso-8859-1", "cp1252", "“nine” – 5 €"),
        ("us-ascii", "cp1252", "it’s"),
        ("us-ascii", "utf-8", "Zürich"),
        ("iso-8859-1", "utf-8", "Zürich"),
        ("gb2312", "utf-8", "会议在三楼"),
        ("iso-8859-9", "cp1254", "“ığdır”"),
        ("windows-874", "cp874", "ประชุม…"),
        ("windows-949", "cp949", "펲시"),
        ("windows-31j", "cp932", "㈱"),
        ("utf-8", "cp1252", "Zürich öffnet"),
        ("iso-2022-jp", "iso2022_jp", "会議は三時"),
    ],
)
def test_a_charset_is_what_people_write_in(declared: str, meant: str, text: str) -> None:
    assert decode_as(text.encode(meant), declared) == text


def test_signs_that_nec_added_are_read_with_and_without_a_charset() -> None:
    assert decode_as(CIRCLED, "iso-2022-jp") == decode(CIRCLED) == "会議①番"


@pytest.mark.parametrize("charset", ["shift_jis", "euc-kr", "windows-1253", "utf-8"])
def test_one_odd_letter_is_one_letter(charset: str) -> None:
    text = {"shift_jis": "会議は三時", "euc-kr": "회의는 세 시"}.get(charset, "Η αποθήκη")
    assert decode_as(text.encode(charset) + b" \x81", charset) == f"{text} \ufffd"


def test_encoded_words_are_read_alike() -> None:
    word = "=?gb2312?B?1uzpRrv5?="  # of GBK
    assert decode_words(f"{word} <a@b.c>") == decode_words(
        "=?utf-8?q?=E6=9C=B1=E9=95=95=E5=9F=BA?= <a@b.c>"
    )
    broken = "=?utf-8?q?=81?="
    assert decode_words(broken) == broken


def test_html_says_what_it_is_in() -> None:
    for meta in ('<meta charset="windows-1251">', "<META content='text/html; charset=cp1251'>"):
        markup = f"<html><head>{meta}</head><p>Склад"
        assert decode_html(markup.encode("cp1251")).endswith("Склад")
        assert decode_html(markup.encode(), "utf-8").endswith("Склад")


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("cp1251", "Склад открывается в девять утра."),
        ("koi8-r", "Склад открывается в девять утра."),
        ("cp932", "会議は三時に始まります。"),
        ("gb18030", "会议在三楼，朱镕基参加。"),
        ("cp949", "회의는 세 시에 시작합니다."),
        ("cp1253", "Η αποθήκη ανοίγει στις εννέα"),
        ("cp1252", "Zürich öffnet um neun – “ja”"),
        ("cp1252", "Él llegó tarde…"),
        ("cp1252", "ÄÖÜ"),
        ("cp1252", "no ……………… and no ————"),
    ],
)
def test_text_that_names_no_charset(charset: str, text: str) -> None:
    assert decode(text.encode(charset)) == text
