"""Tools for agents at ``/mcp``: the Model Context Protocol over streamable HTTP."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.services import Asking, Using

router = APIRouter(include_in_schema=False)  # the protocol describes itself


# No GET: the server has nothing to say between calls.
@router.api_route("/mcp", methods=["POST", "DELETE"], response_class=Response)
async def tools(request: Request, services: Using, caller: Asking) -> Response:
    """One message of a client, or the end of its session."""
    origin = request.headers.get("origin", "")
    # What a page on the web sends, also one under a name that leads here (DNS rebinding).
    if origin.startswith(("http:", "https:")) or origin == "null":
        raise Refusal(403, "pages of a browser may not call tools; use a client of MCP")
    return services.tool_sessions.response(caller)
