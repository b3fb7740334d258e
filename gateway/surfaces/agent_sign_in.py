"""The OAuth endpoints that programs call: metadata, registration, tokens, revocation. None looks at a cookie.

Their refusals are OAuth's own (RFC 6749 section 5.2), which its clients know; what never reaches them is a problem.
Where a person decides is a page of the console.
"""

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import path
from oauthlib.oauth2 import InvalidRequestError, OAuth2Error
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import RateLimited, ServiceUnavailable
from gateway.surfaces.views import ProgramView
from keys.agents import metadata, registration
from keys.agents.extra import require_agents
from keys.agents.issuer_urls import ENDPOINT, RESOURCE_METADATA, SERVER_METADATA
from keys.agents.server import oauth, require_audience
from keys.sign_in.credentials import client_address

_FORM = "application/x-www-form-urlencoded"


class OAuthView(ProgramView):
    """An endpoint that answers to its one method while agents are switched on."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        require_agents()
        super().initial(request, *args, **kwargs)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, RateLimited | ServiceUnavailable):
            return _refusal("temporarily_unavailable", exc.detail, exc.status, exc.headers)
        if isinstance(exc, OAuth2Error):
            return _refusal(exc.error or "", exc.description or "")
        return super().handle_exception(exc)


class Metadata(OAuthView):
    """RFC 9728: which server issues tokens for the agent endpoint; RFC 8414: the endpoints of that server.

    They are no secret: pages of any origin may read them, as agents in browsers do.
    """

    http_method_names = ["get"]
    document: Any = None

    def get(self, request: Request) -> Response:
        return _json(self.document(request), 200, {"Access-Control-Allow-Origin": "*"})


class Register(OAuthView):
    """RFC 7591: a program makes itself known."""

    http_method_names = ["post"]

    def post(self, request: Request) -> Response:
        try:
            given = json.loads(request.body)
            if not isinstance(given, dict):
                raise TypeError
        except (ValueError, TypeError, RecursionError):
            return _refusal("invalid_client_metadata", "The body must be a JSON object.")
        try:
            client = registration.register(given, address=client_address(request))
        except registration.RegistrationClosed:
            return _refusal("access_denied", "Clients are made by an administrator of this gateway.", 403)
        except registration.BadMetadata as bad:
            return _refusal(bad.error, bad.description)
        return _json(
            {
                "client_id": client.client_id,
                "client_id_issued_at": int(client.created.timestamp()),
                "client_name": client.name,
                "redirect_uris": client.redirect_uris.split(),
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            },
            201,
        )


class Form(OAuthView):
    """RFC 6749: tokens for a code or for a refresh token; RFC 7009: an agent gives back what it was let do.

    What could be read in more than one way is refused: parameters elsewhere than in the form, or twice in it.
    """

    http_method_names = ["post"]
    respond: Any = None

    def post(self, request: Request) -> HttpResponseBase:
        form = request._request
        if form.content_type != _FORM or form.GET:
            raise InvalidRequestError(f"Send the parameters as {_FORM}, and none in the address.")
        if any(len(values) > 1 and name != "resource" for name, values in form.POST.lists()):
            raise InvalidRequestError("A parameter is repeated.")
        _, headers, body, status = self.respond(form)
        return _of_server(headers, body, status)


def _issue(form: HttpRequest) -> Any:
    require_audience(form, form.POST.getlist("resource"))
    return oauth().create_token_response(form)


def _revoke(form: HttpRequest) -> Any:
    return oauth().create_revocation_response(form)


def _of_server(headers: Any, body: str | None, status: int) -> HttpResponse:
    response = HttpResponse(body or "", status=status, content_type="application/json")
    # A challenge would name a way to authenticate that there is not: clients have no secrets.
    for name, value in (headers or {}).items():
        if name.lower() != "www-authenticate":
            response[name] = value
    return response


def _refusal(error: str, description: str, status: int = 400, headers: Mapping[str, str] = {}) -> Response:
    return _json({"error": error, "error_description": description}, status, headers)


def _json(body: dict[str, Any], status: int, headers: Mapping[str, str] = {}) -> Response:
    return Response(body, status=status, headers={"Cache-Control": "no-store", **headers})


urls = [
    # Clients ask with the path of the endpoint behind the well-known one, and without.
    *(
        path(f"{place}{suffix}".lstrip("/"), Metadata.as_view(document=document), name="oauth-metadata")
        for suffix in (ENDPOINT, "")
        for place, document in (
            (RESOURCE_METADATA, metadata.resource_metadata),
            (SERVER_METADATA, metadata.server_metadata),
        )
    ),
    path(metadata.REGISTER.lstrip("/"), Register.as_view(), name="oauth-register"),
    path(metadata.TOKEN.lstrip("/"), Form.as_view(respond=_issue), name="oauth-token"),
    path(metadata.REVOKE.lstrip("/"), Form.as_view(respond=_revoke), name="oauth-revoke"),
]
