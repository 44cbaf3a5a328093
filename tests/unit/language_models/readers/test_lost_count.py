"""Calls stay quiet where the interpreter has lost count of a context's variables.

Two runs of all tests met it (python/cpython issue 148891): a variable was set, and not found.
"""

import ctypes
import logging
import platform
import sys
from contextvars import Context, ContextVar, copy_context

import pytest

from dpicl_rag import _unobserved
from dpicl_rag.language_models.readers import quiet_calls
from dpicl_rag.language_models.readers.concurrent_reader import ConcurrentReader
from dpicl_rag.language_models.turns import undisturbed

BEFORE = ContextVar("before")
VARIABLES, COUNT = 3, 4  # words from the beginning: of a context, of its variables

pytestmark = pytest.mark.skipif(
    platform.python_implementation() != "CPython" or sys.version_info[:2] not in ((3, 11), (3, 12)),
    reason="where the count lies is known of CPython 3.11 and 3.12",
)


RECORD = logging.makeLogRecord({"msg": "private"})


def lose_count(context):
    """As if no variable were set."""
    word = ctypes.sizeof(ctypes.c_void_p)
    variables = ctypes.c_void_p.from_address(id(context) + VARIABLES * word).value
    ctypes.c_ssize_t.from_address(variables + COUNT * word).value = 0
    Context().run(int)  # another context comes between, so that no value is kept from before


def in_a_miscounted_context(ask):
    """What ``ask`` says where ``BEFORE`` is set and not found, until more is set."""
    context = Context()

    def asked():
        BEFORE.set("here")
        lose_count(context)
        assert len(copy_context()) == 0
        assert BEFORE.get(None) is None  # the fault itself
        return ask(context)

    return context.run(asked)


@pytest.mark.parametrize("hold", [quiet_calls.quietly, _unobserved.unobserved, undisturbed])
def test_what_others_set_is_found_in_a_block(hold):
    def ask(context):
        with hold():
            lose_count(context)
            with hold():  # sets what is set, and ends; then so does the outer one
                found = BEFORE.get(None)
        return found

    assert in_a_miscounted_context(ask) == "here"


def test_a_call_is_quiet_though_its_context_loses_count():
    def ask(context):
        with quiet_calls.quietly():
            lose_count(context)
            return (
                quiet_calls._langchain_is_quiet(),
                quiet_calls._llama_index_is_quiet(),
                quiet_calls._SILENCE.filter(RECORD),
                _unobserved._SILENCE.filter(RECORD),
            )

    assert in_a_miscounted_context(ask) == (True, True, False, False)


def test_others_are_heard_in_a_miscounted_context():
    def ask(context):
        return quiet_calls._SILENCE.filter(RECORD), _unobserved._SILENCE.filter(RECORD)

    assert in_a_miscounted_context(ask) == (True, True)


def test_calls_of_a_reader_are_quiet_in_a_miscounted_context():
    def called(prompt):
        return str((quiet_calls._langchain_is_quiet(), BEFORE.get(None)))

    reader = ConcurrentReader(called, "quiet?")
    said = in_a_miscounted_context(lambda context: reader.replies(["a", "b"]))
    assert said == ["(True, 'here')"] * 2
