"""Signing in and out of the browser surface, and the platform token of a signed-in person.

These are no operations: they make and end the identity that operations are called with.
"""

from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from pydantic import ConfigDict, Field
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet
from typing_extensions import TypedDict

from gateway.core.shapes import Body, load_body, render_timestamp
from gateway.surfaces.openapi import SessionSchema
from gateway.surfaces.reading import read_document
from gateway.surfaces.viewsets import JsonOnly
from keys import sessions
from keys.authentication import identify_session


class SignIn(Body):
    """A name and a password, of a local account or of a person of the directory connection named."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"username": "ada", "password": "correct horse battery"}]}
    )

    username: str = Field(min_length=1, max_length=256)
    password: str = Field(max_length=1024)
    directory: str | None = Field(None, max_length=128)


class SessionUser(TypedDict):
    username: str
    displayName: str
    permissions: list[str]


class SessionRecord(TypedDict):
    user: SessionUser
    csrfToken: str


class AccessTokenRecord(TypedDict):
    accessToken: str
    expiresAt: str


def _session_record(request: HttpRequest, person: Any, permissions: frozenset[str]) -> SessionRecord:
    user: SessionUser = {
        "username": person.username,
        "displayName": person.display_name,
        "permissions": sorted(permissions),
    }
    return {"user": user, "csrfToken": get_token(request)}


class SessionViewSet(ViewSet):
    """`/rest/session`."""

    content_negotiation_class = JsonOnly
    schema = SessionSchema()

    def create(self, request: Request) -> HttpResponse:
        """Sign in with a local account, or as a person of a connected directory."""
        raw = request._request
        given = load_body(SignIn, read_document(raw))
        sessions.sign_in(raw, username=given.username, password=given.password, directory=given.directory)
        # The session is new and so is its CSRF token: identify reads what the next request will see.
        call = identify_session(raw, check_csrf=False)
        return JsonResponse(_session_record(raw, call.person, call.permissions))

    def retrieve(self, request: Request) -> HttpResponse:
        """Who is signed in."""
        raw = request._request
        call = identify_session(raw)
        return JsonResponse(_session_record(raw, call.person, call.permissions))

    def destroy(self, request: Request) -> HttpResponse:
        """Sign out: the session ends and its access tokens are revoked."""
        raw = request._request
        identify_session(raw)
        sessions.sign_out(raw)
        return HttpResponse(status=204)

    def create_access_token(self, request: Request) -> HttpResponse:
        """Issue a short-lived platform token for tools run by hand, shown this once."""
        raw = request._request
        call = identify_session(raw)
        value: str
        expires_at: datetime
        value, expires_at = sessions.issue_access_token(raw, call)
        record: AccessTokenRecord = {"accessToken": value, "expiresAt": render_timestamp(expires_at) or ""}
        return JsonResponse(record, status=201)
