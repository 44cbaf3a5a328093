"""The list of routers, and who gets to their endpoints."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from fastapi import APIRouter

from dpicl_rag.server import app, routers
from tests.unit.server.test_server_owners import OWNERS

OPEN = {("GET", "/health"), ("GET", "/ready")}


def operations(running):
    paths = running.client.get("/openapi.json").json()["paths"]
    return {(method.upper(), path) for path, found in paths.items() for method in found}


def without_a_key(running):
    """Operations that let in whoever asks."""
    del running.client.headers["Authorization"]
    answers = {
        (method, path): running.client.request(method, path.format(id="notes", corpus="notes"))
        for method, path in operations(running)
    }
    return {operation for operation, answer in answers.items() if answer.status_code != 401}


def test_every_file_is_in_the_list():
    files = {path.stem for path in Path(routers.__file__).parent.glob("*.py")} - {"__init__"}
    every = [import_module(f"{routers.__name__}.{file}").router for file in files]
    assert {id(one) for one in every} == {id(one) for one in routers.ROUTERS}


def test_every_endpoint_but_health_asks_for_a_key(serve):
    assert without_a_key(serve()) == OPEN


def test_an_endpoint_that_asks_for_none_is_found(serve, monkeypatch):
    router = APIRouter()
    router.add_api_route("/v1/forgotten", lambda: {})
    monkeypatch.setattr(app, "ROUTERS", [*routers.ROUTERS, router])
    assert without_a_key(serve()) == {*OPEN, ("GET", "/v1/forgotten")}


def test_what_owners_have_is_known(serve):
    found = {path.format(corpus="notes") for _, path in operations(serve()) if "/owner" in path}
    assert found == {path for _, path in OWNERS}


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/page/icon.svg"])
def test_the_page_is_open_and_no_other_file_is(serve, path):
    client = serve().client
    assert client.get(path, headers={"Authorization": ""}).status_code == 200
    assert client.get("/page/index.html").status_code == 404
