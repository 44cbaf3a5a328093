"""Pages of other sites ask from a browser where the owner has named them, and nowhere else."""

from __future__ import annotations

import pytest

NAMED = "https://chat.example.org"
PATH = "/v1/chat/completions"


@pytest.fixture
def named(serve, keys):
    found = serve(keys, owner={"origins": [NAMED]})
    found.client.headers["Authorization"] = f"Bearer {keys.add('ann')}"
    return found


def asked_first(running, site):
    """What a browser asks before it sends a page's question, without a key."""
    return running.client.options(
        PATH,
        headers={
            "Origin": site,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        },
    )


def told(response):
    return response.headers.get("Access-Control-Allow-Origin")


def test_a_site_that_is_named_may_ask_with_a_key(named):
    first = asked_first(named, NAMED)
    assert (first.status_code, told(first)) == (200, NAMED)
    assert "authorization" in first.headers["Access-Control-Allow-Headers"].lower()
    # No cookies: what a page sends is the key that it was given.
    assert "Access-Control-Allow-Credentials" not in first.headers
    named.client.headers["Origin"] = NAMED
    answer = named.ask()
    assert (answer.status_code, told(answer)) == (200, NAMED)
    assert "X-DPICL-Ignored" in answer.headers["Access-Control-Expose-Headers"]
    del named.client.headers["Authorization"]
    assert named.ask().status_code == 401


@pytest.mark.one_in(3)
@pytest.mark.parametrize("site", ["https://other.example.org", "http://chat.example.org", "null"])
def test_another_site_may_not(named, site):
    assert asked_first(named, site).status_code == 400
    assert told(asked_first(named, site)) is None
    named.client.headers["Origin"] = site
    assert told(named.ask()) is None  # a browser shows no page what came back


def test_without_a_name_no_site_may(serve):
    running = serve()
    assert asked_first(running, NAMED).status_code == 405
    running.client.headers["Origin"] = NAMED
    assert told(running.ask()) is None
