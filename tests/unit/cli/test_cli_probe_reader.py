"""`probe-reader`: one line, and a status that a script can ask for."""

import json
from itertools import count

import pytest

from tests.support.fake_chat import FakeChat


@pytest.fixture
def chat():
    with FakeChat(lambda prompt: "The code is 4071.") as running:
        yield running


def test_equal_replies_are_one_line(cli, chat):
    result = cli("probe-reader", chat.address())
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "equal: 64 public calls moved no reply (evidence, not proof)\n"
    assert result.stderr == ""
    assert len(chat.prompts) == 64 + 1


def test_other_replies_end_with_status_1(cli, chat):
    numbers = count()
    chat.say = lambda prompt: f"The code is {next(numbers)}."
    result = cli("probe-reader", chat.address())
    assert result.exit_code == 1
    assert result.stdout.startswith("not equal: ")
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize("equal", [True, False])
def test_as_json(cli, chat, equal):
    numbers = count()
    if not equal:
        chat.say = lambda prompt: f"The code is {next(numbers)}."
    result = cli("probe-reader", chat.address(), "--calls", "32", "--json")
    assert json.loads(result.stdout) == {"equal": equal, "calls": 32}
    assert result.exit_code == (0 if equal else 1)
    assert len(chat.prompts) == 32 + 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("llama",), "looks like chat+http"),
        (("chat+http://127.0.0.1:9/v1?deadline=0.2#m",), "did not answer"),
        (("chat+http://127.0.0.1:9/v1#m", "--calls", "31"), "32"),
    ],
    ids=["no address", "down", "too few calls"],
)
def test_what_cannot_be_tried_is_an_error_of_few_lines(cli, given, message):
    result = cli("probe-reader", *given)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
