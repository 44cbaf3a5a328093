"""The SDK's own client of tools, at a running server."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification


@asynccontextmanager
async def a_session(url, key, **options):
    """A session of a key, and its identifier."""
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60, **options) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as (read, write, identifier),
        # Else it waits for ever for a server that was killed in a request.
        ClientSession(read, write, timedelta(seconds=60)) as session,
    ):
        await session.initialize()
        yield session, identifier()


async def cancel(session, request):
    """Tell the server that a request is not wanted any more."""
    params = CancelledNotificationParams(requestId=request, reason="enough")
    await session.send_notification(
        ClientNotification(CancelledNotification(method="notifications/cancelled", params=params))
    )


def said(result):
    """The one text of a result."""
    [content] = result.content
    return content.text


def found(result):
    """The fields of a result, which its text has too."""
    assert not result.isError, said(result)
    assert json.loads(said(result)) == result.structuredContent
    return result.structuredContent
