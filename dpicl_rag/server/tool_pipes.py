"""The tools over standard input and output, for the program that started this one."""

from __future__ import annotations

from typing import TextIO

import anyio
from mcp.server.stdio import stdio_server

from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.catalogue import Catalogue
from dpicl_rag.server.limits import Limits
from dpicl_rag.server.tool_server import make_tool_server
from dpicl_rag.server.tool_visit import Visit
from dpicl_rag.server.tools import Tools

_NO_RATE = 10**9  # one caller, whose machine this is


async def serve_tools(catalogue: Catalogue, caller: Caller, output: TextIO) -> None:
    """Serve until standard input ends; then calls under way have ended, and all is closed.

    Args:
        catalogue: What is served. It is closed.
        caller: Whose budget pays, and whose memory it is.
        output: Where the protocol is written.
    """
    limits = Limits()
    most = limits.together + limits.waiting
    admission = Admission(Limits(each=most, a_minute=_NO_RATE))
    server = make_tool_server(Tools(catalogue, admission), lambda _: Visit(caller))
    try:
        async with stdio_server(stdout=anyio.wrap_file(output)) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # nobody reads any more
    finally:
        admission.drain()
        await admission.end(catalogue.close)
