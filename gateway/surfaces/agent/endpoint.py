"""The address `/mcp`: HTTP on this side, one message of the Model Context Protocol on the other.

Stateless: each POST brings one message with its credential and gets one JSON document, or 202 when there is nothing to
say. Errors of HTTP are problem details as everywhere, those of the protocol JSON-RPC errors, and what an operation
refuses is the answer of its tool.
"""

from typing import Any

from django.http import HttpRequest
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response

from core.call import Call, PersonRef
from core.errors import Forbidden, InvalidRequest, MalformedRequest, MethodNotAllowed, NotAcceptable
from gateway.surfaces.agent.conversation import AgentConversation
from gateway.surfaces.views import ProgramView, StrictRequest
from keys.agents.extra import require_agents
from keys.agents.identification import identify_agent
from keys.agents.issuer_urls import issuer_of


class _AgentAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[PersonRef, Call]:
        call = identify_agent(request._request)
        return call.person, call


@method_decorator(never_cache, "dispatch")
class AgentEndpoint(ProgramView):
    """Answers one message of an agent."""

    # Nothing is kept between messages: there is no stream to open, and no session to end.
    http_method_names = ["post"]
    authentication_classes = (_AgentAuthentication,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        require_agents()
        if request.method != "POST":
            raise MethodNotAllowed
        origin = request.headers.get("Origin")
        # Another site's page may make a browser send something, also under a name that it has made lead here.
        if origin is not None and origin != issuer_of(request):
            raise Forbidden
        super().initial(request, *args, **kwargs)

    def post(self, request: StrictRequest) -> Response:
        _require_json_wanted(request)
        # The SDK takes a second and 40 MB to import, which nobody pays who lets no agents in.
        from gateway.surfaces.agent import protocol

        conversation = AgentConversation(request, request.auth)
        try:
            message = request.data
        except (MalformedRequest, InvalidRequest) as error:
            reply = protocol.refuse_unreadable(error.detail)
        else:
            headers = {name.lower(): value for name, value in request.headers.items()}
            reply = protocol.reply_to(message, headers, conversation)
        if conversation.limited is not None:
            raise conversation.limited
        return Response(reply.message, status=reply.status)


def _require_json_wanted(request: HttpRequest) -> None:
    """Refuse a client that would not take the JSON document which every answer is. Raises NotAcceptable."""
    accepted = request.headers.get("Accept", "*/*").lower().split(",")
    wanted = {item.partition(";")[0].strip() for item in accepted}
    if not wanted & {"application/json", "application/*", "*/*"}:
        raise NotAcceptable
