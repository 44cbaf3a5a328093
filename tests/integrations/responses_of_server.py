"""What a server is asked whose responses are recorded, over HTTP and as tools of agents."""

from __future__ import annotations

import json
import zlib
from typing import Any

from dpicl_rag.server.admission import Admission, ServerLimits
from dpicl_rag.server.api_keys import Caller, KeyFile
from dpicl_rag.server.tools import Tools
from tests.integrations.installation import LABELS, QUESTION, UNKNOWN, Case, Installation, reply
from tests.support.served_in_process import called, chat

NOTHING_NEAR = {"threshold": 0.999}
TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": QUESTION},
    {"role": "assistant", "content": "At seven."},
    {"role": "user", "content": "And at noon?"},
]


def served(*asked: tuple[str, str, Any], **how: Any) -> Case:
    """Responses of one server, one after the other."""

    def run(installed: Installation) -> list[Any]:
        with installed.client(**how) as client:
            return [reply(client.request(way, path, **_sent(body))) for way, path, body in asked]

    return run


def _sent(body: dict[str, Any] | str | None) -> dict[str, Any]:
    if body is None:
        return {}
    if isinstance(body, str):
        return {"content": body, "headers": {"Content-Type": "application/json"}}
    return {"json": {"model": "notes", **body}}


def completed(*bodies: dict[str, Any], **how: Any) -> Case:
    return served(*(("POST", "/v1/chat/completions", body) for body in bodies), **how)


def responded(*bodies: dict[str, Any]) -> Case:
    return served(*(("POST", "/v1/responses", body) for body in bodies))


def surveyed(*bodies: dict[str, Any], **how: Any) -> Case:
    return served(*(("POST", "/v1/surveys", body) for body in bodies), **how)


def with_keys(installed: Installation) -> list[Any]:
    """What those get who have a key, another key, a wrong one, or none."""
    keys = KeyFile(installed.folder / "keys.sqlite")
    ann, bob = keys.add("ann"), keys.add("bob", corpora=["other"])
    installed.ledger.set_budget(caller="ann", rho=3.0)
    asked = (
        ("GET", "/v1/models"),
        ("GET", "/v1/budget"),
        ("GET", "/v1/caller"),
        ("GET", "/metrics"),
    )
    with installed.client(keys=keys) as client:
        found = []
        for key in (ann, bob):
            headers = {"Authorization": f"Bearer {key}"}
            found += [reply(client.request(*one, headers=headers)) for one in asked]
            question = _sent(chat(QUESTION))
            answer = client.post("/v1/chat/completions", **question, headers=headers)
            found.append(reply(answer))
        wrong = {"Authorization": "Bearer dpicl-none"}
        return [*found, *(reply(client.get("/v1/models", headers=one)) for one in (wrong, {}))]


def hurried(installed: Installation) -> list[Any]:
    """Two questions of a key that has one a minute."""
    keys = KeyFile(installed.folder / "keys.sqlite")
    headers = {"Authorization": f"Bearer {keys.add('ann')}"}
    question = {"model": "notes", **chat("Hi!")}
    with installed.client(keys=keys, limits=ServerLimits(a_minute=1)) as client:
        return [
            reply(client.post("/v1/chat/completions", json=question, headers=headers))
            for _ in range(2)
        ]


