"""The address `/mcp`: HTTP on this side, one message of the Model Context Protocol on the other.

It is stateless: each POST brings one message with its credential and gets one JSON document, or 202 if no answer is
due. HTTP errors are problem details as everywhere, protocol errors are JSON-RPC errors, and the refusal of an operation
is the result of its tool.
"""

from typing import Any

from django.http import HttpRequest
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import Forbidden, GatewayError, InvalidRequest, MalformedRequest, MethodNotAllowed, NotAcceptable
from gateway.surfaces.agent.conversation import AgentConversation, RefusedConversation
from gateway.surfaces.views import ProgramView, StrictRequest
from keys.agents.availability import require_agents
from keys.agents.identification import identify_agent
from keys.agents.metadata import issuer_of
from keys.authentication import CallAuthentication


class _AgentAuthentication(CallAuthentication):
    identify = staticmethod(identify_agent)


@method_decorator(never_cache, "dispatch")
class AgentEndpoint(ProgramView):
    """Answers single messages of agents."""

    # Stateless, so there is neither a stream to open by GET nor a session to end by DELETE.
    http_method_names = ["post"]
    authentication_classes = (_AgentAuthentication,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        require_agents()
        if request.method != "POST":
            raise MethodNotAllowed
        origin = request.headers.get("Origin")
        # Against cross-site requests from a browser, also by DNS rebinding, as the protocol requires.
        if origin is not None and origin != issuer_of(request):
            raise Forbidden
        if _limit_refusal(request) is None:  # otherwise nobody is asked who they are
            super().initial(request, *args, **kwargs)

    def post(self, request: StrictRequest) -> Response:
        _require_json_wanted(request)
        # Importing the SDK takes a second and 40 MB, so only if agents are used.
        from gateway.surfaces.agent import protocol

        refusal = _limit_refusal(request)
        try:
            message = request.data
        except (MalformedRequest, InvalidRequest) as error:
            reply = protocol.refuse_unreadable(error.detail)
        else:
            headers = {name.lower(): value for name, value in request.headers.items()}
            if refusal is None:
                conversation = AgentConversation(request, request.auth)
            elif isinstance(message, dict) and message.get("method") == "tools/call":
                conversation = RefusedConversation(request, refusal)
            else:
                raise refusal
            reply = protocol.reply_to(message, headers, conversation)
            if conversation.challenge is not None:
                raise conversation.challenge
        return Response(reply.message, status=reply.status)


def _limit_refusal(request: Any) -> GatewayError | None:
    """The refusal by the limit of all requests, which the middleware leaves to this endpoint; None below the limit.

    Agents stop at an HTTP error, but read the result of a tool, which tells them when to go on.
    """
    refusal: GatewayError | None = getattr(request, "limit_refusal", None)
    return refusal


def _require_json_wanted(request: HttpRequest) -> None:
    """Raise NotAcceptable for a client that does not accept JSON, since every answer is JSON."""
    accepted = request.headers.get("Accept", "*/*").lower().split(",")
    wanted = {item.partition(";")[0].strip() for item in accepted}
    if not wanted & {"application/json", "application/*", "*/*"}:
        raise NotAcceptable
