"""The OAuth endpoints that programs call: metadata, registration, tokens, revocation. None looks at a cookie.

Their refusals are OAuth's own (RFC 6749 section 5.2), which its clients know; what never reaches them is a problem.
Where a person decides is a page of the console.
"""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from oauthlib.oauth2 import OAuth2Error

from core.errors import GatewayError, MethodNotAllowed, RateLimited, ServiceUnavailable
from gateway.surfaces.problems import error_of, problem_response
from keys.agents import metadata, registration
from keys.agents.extra import require_agents
from keys.agents.issuer_urls import ENDPOINT, RESOURCE_METADATA, SERVER_METADATA
from keys.agents.server import oauth, require_audience
from keys.sign_in.credentials import client_address

_FORM = "application/x-www-form-urlencoded"
_Respond = Callable[[HttpRequest], HttpResponse]


def _endpoint(method: str) -> Callable[[_Respond], _Respond]:
    """Make a function an endpoint that answers to one method while agents are switched on."""

    def decorate(respond: _Respond) -> _Respond:
        @wraps(respond)
        def view(request: HttpRequest) -> HttpResponse:
            try:
                require_agents()
                if request.method != method:
                    raise MethodNotAllowed(headers={"Allow": method})
                return respond(request)
            except (RateLimited, ServiceUnavailable) as busy:
                return _refusal("temporarily_unavailable", busy.detail, busy.status, dict(busy.headers))
            except GatewayError as error:
                return problem_response(request, error)
            except Exception as error:  # noqa: BLE001 - the problem handler of these endpoints
                return problem_response(request, error_of(error))

        return csrf_exempt(view)

    return decorate


@_endpoint("GET")
def resource_metadata(request: HttpRequest) -> HttpResponse:
    """RFC 9728: which server issues tokens for the agent endpoint."""
    return _public(metadata.resource_metadata(request))


@_endpoint("GET")
def server_metadata(request: HttpRequest) -> HttpResponse:
    """RFC 8414: the endpoints of that server."""
    return _public(metadata.server_metadata(request))


@_endpoint("POST")
def register(request: HttpRequest) -> HttpResponse:
    """RFC 7591: a program makes itself known."""
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


@_endpoint("POST")
def token(request: HttpRequest) -> HttpResponse:
    """RFC 6749: tokens for a code or for a refresh token."""
    if refusal := _unreadable(request):
        return refusal
    try:
        require_audience(request, request.POST.getlist("resource"))
    except OAuth2Error as error:
        return _refusal(error.error or "", error.description or "")
    _, headers, body, status = oauth().create_token_response(request)
    return _of_server(headers, body, status)


@_endpoint("POST")
def revoke(request: HttpRequest) -> HttpResponse:
    """RFC 7009: an agent gives back what it was let do."""
    if refusal := _unreadable(request):
        return refusal
    _, headers, body, status = oauth().create_revocation_response(request)
    return _of_server(headers, body, status)


def _unreadable(request: HttpRequest) -> HttpResponse | None:
    """Refuse what could be read in more than one way: parameters elsewhere than in the form, or twice in it."""
    if request.content_type != _FORM or request.GET:
        return _refusal("invalid_request", f"Send the parameters as {_FORM}, and none in the address.")
    twice = [name for name, values in request.POST.lists() if len(values) > 1 and name != "resource"]
    if twice:
        return _refusal("invalid_request", "A parameter is repeated.")
    return None


def _of_server(headers: Any, body: str | None, status: int) -> HttpResponse:
    response = HttpResponse(body or "", status=status, content_type="application/json")
    # A challenge would name a way to authenticate that there is not: clients have no secrets.
    for name, value in (headers or {}).items():
        if name.lower() != "www-authenticate":
            response[name] = value
    return response


def _refusal(error: str, description: str, status: int = 400, headers: dict[str, str] | None = None) -> HttpResponse:
    return _json({"error": error, "error_description": description}, status, headers)


def _json(body: dict[str, Any], status: int, headers: dict[str, str] | None = None) -> HttpResponse:
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store", **(headers or {})})


def _public(body: dict[str, Any]) -> HttpResponse:
    """Metadata are no secret: pages of any origin may read them, as agents in browsers do."""
    return _json(body, 200, {"Access-Control-Allow-Origin": "*"})


urls = [
    # Clients ask with the path of the endpoint behind the well-known one, and without.
    *(
        path(f"{place}{suffix}".lstrip("/"), view)
        for suffix in (ENDPOINT, "")
        for place, view in ((RESOURCE_METADATA, resource_metadata), (SERVER_METADATA, server_metadata))
    ),
    path(metadata.REGISTER.lstrip("/"), register),
    path(metadata.TOKEN.lstrip("/"), token),
    path(metadata.REVOKE.lstrip("/"), revoke),
]
