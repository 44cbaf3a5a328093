"""The tools over standard input and output, for the program that started this one."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TextIO

import anyio
from mcp.server.stdio import stdio_server

from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.catalogue import Catalogue
from dpicl_rag.server.limits import ServerLimits
from dpicl_rag.server.one_task import one_task
from dpicl_rag.server.regular_syncs import RegularSyncs
from dpicl_rag.server.tool_server import make_tool_server
from dpicl_rag.server.tool_visit import Visit
from dpicl_rag.server.tools import Tools

_NO_RATE = 10**9  # one caller, whose machine this is


async def serve_tools(
    catalogue: Catalogue, caller: Caller, output: TextIO, syncs: RegularSyncs | None = None
) -> None:
    """Serve until standard input ends; then calls under way have ended, and all is closed.

    Args:
        catalogue: What is served. It is closed.
        caller: Whose budget pays, and whose memory it is.
        output: Where the protocol is written.
        syncs: Bring the corpora up to date; None leaves that to others.
    """
    limits = ServerLimits()
    most = limits.together + limits.waiting
    admission = Admission(ServerLimits(each=most, a_minute=_NO_RATE))
    server = make_tool_server(Tools(catalogue, admission), lambda _: Visit(caller))
    try:
        async with AsyncExitStack() as stack:
            if syncs is not None:
                await stack.enter_async_context(one_task(syncs.run(catalogue)))
            pipes = stdio_server(stdout=anyio.wrap_file(output))
            read, write = await stack.enter_async_context(pipes)
            await server.run(read, write, server.create_initialization_options())
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # nobody reads any more
    finally:
        admission.drain()
        await admission.end(catalogue.close)
