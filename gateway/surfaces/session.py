"""Sign-in and sign-out on the browser surface, a person's sessions, and their platform tokens.

These are not operations: they create and end the identity with which operations are called.
"""

from typing import Any, ClassVar

from django.middleware.csrf import get_token
from pydantic import Field
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import TypedDict

from core.call import Call
from core.errors import NotFound
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Id, Moment, as_record, example, load_body, load_query, parse_guid, render_timestamp
from gateway.surfaces.reading import read_query
from gateway.surfaces.views import ProgramViewSet, StrictRequest
from keys.authentication import LaxSessionAuthentication, SessionAuthentication, identify_session
from keys.sign_in import sessions
from keys.sign_in.sessions import stored_key_of


class SignIn(Body):
    """A name and a password, of a local account or of a person of the directory connection named."""

    model_config = example(username="ada", password="correct horse battery")  # noqa: S106 - an example

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


def _session_record(request: StrictRequest, call: Call) -> SessionRecord:
    user = as_record(SessionUser, call.person, permissions=sorted(call.permissions))
    return {"user": user, "csrfToken": get_token(request._request)}


class SessionViewSet(ProgramViewSet):
    """`/rest/session`."""

    resource = "session"
    answers: ClassVar = {
        "create": ("200", SessionRecord),
        "retrieve": ("200", SessionRecord),
        "destroy": ("204", None),
        "create_access_token": ("201", AccessTokenRecord),
    }
    bodies: ClassVar = {"create": SignIn}
    authentication_classes = (LaxSessionAuthentication,)

    def perform_authentication(self, request: Request) -> None:
        if self.action != "create":
            super().perform_authentication(request)

    def create(self, request: StrictRequest) -> Response:
        """Sign in with a local account, or as a person of a connected directory."""
        credentials = load_body(SignIn, request.data)
        sessions.sign_in(
            request._request,
            username=credentials.username,
            password=credentials.password,
            directory=credentials.directory,
            code=credentials.code,
        )
        # The session and its CSRF token are new, so this request cannot have sent the token.
        call = identify_session(request._request, check_csrf=False, may_lack_second_factor=True)
        return Response(_session_record(request, call))

    def retrieve(self, request: StrictRequest) -> Response:
        """Who is signed in."""
        return Response(_session_record(request, request.auth))

    def destroy(self, request: StrictRequest) -> Response:
        """Sign out: the session ends and its access tokens are revoked."""
        sessions.sign_out(request._request)
        return Response(status=204)

    def create_access_token(self, request: StrictRequest) -> Response:
        """Issue a short-lived platform token for tools run by hand, shown this once."""
        value, expires_at = sessions.issue_access_token(request._request, request.auth)
        record: AccessTokenRecord = {"accessToken": value, "expiresAt": render_timestamp(expires_at) or ""}
        return Response(record, status=201)


class SessionsViewSet(ProgramViewSet):
    """`/rest/sessions`."""

    resource = "sessions"
    answers: ClassVar = {
        "list": ("200", Page[PersonSessionRecord]),
        "destroy": ("204", None),
        "destroy_others": ("204", None),
    }
    bodies: ClassVar[dict[str, Any]] = {}
    authentication_classes = (SessionAuthentication,)

    def list(self, request: StrictRequest) -> Response:
        """List where you are signed in, the most recently used first."""
        query = load_query(PageQuery, read_query(request))
        own = stored_key_of(request._request)

        def render(session: Any) -> PersonSessionRecord:
            return as_record(PersonSessionRecord, session, current=session.session_key == own)

        found = sessions.sessions_of(request.auth.person.id)
        return Response(page_of(request.auth, found, query=query, order=("-last_seen_at", "id"), render=render))

    def destroy(self, request: StrictRequest, id: str) -> Response:
        """Sign out of one of your sessions: it ends and its access tokens are revoked."""
        session_id = parse_guid(id)
        if session_id is None:
            raise NotFound
        sessions.end(request._request, request.auth.person, session_id)
        return Response(status=204)

    def destroy_others(self, request: StrictRequest) -> Response:
        """Sign out everywhere else: all your sessions but this one end, and their access tokens are revoked."""
        sessions.end_others(request._request, request.auth.person)
        return Response(status=204)
