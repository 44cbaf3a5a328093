"""Calls are made again; whose failure it is, and what time it takes, follows from no other."""

from __future__ import annotations

import asyncio

import pytest

from dpicl_rag.errors import EngineUnavailableError
from dpicl_rag.language_models import retries
from dpicl_rag.language_models.retries import (
    CallFailure,
    CallOutcome,
    RetriedCalls,
    failure_of_status,
)

PUBLIC = "public"


class Clock:
    """Stands still but where a call takes its time."""

    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(retries, "time", found)
    return found


def outcomes(call, prompts, **options):
    given = {"deadline": 10.0, "backoff": 0.001, "places": 1, **options}
    return dict(RetriedCalls(call, PUBLIC, **given).outcomes(prompts))


def test_between_two_tries_others_have_the_place_and_no_time_passes(clock):
    """Of sixty seconds that others take, a prompt that fails three times counts none."""
    asked = []

    async def call(prompt):
        asked.append(prompt)
        if prompt.startswith("long"):
            await asyncio.sleep(0.01)  # meanwhile the pause of the other is over
            clock.now += 20.0
        elif prompt == "failing":
            clock.now += 1.0
            if asked.count(prompt) < 4:
                return CallOutcome(failure=CallFailure.PASSING)
        return CallOutcome(prompt)

    others = [f"long {number}" for number in range(3)]
    found = outcomes(call, ["failing", *others])
    assert asked[:3] == ["failing", PUBLIC, "long 0"]
    assert [found[index].reply for index in range(4)] == ["failing", *others]


def test_a_prompt_has_failed_by_itself_when_its_own_time_is_over(clock):
    asked = []

    async def call(prompt):
        asked.append(prompt)
        clock.now += 3.0
        return CallOutcome(prompt) if prompt == PUBLIC else CallOutcome(failure=CallFailure.PASSING)

    found = outcomes(call, ["failing"])
    assert found[0] == CallOutcome(failure=CallFailure.OWN)
    assert asked == ["failing", PUBLIC] * 2  # of ten seconds each try takes six


@pytest.mark.parametrize("places", [1, 3])
def test_no_more_calls_than_places_whatever_fails(places):
    running, most, failed = 0, 0, set()

    async def call(prompt):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        if prompt == PUBLIC or prompt in failed:
            return CallOutcome(prompt)
        failed.add(prompt)
        return CallOutcome(failure=CallFailure.PASSING)

    prompts = [str(number) for number in range(9)]
    found = outcomes(call, prompts, places=places)
    assert [found[index].reply for index in range(9)] == prompts
    assert most == places


def test_what_no_call_is_to_raise_is_the_one_error():
    async def call(prompt):
        raise ValueError(prompt)

    with pytest.raises(EngineUnavailableError) as caught:
        outcomes(call, ["secret"])
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    ("failure", "statuses"),
    [
        (CallFailure.OWN, [400, 413, 422]),
        (CallFailure.PASSING, [408, 409, 425, 429, 500, 503, 529]),
        (CallFailure.REFUSED, [301, 307, 401, 402, 403, 404, 405, 410]),
    ],
)
def test_what_a_status_follows_from(failure, statuses):
    assert {failure_of_status(status) for status in statuses} == {failure}
