"""Answers and counts from a reader's notes, exactly: what a unit shows is what it pays.

A made-up reader says anything that a document makes it say. `tests.unit.test_exact_agreement` and
`tests.unit.test_exact_tallies` have the method.
"""

from dataclasses import replace

import pytest

from dpicl_rag.language_models.readers import concurrent_reader
from dpicl_rag.language_models.readers.concurrent_reader import ConcurrentReader
from dpicl_rag.language_models.readers.notes import notes
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.retrieval import Candidates, CountedRetriever, GivenDocuments, Search
from tests.support.scripted_reader import ScriptedReader, document_of
from tests.support.swift_clock import SwiftClock
from tests.unit import test_exact_agreement as agreement
from tests.unit import test_exact_tallies as tallies
from tests.unit.test_exact_agreement import BOTH, OTHERS, WAYS, counts, shares, trace, worst

__all__ = ("counts", "shares", "trace")  # fixtures


def said(prompt):
    """The last word of a document, or nothing."""
    word = document_of(prompt).rpartition(" ")[2]
    return "NOTHING" if word == "nothing!" else word


HONEST = ScriptedReader(said)


class OfAll(ScriptedReader):
    """A planted fault: replies depend on all prompts."""

    def __init__(self, reply):
        super().__init__(said)
        self._of = reply

    def replies(self, prompts, on_progress=None):
        return self._of(super().replies(prompts))


@pytest.mark.one_in(3)
@BOTH
@WAYS
@pytest.mark.parametrize("unit", ["a", "b", "c", "nothing!"])
def test_a_unit_pays_for_what_its_note_shows(trace, accounting, unit):
    short, beyond = worst(
        trace, OTHERS, unit, accounting=accounting, agreement="only", reader=HONEST
    )
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.mark.heavy
@BOTH
@pytest.mark.parametrize("unit", ["a", "c"])
def test_and_for_tokens_that_are_drawn_from_notes(trace, accounting, unit):
    short, beyond = worst(trace, ("a", "a", "b"), unit, accounting=accounting, reader=HONEST)
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.mark.heavy
def test_tokens_are_reached(trace):
    found, _ = agreement.views(trace, ("a", "a", "b"), "a", reader=HONEST)
    assert {view[1][1] for view, _ in found} == {"agreement", "tokens"}


class BusyError(Exception):
    """Of a provider that answers 503."""

    status_code = 503


def fails(error):
    raise error


HOSTILE = {
    "refused": lambda: fails(ValueError()),
    "busy": lambda: fails(BusyError()),
    "limited": lambda: fails(type("RateLimitError", (Exception,), {})()),
    "time-out": lambda: fails(TimeoutError()),
    "no memory": lambda: fails(MemoryError()),
    "endless": lambda: "a " * 10**6,
}


def reader_of(how):
    """A reader whose provider does this over a document that ends with "hostile!", and for ever."""

    def call(prompt):
        if "Document:" not in prompt:
            return "OK"
        return how() if said(prompt) == "hostile!" else said(prompt)

    return ConcurrentReader(call, "hostile", backoff=0.001)


@pytest.fixture
def swift(monkeypatch):
    """No test waits for a deadline."""
    monkeypatch.setattr(concurrent_reader, "time", SwiftClock())


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("how", HOSTILE)
def test_a_unit_that_makes_a_provider_fail_moves_no_other(how):
    units = [(f"I say {word}",) for word in ("a", "b", "nothing!", "a")]
    without = notes(reader_of(HOSTILE[how]), "What?")(units)
    found = notes(reader_of(HOSTILE[how]), "What?")([*units[:2], ("I say hostile!",), *units[2:]])
    assert [*found[:2], *found[3:]] == without
    assert found[2] == () or how == "endless"


@BOTH
@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("how", ["busy", "endless"])
def test_and_pays_for_what_it_shows(trace, accounting, how):
    settings = {"accounting": accounting, "agreement": "only", "reader": reader_of(HOSTILE[how])}
    short, beyond = worst(trace, OTHERS, "hostile!", **settings)
    assert short <= 1e-9
    assert beyond <= 1e-12


# Planted faults.


@BOTH
def test_a_call_that_sees_two_units_is_seen(trace, accounting):
    together = OfAll(lambda replies: [max(replies)] * len(replies))
    settings = {"agreement": "only", "accounting": accounting, "reader": together}
    short, beyond = worst(trace, ("a", "a", "a", "a"), "b", **settings)
    assert max(short, beyond) > 0.01