COUNT = {"kind": "count", "question": "Is it about seven?"}
TALLY = {"kind": "tally", "question": "What does it say?", "labels": LABELS}
SURVEY = {"kind": "survey"}
SERVER: dict[str, Case] = {
    "chat": completed(chat(QUESTION), chat(QUESTION), chat("Hi!")),
    "chat unsupported": completed(chat(UNKNOWN), chat(UNKNOWN, stream=True), table=NOTHING_NEAR),
    "chat marked": completed(
        chat(UNKNOWN), chat(UNKNOWN, stream=True), table={**NOTHING_NEAR, "unsupported": "mark"}
    ),
    "chat of tokens": completed(chat(QUESTION), table={"agreement": "off", "max_tokens": 6}),
    "chat of turns": completed({"messages": TURNS}),
    "chat with options": completed(
        chat(QUESTION, max_tokens=2, temperature=0.1, n=1, user="x"),
        chat(QUESTION, stop=["at"], dpicl={"fresh": True}),
    ),
    "chat of the public": completed(chat(QUESTION, model="public")),
    "chat stream": completed(
        chat(QUESTION, stream=True, stream_options={"include_usage": True}),
        chat(UNKNOWN, stream=True),
        chat("Hi!", stream=True),
    ),
    "chat stream of tokens": completed(
        chat(QUESTION, stream=True),
        table={"agreement": "off", "max_tokens": 6, "unsupported": "mark"},
    ),
    "chat refused": completed(
        chat("  "),
        chat(QUESTION, model="other"),
        chat(QUESTION, max_tokens=0),
        chat(QUESTION, n=2),
        {"messages": []},
        {"messages": [{"role": "wizard", "content": "x"}]},
        {"messages": "x"},
        {},
        chat("why " * 4000),
    ),
    "responses": responded({"input": QUESTION}, {"input": QUESTION}, {"input": "Hi!"}),
    "responses unsupported": served(
        ("POST", "/v1/responses", {"input": UNKNOWN}), table=NOTHING_NEAR
    ),
    "responses of turns": responded({"input": TURNS[1:], "instructions": "Be brief."}),
    "responses stream": responded({"input": QUESTION, "stream": True}),
    "responses refused": responded(
        {"input": ""}, {"input": QUESTION, "tools": [{"type": "x"}]}, {}
    ),
    "surveys": surveyed(COUNT, COUNT, TALLY, SURVEY, {**SURVEY, "question": "What opens?"}),
    "surveys sampled": surveyed(
        {**COUNT, "sample": 0.5},
        {**TALLY, "sample": 0.5, "most": 2},
        {**TALLY, "by": "vectors"},
        {**SURVEY, "sample": 0.5},
        {**COUNT, "fresh": True},
    ),
    "surveys fixed": surveyed(COUNT, TALLY, SURVEY, table={"accounting": "fixed", "epsilon": 2.0}),
    "surveys refused": surveyed(
        {"kind": "count"},
        {"kind": "mean"},
        {**TALLY, "labels": ["one"]},
        {**TALLY, "most": 3},
        {**COUNT, "sample": 0},
        {**COUNT, "epsilon": 9},
        {**COUNT, "model": "public"},
        {**SURVEY, "by": "model"},
    ),
    "prices": served(
        ("GET", "/v1/surveys?model=notes", None),
        ("GET", "/v1/surveys?model=public", None),
        ("GET", "/v1/budget", None),
        ("POST", "/v1/chat/completions", chat(QUESTION)),
        ("GET", "/v1/budget", None),
        ("GET", "/v1/memory", None),
        ("GET", "/v1/owner", None),
    ),
    "prices of settings": served(
        ("GET", "/v1/surveys?model=notes", None),
        ("GET", "/v1/budget", None),
        table={"epsilon": 2.0, "accounting": "fixed", "top_k": 5, "sentences": 2},
    ),
    "budgets": served(
        ("POST", "/v1/owner/budgets", '{"kind": "corpus", "name": "notes", "epsilon": 9.0}'),
        ("POST", "/v1/owner/budgets", '{"kind": "corpus", "name": "notes", "epsilon": null}'),
        ("POST", "/v1/owner/budgets", '{"kind": "corpus", "name": "notes", "epsilon": -1}'),
        ("POST", "/v1/owner/budgets", '{"kind": "caller", "name": "ann", "epsilon": 1}'),
        ("GET", "/v1/budget", None),
    ),
    "models": served(
        ("GET", "/v1/models", None),
        ("GET", "/v1/models/notes", None),
        ("GET", "/v1/models/other", None),
        ("GET", "/v1/caller", None),
        ("GET", "/health", None),
        ("GET", "/ready", None),
        ("GET", "/v1/nothing", None),
        ("PUT", "/v1/models", None),
        ("POST", "/v1/chat/completions", "{"),
        ("GET", "/v1/owner/job", None),
    ),
    "keys": with_keys,
    "hurry": hurried,
}


