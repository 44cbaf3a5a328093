import asyncio
import threading

import pytest

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.errors import DPICLError
from dpicl_rag.results import UNSUPPORTED, PrivateAnswer


class Bytes:
    """A tokenizer of bytes; 0 is the stop token."""

    stop_tokens = frozenset({0})

    def decode(self, ids):
        return bytes(ids).decode(errors="replace")


def stream(text, *, stop=(), max_tokens=100, start="", stopped=None, ending=b""):
    """A stream whose tokens are the bytes of ``text``; 0 is the stop token."""
    closed = [] if stopped is None else stopped
    return PrivateStream(
        (token for token in text.encode() + ending),
        Bytes(),
        stop=stop,
        max_tokens=max_tokens,
        start=start,
        close=lambda: closed.append(True),
        finish=lambda text, tokens, why, whole: PrivateAnswer(
            text or UNSUPPORTED, 1.0, 1e-5, 0.1, tokens, why, "default"
        ),
    )


def test_the_pieces_add_up_to_the_answer():
    with stream("It is nine.", ending=b"\0") as pieces:
        assert "".join(pieces) == "It is nine."
    assert pieces.answer.text == "It is nine."
    assert pieces.answer.tokens == 12
    assert pieces.answer.stopped_by == "end"


@pytest.mark.parametrize("text", ["", " \n"])
def test_so_they_do_where_nothing_was_said(text):
    with stream(text, ending=b"\0") as pieces:
        assert "".join(pieces).strip() == pieces.answer.text == UNSUPPORTED


def test_public_words_come_first():
    pieces = list(stream("nine", start="It is "))
    assert pieces[0] == "It is "
    assert "".join(pieces) == "It is nine"


def test_tokens_that_run_out_before_the_limit_mean_the_budget():
    pieces = stream("abc", max_tokens=10)
    list(pieces)
    assert pieces.answer.stopped_by == "budget"


def test_the_limit_is_told_as_length():
    pieces = stream("abc", max_tokens=3)
    list(pieces)
    assert pieces.answer.stopped_by == "length"


@pytest.mark.parametrize("stop", [("\n",), ("\n\n", "nd"), (". X",)])
def test_a_stop_string_ends_the_answer_and_is_never_shown(stop):
    text = "First.\nSecond. X\n\nThird"
    expected = text[: min(text.find(s) for s in stop if s in text)]
    pieces = stream(text, stop=stop)
    assert "".join(pieces) == expected
    assert pieces.answer.stopped_by == "end"
    assert pieces.answer.text == expected.strip()


def test_what_only_looks_like_a_stop_string_is_shown_in_the_end():
    assert "".join(stream("a. b. ", stop=(". X",))) == "a. b. "


def test_half_a_character_waits_for_its_rest():
    pieces = list(stream("zwölf €"))
    assert "".join(pieces) == "zwölf €"
    assert not any("\ufffd" in piece for piece in pieces)


def test_closing_early_settles_what_was_released():
    stopped = []
    pieces = stream("abcdef", stopped=stopped)
    assert next(pieces) == "a"
    assert next(pieces) == "b"
    pieces.close()
    assert stopped
    assert pieces.answer.text == "ab"
    assert pieces.answer.tokens == 2
    assert list(pieces) == []
    pieces.close()


def test_closing_before_the_first_piece_settles_too():
    stopped = []
    stream("abc", stopped=stopped).close()
    assert stopped


def test_an_exception_while_drawing_settles():
    stopped = []

    def broken():
        yield 65
        raise RuntimeError("planted")

    pieces = stream("", stopped=stopped)
    pieces._tokens = broken()
    with pytest.raises(RuntimeError, match="planted"):
        list(pieces)
    assert stopped


def test_the_answer_is_not_there_before_the_end():
    pieces = stream("abc")
    next(pieces)
    with pytest.raises(DPICLError, match="read it to its end"):
        _ = pieces.answer
    assert repr(pieces) == "PrivateStream()"


def test_closing_waits_for_a_draw_in_another_thread():
    drawing, go = threading.Event(), threading.Event()

    def slow():
        drawing.set()
        assert go.wait(10)
        yield 65

    pieces = stream("")
    pieces._tokens = slow()
    reader = threading.Thread(target=lambda: next(pieces, None))
    reader.start()
    assert drawing.wait(10)
    closer = threading.Thread(target=pieces.close)
    closer.start()
    go.set()
    reader.join(10)
    closer.join(10)
    assert pieces.answer.tokens == 1


async def test_the_pieces_come_by_async_for_too():
    async with stream("It is nine.", ending=b"\0") as pieces:
        found = [piece async for piece in pieces]
    assert "".join(found) == "It is nine."
    assert pieces.answer.tokens == 12


async def test_leaving_an_async_block_settles_what_was_released():
    stopped = []
    async with stream("abcdef", stopped=stopped) as pieces:
        assert await anext(pieces) == "a"
    assert stopped
    assert pieces.answer.text == "a"
    await pieces.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(pieces)


async def test_a_cancelled_reader_waits_for_its_draw_and_the_stream_can_be_closed():
    drawing, go = threading.Event(), threading.Event()

    def slow():
        drawing.set()
        assert go.wait(10)
        yield 65

    pieces = stream("")
    pieces._tokens = slow()
    reader = asyncio.ensure_future(anext(pieces))
    await asyncio.to_thread(drawing.wait, 10)
    reader.cancel()
    asyncio.get_running_loop().call_later(0.05, go.set)
    with pytest.raises(asyncio.CancelledError):
        await reader
    await pieces.aclose()
    assert pieces.answer.tokens == 1
