"""The address `/mcp`: HTTP on this side, one message of the Model Context Protocol on the other.

Stateless: each POST brings one message with its credential and gets one JSON document, or 202 when there is nothing to
say. Errors of HTTP are problem details as everywhere, those of the protocol JSON-RPC errors, and what an operation
refuses is the answer of its tool.
"""

from typing import TYPE_CHECKING

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from pydantic_core import to_json

from core.errors import Forbidden, InvalidRequest, MalformedRequest, MethodNotAllowed, NotAcceptable
from gateway.surfaces.problems import problem_response
from gateway.surfaces.reading import read_document
from keys.agents.extra import require_agents
from keys.agents.identification import identify_agent
from keys.agents.issuer_urls import issuer_of

if TYPE_CHECKING:
    from gateway.surfaces.agent.protocol import Reply


@never_cache
@csrf_exempt  # a cookie is no credential here
def agent_endpoint(request: HttpRequest) -> HttpResponse:
    """Answer one message of an agent."""
    require_agents()
    if request.method != "POST":  # nothing is kept between messages: there is no stream to open, and no session to end
        refusal = problem_response(request, MethodNotAllowed())
        refusal["Allow"] = "POST"
        return refusal
    _require_own_origin(request)
    call = identify_agent(request)
    _require_json_wanted(request)
    # The SDK takes a second and 40 MB to import, which nobody pays who lets no agents in.
    from gateway.surfaces.agent import protocol
    from gateway.surfaces.agent.conversation import AgentConversation

    try:
        message = read_document(request)
    except (MalformedRequest, InvalidRequest) as error:
        return _render(protocol.refuse_unreadable(error.detail))
    conversation = AgentConversation(request, call)
    headers = {name.lower(): value for name, value in request.headers.items()}
    reply = protocol.reply_to(message, headers, conversation)
    if conversation.limited is not None:
        raise conversation.limited
    return _render(reply)


def _require_own_origin(request: HttpRequest) -> None:
    """Refuse what another site's page makes a browser send, also under a name that it has made lead here."""
    origin = request.headers.get("Origin")
    if origin is not None and origin != issuer_of(request):
        raise Forbidden


def _require_json_wanted(request: HttpRequest) -> None:
    """Refuse a client that would not take the JSON document which every answer is. Raises NotAcceptable."""
    accepted = request.headers.get("Accept", "*/*").lower().split(",")
    wanted = {item.partition(";")[0].strip() for item in accepted}
    if not wanted & {"application/json", "application/*", "*/*"}:
        raise NotAcceptable


def _render(reply: "Reply") -> HttpResponse:
    if reply.message is None:
        response = HttpResponse(status=reply.status)
        del response["Content-Type"]
        return response
    return HttpResponse(to_json(reply.message), status=reply.status, content_type="application/json")
