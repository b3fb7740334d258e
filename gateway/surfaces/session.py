"""Signing in and out of the browser surface, the sessions of a person and their platform token.

These are no operations: they make and end the identity that operations are called with.
"""

from datetime import datetime
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import get_token
from pydantic import ConfigDict, Field
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet
from typing_extensions import TypedDict

from core.errors import NotFound
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Id, Moment, load_body, load_query, parse_guid, render_timestamp
from gateway.surfaces.openapi.on_demand import SchemaOnDemand
from gateway.surfaces.reading import read_document, read_query
from gateway.surfaces.viewsets import JsonOnly, OperationViewSet
from keys.authentication import identify_session
from keys.sign_in import sessions
from keys.sign_in.session_store import stored_key_of


class SignIn(Body):
    """A name and a password, of a local account or of a person of the directory connection named."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"username": "ada", "password": "correct horse battery"}]}
    )

    username: str = Field(min_length=1, max_length=256)
    password: str = Field(max_length=1024)
    directory: str | None = Field(None, max_length=128)
    code: str | None = Field(
        None, max_length=64, description="Of the authenticator, or a recovery code, where the person has set one up."
    )


class SessionUser(TypedDict):
    username: str
    displayName: str
    permissions: list[str]


class SessionRecord(TypedDict):
    user: SessionUser
    csrfToken: str


class PersonSessionRecord(TypedDict):
    """Where the person is signed in. `address` and `userAgent` are those last seen; `current` is this very session."""

    id: Id
    current: bool
    startedAt: Moment | None
    lastSeenAt: Moment | None
    expiresAt: Moment | None
    address: str
    userAgent: str


class AccessTokenRecord(TypedDict):
    accessToken: str
    expiresAt: Moment


def _session_record(request: HttpRequest, person: Any, permissions: frozenset[str]) -> SessionRecord:
    user: SessionUser = {
        "username": person.username,
        "displayName": person.display_name,
        "permissions": sorted(permissions),
    }
    return {"user": user, "csrfToken": get_token(request)}


class SessionViewSet(ViewSet):
    """`/rest/session`."""

    resource = "session"
    answers: ClassVar = {
        "create": ("200", SessionRecord),
        "retrieve": ("200", SessionRecord),
        "destroy": ("204", None),
        "create_access_token": ("201", AccessTokenRecord),
    }
    bodies: ClassVar = {"create": SignIn}
    http_method_names = OperationViewSet.http_method_names
    content_negotiation_class = JsonOnly
    schema = SchemaOnDemand("sessions.SessionSchema")

    def create(self, request: Request) -> HttpResponse:
        """Sign in with a local account, or as a person of a connected directory."""
        raw = request._request
        given = load_body(SignIn, read_document(raw))
        sessions.sign_in(
            raw, username=given.username, password=given.password, directory=given.directory, code=given.code
        )
        # The session is new and so is its CSRF token: identify reads what the next request will see.
        call = identify_session(raw, check_csrf=False, may_lack_second_factor=True)
        return JsonResponse(_session_record(raw, call.person, call.permissions))

    def retrieve(self, request: Request) -> HttpResponse:
        """Who is signed in."""
        raw = request._request
        call = identify_session(raw, may_lack_second_factor=True)
        return JsonResponse(_session_record(raw, call.person, call.permissions))

    def destroy(self, request: Request) -> HttpResponse:
        """Sign out: the session ends and its access tokens are revoked."""
        raw = request._request
        identify_session(raw, may_lack_second_factor=True)
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


class SessionsViewSet(ViewSet):
    """`/rest/sessions`."""

    resource = "sessions"
    answers: ClassVar = {
        "list": ("200", Page[PersonSessionRecord]),
        "destroy": ("204", None),
        "destroy_others": ("204", None),
    }
    bodies: ClassVar[dict[str, Any]] = {}
    http_method_names = OperationViewSet.http_method_names
    content_negotiation_class = JsonOnly
    schema = SchemaOnDemand("sessions.SessionSchema")

    def list(self, request: Request) -> HttpResponse:
        """List where you are signed in, the most recently used first."""
        raw = request._request
        call = identify_session(raw)
        query = load_query(PageQuery, read_query(raw))
        own = stored_key_of(raw)

        def render(session: Any) -> PersonSessionRecord:
            return {
                "id": str(session.id),
                "current": session.session_key == own,
                "startedAt": render_timestamp(session.started_at),
                "lastSeenAt": render_timestamp(session.last_seen_at),
                "expiresAt": render_timestamp(session.expires_at),
                "address": session.address,
                "userAgent": session.user_agent,
            }

        found = sessions.sessions_of(call.person.id)
        return JsonResponse(page_of(call, found, query=query, order=("-last_seen_at", "id"), render=render))

    def destroy(self, request: Request, id: str) -> HttpResponse:
        """Sign out of one of your sessions: it ends and its access tokens are revoked."""
        raw = request._request
        call = identify_session(raw)
        session_id = parse_guid(id)
        if session_id is None:
            raise NotFound
        sessions.end(raw, call.person, session_id)
        return HttpResponse(status=204)

    def destroy_others(self, request: Request) -> HttpResponse:
        """Sign out everywhere else: all your sessions but this one end, and their access tokens are revoked."""
        raw = request._request
        call = identify_session(raw)
        sessions.end_others(raw, call.person)
        return HttpResponse(status=204)
