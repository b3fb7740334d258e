"""The OAuth endpoints that programs call: metadata, registration, tokens, revocation. They ignore cookies.

Their refusals are OAuth's own (RFC 6749 section 5.2), as its clients expect; what is refused before them is a problem.
The authorization endpoint, where a person decides, is a page of the console.
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
from keys.agents import clients, metadata
from keys.agents.availability import require_agents
from keys.agents.metadata import ENDPOINT, RESOURCE_METADATA, SERVER_METADATA
from keys.agents.server import oauth, require_audience
from keys.callers import client_address

_FORM = "application/x-www-form-urlencoded"


class OAuthView(ProgramView):
    """An endpoint that exists only while agents are enabled."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        require_agents()
        super().initial(request, *args, **kwargs)

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, RateLimited | ServiceUnavailable):
            return _refusal("temporarily_unavailable", exc.detail, exc.status, exc.headers)
        if isinstance(exc, OAuth2Error):
            return _refusal(exc.error or "", exc.description or "")
        return super().handle_exception(exc)


class MetadataView(OAuthView):
    """Protected resource metadata (RFC 9728) and authorization server metadata (RFC 8414).

    They are public, and pages of any origin may read them, since agents may run in browsers.
    """

    http_method_names = ["get"]
    document: Any = None

    def get(self, request: Request) -> Response:
        return _json(self.document(request), 200, {"Access-Control-Allow-Origin": "*"})


class RegistrationView(OAuthView):
    """Dynamic client registration (RFC 7591)."""

    http_method_names = ["post"]

    def post(self, request: Request) -> Response:
        try:
            metadata_sent = json.loads(request.body)
            if not isinstance(metadata_sent, dict):
                raise TypeError
        except (ValueError, TypeError, RecursionError):
            return _refusal("invalid_client_metadata", "The body must be a JSON object.")
        try:
            client = clients.register(metadata_sent, address=client_address(request))
        except clients.RegistrationClosed:
            return _refusal("access_denied", "Clients are made by an administrator of this gateway.", 403)
        except clients.BadMetadata as bad:
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


class FormView(OAuthView):
    """The token endpoint (RFC 6749) and token revocation (RFC 7009).

    Ambiguous requests are refused: parameters outside of the form, or repeated in it.
    """

    http_method_names = ["post"]
    respond: Any = None

    def post(self, request: Request) -> HttpResponseBase:
        form = request._request
        if form.content_type != _FORM or str(form.encoding or "utf-8").lower() != "utf-8" or form.GET:
            raise InvalidRequestError(f"Send the parameters as {_FORM}, and none in the address.")
        if any(len(values) > 1 and name != "resource" for name, values in form.POST.lists()):
            raise InvalidRequestError("A parameter is repeated.")
        _, headers, body, status = self.respond(form)
        return _server_response(headers, body, status)


def _issue(form: HttpRequest) -> Any:
    require_audience(form, form.POST.getlist("resource"))
    return oauth().create_token_response(form)


def _server_response(headers: Any, body: str | None, status: int) -> HttpResponse:
    response = HttpResponse(body or "", status=status, content_type="application/json")
    # A challenge would offer client authentication, but our clients are public and have no secrets.
    for name, value in (headers or {}).items():
        if name.lower() != "www-authenticate":
            response[name] = value
    return response


def _refusal(error: str, description: str, status: int = 400, headers: Mapping[str, str] = {}) -> Response:
    return _json({"error": error, "error_description": description}, status, headers)


def _json(body: dict[str, Any], status: int, headers: Mapping[str, str] = {}) -> Response:
    return Response(body, status=status, headers={"Cache-Control": "no-store", **headers})


urls = [
    # Clients append the endpoint's path to the well-known one (RFC 8414 section 3.1), or do not.
    *(
        path(f"{well_known}{suffix}".lstrip("/"), MetadataView.as_view(document=document), name="oauth-metadata")
        for suffix in (ENDPOINT, "")
        for well_known, document in (
            (RESOURCE_METADATA, metadata.resource_metadata),
            (SERVER_METADATA, metadata.server_metadata),
        )
    ),
    path(metadata.REGISTER.lstrip("/"), RegistrationView.as_view(), name="oauth-register"),
    path(metadata.TOKEN.lstrip("/"), FormView.as_view(respond=_issue), name="oauth-token"),
    path(
        metadata.REVOKE.lstrip("/"),
        FormView.as_view(respond=lambda form: oauth().create_revocation_response(form)),
        name="oauth-revoke",
    ),
]