def _called(installed: Installation, name: str, given: tuple[dict[str, Any], ...]) -> list[Any]:
    table = NOTHING_NEAR if "unsupported" in name else {}
    found = called(installed.service(table), name.split()[0], *given)
    return [
        {
            "error": one.isError,
            "result": one.structuredContent or [part.text for part in one.content],
        }
        for one in found
    ]


CALLS: dict[str, tuple[dict[str, Any], ...]] = {
    "ask": tuple({"question": one} for one in (QUESTION, QUESTION, "Hi!")),
    "ask unsupported": ({"question": UNKNOWN},),
    "ask anew": ({"question": QUESTION}, {"question": QUESTION, "fresh": True}),
    "count": ({"question": "Is it about seven?"}, {"question": "Is it?", "sample": 0.5}),
    "tally": (
        {"question": "What?", "labels": LABELS},
        {"question": "What?", "labels": LABELS, "most": 2, "sample": 0.5},
        {"question": "What?", "labels": LABELS, "by": "vectors"},
    ),
    "survey": ({}, {"question": "What opens?", "sample": 0.5}),
    "budget": ({},),
    "ask refused": ({}, {"question": " "}, {"question": "x", "epsilon": 1}, {"corpus": "other"}),
    "tally refused": ({"question": "What?", "labels": ["one"]}, {"question": "What?"}),
    "nothing refused": ({},),
}


def tools_listed(installed: Installation) -> list[Any]:
    service = installed.service()
    found = Tools(service, Admission(ServerLimits())).listed(Caller(None))
    service.close()
    return [
        {
            "name": one.name,
            "title": one.title,
            "description": one.description,
            "annotations": one.annotations.model_dump(exclude_none=True),
            "arguments": schema_digests(one.inputSchema),
            "result": schema_digests(one.outputSchema or {}),
        }
        for one in found
    ]


TOOLS: dict[str, Case] = {
    "listed": tools_listed,
    **{name: lambda installed, name=name: _called(installed, name, CALLS[name]) for name in CALLS},
}

POOR: dict[str, Case] = {
    "chat": completed(chat(QUESTION), chat(QUESTION, stream=True), chat("Hi!")),
    "responses": responded({"input": QUESTION}, {"input": QUESTION, "stream": True}),
    "surveys": surveyed(COUNT, TALLY, SURVEY),
    "tools": lambda installed: [
        _called(installed, name, given) for name, given in CALLS.items() if "refused" not in name
    ],
}
"""Of a budget that pays for nothing."""


def schema_digests(schema: dict[str, Any]) -> dict[str, str]:
    """A digest of each field of a schema and of each part that it has."""
    parts = {"": schema, **schema.get("$defs", {})}
    return {
        f"{part}.{name}".strip("."): _digest(field)
        for part, one in parts.items()
        for name, field in one.get("properties", {"": one}).items()
    }


def openapi(installed: Installation) -> Any:
    """A digest of each operation, of each field of each part, and of what is beside fields."""
    with installed.client() as client:
        document = client.get("/openapi.json").json()
    found = {
        f"{way.upper()} {path}": _digest(operation)
        for path, ways in document["paths"].items()
        for way, operation in ways.items()
    }
    for part, schema in document["components"]["schemas"].items():
        found[part] = _digest({name: one for name, one in schema.items() if name != "properties"})
        found |= {
            f"{part}.{name}": _digest(one) for name, one in schema.get("properties", {}).items()
        }
    beside = {name: one for name, one in document.items() if name not in ("paths", "components")}
    return {"": _digest(beside), **found}


def _digest(one: Any) -> str:
    return f"{zlib.crc32(json.dumps(one, sort_keys=True).encode()):08x}"