@BOTH
def test_history_that_calls_share_is_seen(trace, accounting):
    shared = OfAll(lambda replies: replies if "c" not in replies else ["b"] * len(replies))
    settings = {"agreement": "only", "accounting": accounting, "reader": shared}
    assert worst(trace, OTHERS, "c", **settings)[0] > 0.01


@BOTH
def test_an_expert_that_is_left_out_after_a_rate_limit_is_seen(trace, accounting):
    limited = OfAll(lambda replies: replies if len(replies) < 5 else ["", "", *replies[2:]])
    settings = {"agreement": "only", "accounting": accounting, "reader": limited}
    assert worst(trace, OTHERS, "nothing!", **settings)[0] > 0.01


# Counts.


def letters(prompt):
    """The letters of a document's last word, as labels."""
    return " ".join(document_of(prompt).rpartition(" ")[2])


@pytest.fixture
def as_drawn(monkeypatch):
    """As `tests.unit.test_exact_tallies` has them: two labels, and counts that are not cut."""
    monkeypatch.setattr("dpicl_rag.surveys.tallies.YES_OR_NO", ("a", "b"))
    monkeypatch.setattr("dpicl_rag.results.Estimate.of", lambda noisy, noise, rate=1.0: noisy)


ASKED = [(tallies.counted(), unit) for unit in tallies.SOME]
ASKED += [(tallies.tallied(most=2), unit) for unit in ("ab", "nothing")]
ASKED += [
    pytest.param(tallies.tallied(most=2), unit, marks=pytest.mark.heavy) for unit in ("a", "b")
]


@pytest.mark.one_in(4)
@tallies.ACCOUNTING
@pytest.mark.usefixtures("as_drawn")
@pytest.mark.parametrize(("ask", "unit"), ASKED)
def test_a_reader_s_labels_are_paid_for(unit, ask, accounting):
    reader = ScriptedReader(letters)
    assert tallies.worst(ask, unit, accounting=accounting, reader=reader) <= 1e-9


def few(corpus):
    """A search with so little noise on its count that it has few outcomes."""
    return CountedRetriever(GivenDocuments(corpus), 0.5)


LIMITED = {"reader": ScriptedReader(letters), "max_calls": 2}


@pytest.mark.one_in(4)
@tallies.ACCOUNTING
@pytest.mark.usefixtures("as_drawn")
@pytest.mark.parametrize(
    "unit", ["b", *(pytest.param(unit, marks=pytest.mark.heavy) for unit in ("a", "nothing"))]
)
def test_a_limit_of_calls_is_paid_for(unit, accounting):
    ask = tallies.counted(search=few)
    assert tallies.worst(ask, unit, accounting=accounting, **LIMITED) <= 1e-9


@pytest.mark.usefixtures("as_drawn")
@pytest.mark.parametrize("paid", [0.5, pytest.param(0.0, marks=pytest.mark.heavy)])
def test_a_limit_that_pays_for_its_count_in_part_or_not_at_all_is_seen(monkeypatch, paid):
    price, honest = Search.rho, Search.search
    monkeypatch.setattr(Search, "rho", lambda self, reach: paid * price(self, reach))

    def cheap(self, question):
        search = honest(self, question)

        def draw(*given):
            found = search.choose(*given)
            return replace(found, unit_rho=[paid * rho for rho in found.unit_rho])

        return Candidates(search.units, draw)

    monkeypatch.setattr(Search, "search", cheap)
    assert tallies.worst(tallies.counted(search=few), "b", **LIMITED) > 0.01


@pytest.mark.heavy
@pytest.mark.usefixtures("as_drawn")
def test_a_limit_by_the_true_number_is_seen(monkeypatch):
    noise = tallies.gaussian_pmf
    monkeypatch.setattr(
        tallies,
        "gaussian_pmf",
        lambda sigma, *most, **more: {0: 1.0} if sigma == 0.5 else noise(sigma, *most, **more),
    )
    assert tallies.worst(tallies.counted(search=few), "b", **LIMITED) > 0.01


@pytest.mark.heavy
@pytest.mark.usefixtures("as_drawn")
def test_two_labels_that_are_charged_as_one_are_seen(monkeypatch):
    within = Histogram.within
    monkeypatch.setattr(
        Histogram,
        "within",
        staticmethod(lambda rho, n, most, *reach, **more: within(rho, n, 1, *reach, **more)),
    )
    reader = ScriptedReader(letters)
    assert tallies.worst(tallies.tallied(most=2), "ab", reader=reader) > 0.01
