"""A service behind its endpoints and its tools, without a port: one call, and it is closed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi.testclient import TestClient
from httpx import Response
from mcp.types import CallToolResult

from dpicl_rag.server.admission import Admission, ServerLimits
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.app import create_app
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.service import Service
from dpicl_rag.server.tools import ToolCall, Tools


def posted(service: Service, path: str, *bodies: dict[str, Any]) -> list[Response]:
    """The responses to some bodies, one after the other, by the corpus ``notes``."""
    app = create_app(service)
    headers = {"Authorization": f"Bearer {app.state.parts.run_key.text}"}
    headers["Content-Type"] = "application/json"
    with TestClient(app, headers=headers, raise_server_exceptions=False) as client:
        asked = [json.dumps({"model": "notes", **body}) for body in bodies]
        return [client.post(path, content=one) for one in asked]


def chat(question: str, **more: Any) -> dict[str, Any]:
    """The body of a question to ``/v1/chat/completions``."""
    return {"messages": [{"role": "user", "content": question}], **more}


def events(response: Response) -> list[dict[str, Any]]:
    """What a stream of server-sent events says."""
    data = [line.removeprefix("data: ") for line in response.text.splitlines() if "data: " in line]
    return [json.loads(one) for one in data if one != "[DONE]"]


def called(service: Service, name: str, *given: dict[str, Any]) -> list[CallToolResult]:
    """The results of some calls of a tool, one after the other, of the corpus ``notes``."""

    async def tell(part: float) -> None:
        """Nobody listens."""

    async def call() -> list[CallToolResult]:
        admission, found = Admission(ServerLimits()), []
        for arguments in given:
            visit = ToolCall(Caller(None), Exchange(), tell)
            tools = Tools(service, admission)
            found.append(await tools.called(visit, name, {"corpus": "notes", **arguments}))
        await admission.end(service.close)
        return found

    return asyncio.run(call())
