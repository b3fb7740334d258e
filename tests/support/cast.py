"""The fixed small cast of the tests: a connection, people, roles and keys, made straight in the database."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, Permission
from django.core.handlers.wsgi import WSGIRequest
from django.db import connection as database
from django.http.response import HttpResponse, ResponseHeaders
from django.test import Client
from django.test.client import ClientHandler
from django.utils.crypto import get_random_string

from core.call import SupervisionLevel
from directory.lookup import connection as connections
from directory.models import DirectoryConnection
from gateway.server.straight import StraightWay
from keys import credential_values
from keys.models import ApiKey, Link, Person, PersonSession, Role
from keys.models.people import GroupScopes
from keys.sign_in.sessions import SessionBackend, SessionStore, stored_key
from lab.directory import random_name
from lab.domain import Domain

PASSWORD = "correct horse battery"


def permissions(names: Iterable[str]) -> list[Permission]:
    """Permissions by `app.codename`; one that does not exist is an error of the test."""
    known = _permissions()
    return [known[name] for name in names]


@cache
def _permissions() -> dict[str, Permission]:
    """They come with the migrations and stay: see `tests.support.database`."""
    found = Permission.objects.select_related("content_type")
    return {f"{item.content_type.app_label}.{item.codename}": item for item in found}


@cache
def all_permissions() -> tuple[str, ...]:
    """Every permission that a role may grant."""
    from keys.permission_catalogue import grantable_condition

    granted = Permission.objects.filter(grantable_condition()).select_related("content_type")
    return tuple(sorted(f"{item.content_type.app_label}.{item.codename}" for item in granted))


def make_connection(domain: Domain, *, url: str | None = None, **fields: Any) -> DirectoryConnection:
    """A connection to the tests' domain, or through a proxy's URL. This process knows of it at once."""
    connections.forget_known_connections()
    return DirectoryConnection.objects.create(
        **{
            "name": random_name("corp"),
            "urls": [url or domain.url],
            "base_dn": domain.base_dn,
            "bind_dn": domain.bind_dn,
            "bind_password": domain.bind_password,
            "ca_certificate": domain.ca_pem,
            **fields,
        }
    )


def make_person(username: str | None = None, *, may: Iterable[str] = (), superuser: bool = False) -> Person:
    """A local account."""
    person = Person(username=username or random_name("person"), is_superuser=superuser, is_staff=superuser)
    person.password = _hashed_password()
    person.save()
    _grant(person.user_permissions, may)
    return person


def _grant(relation: Any, names: Iterable[str]) -> None:
    """Give permissions to somebody new, in one statement: most tests make a person and a role with all there are."""
    if not (granted := permissions(names)):
        return
    table, owner = relation.through._meta, relation.instance
    columns = [table.get_field(name).column for name in (relation.source_field_name, relation.target_field_name)]
    names_of_table = [database.ops.quote_name(name) for name in (table.db_table, *columns)]
    ids = ", ".join(str(permission.pk) for permission in granted)
    statement = "INSERT INTO {} ({}, {}) SELECT %s, id FROM auth_permission WHERE id IN ({})"
    with database.cursor() as cursor:
        cursor.execute(statement.format(*names_of_table, ids), [owner._meta.pk.get_db_prep_value(owner.pk, database)])


@cache
def _hashed_password() -> str:
    """Everybody's: what makes a hash strong would make each test slow."""
    return make_password(PASSWORD)


@dataclass
class Answer:
    """A response, its JSON read."""

    status: int
    body: Any
    headers: Any = field(repr=False)

    @property
    def code(self) -> str | None:
        return self.body.get("code") if isinstance(self.body, dict) else None


@dataclass
class Integration:
    """A key with its value, and a way to call the machine surface with it."""

    key: ApiKey
    value: str
    client_id: str | None
    client: Client = field(default_factory=lambda: FrontDoor(), repr=False)  # noqa: PLW0108 - defined below
    header: str = "X-API-Key"

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Call `/api` + path (or the path as it is when it begins with another prefix)."""
        return send(self.client, method, path, body, **{self.header: self.value, **headers})

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("POST", path, body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Answer:
        return self.call("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Answer:
        return self.call("DELETE", path, **headers)


class _StraightFirst(ClientHandler):
    """Django's handler of requests, behind the straight way as in the web server."""

    _straight_way: StraightWay | None = None

    def __call__(self, environ: dict[str, Any]) -> Any:
        self._straight_way = self._straight_way or StraightWay()  # with the first request, as Django's middleware
        straight = self._straight_way.answer(environ)
        if straight is None:
            return super().__call__(environ)
        status, headers, body = straight
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        response: Any = HttpResponse(body, status=status)
        response.headers = ResponseHeaders(named)
        response.wsgi_request = WSGIRequest(environ)
        return response


class FrontDoor(Client):
    """A client whose requests go the way that the web server sends them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.handler = _StraightFirst(self.handler.enforce_csrf_checks)


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """One request; a body that is no text or octets is sent as JSON."""
    content: Any = b""
    if body is not None:
        content = body if isinstance(body, bytes | str) else json.dumps(body)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    response = client.generic(
        method, path, content, content_type="application/json" if body is not None else "", headers=names
    )
    is_json = "json" in response.headers.get("Content-Type", "")
    return Answer(response.status_code, json.loads(response.content) if is_json else response.content, response.headers)


def as_scopes(guids: Iterable[UUID], connection: DirectoryConnection | None = None) -> list[dict[str, Any]]:
    """What a role, a person or a group keeps of what they are confined to."""
    directory = str(connection.id) if connection else None
    return [{"guid": str(guid), "distinguishedName": "", "directoryId": directory} for guid in guids]


Confined = Literal["role", "owner", "group", "token"]
"""How a caller is confined: by the role of their key, as its owner, by a group of the owner, as a person by token."""


def make_confined(by: Confined, connection: DirectoryConnection, *scopes: UUID) -> Integration:
    """Somebody who may do everything at `/api`, inside of some objects."""
    if by == "role":
        return make_integration(connection, scopes=scopes)
    made = make_integration(connection)
    person = made.key.owner
    if by == "group":
        group = Group.objects.create(name=random_name("group"))
        GroupScopes.objects.create(group=group, scopes=as_scopes(scopes, connection))
        person.groups.add(group)
    else:
        person.scopes = as_scopes(scopes, connection)
        person.save(update_fields=["scopes"])
    if by == "token":
        token = Console(person).post("/rest/session/access-token").body["accessToken"]
        return replace(made, header="Authorization", value=f"Bearer {token}")
    return made


def make_integration(
    connection: DirectoryConnection | None,
    *,
    may: Iterable[str] | None = None,
    owner_may: Iterable[str] | None = None,
    level: SupervisionLevel = SupervisionLevel.ACT,
    scopes: Iterable[UUID] = (),
    **fields: Any,
) -> Integration:
    """A key linked to the connection; by default it and its owner may do everything, without asking."""
    granted = list(all_permissions() if may is None else may)
    owner = fields.pop("owner", None) or make_person(may=granted if owner_may is None else owner_may)
    role = Role.objects.create(name=random_name("role"), scopes=as_scopes(scopes, connection))
    _grant(role.permissions, granted)
    value, secret = credential_values.make(credential_values.Prefix.API_KEY)
    key = ApiKey.objects.create(
        name=random_name("key"),
        owner=owner,
        role=role,
        lookup_id=secret.lookup_id,
        digest=secret.digest,
        supervision_level=level.value,
        **fields,
    )
    link = Link.objects.create(api_key=key, connection=connection) if connection else None
    return Integration(key=key, value=value, client_id=str(link.client_id) if link else None)


def _begin_session(person: Person) -> str:
    """The key of a new session, made straight in the database: signing in costs more than many a test does besides."""
    session = SessionStore(get_random_string(32))
    session.update(
        {
            SESSION_KEY: str(person.pk),
            BACKEND_SESSION_KEY: f"{SessionBackend.__module__}.{SessionBackend.__qualname__}",
            # As the database has them: the test may have changed their password since.
            HASH_SESSION_KEY: Person.objects.get(pk=person.pk).get_session_auth_hash(),
        }
    )
    session.create_model_instance(dict(session.items())).save(force_insert=True)
    PersonSession.objects.create(session_key=stored_key(session.session_key), person=person, address="127.0.0.1")
    return str(session.session_key)


class Console:
    """A person signed in to the browser surface, by name and password where the test is about that."""

    def __init__(self, person: Person, *, by_password: bool = False) -> None:
        self.person = person
        self.client = Client(enforce_csrf_checks=True)
        if by_password:
            answer = send(self.client, "POST", "/rest/session", {"username": person.username, "password": PASSWORD})
            assert answer.status == 200, answer
            self.token = answer.body["csrfToken"]
            return
        self.token = get_random_string(32)
        self.client.cookies[settings.CSRF_COOKIE_NAME] = self.token
        self.client.cookies[settings.SESSION_COOKIE_NAME] = _begin_session(person)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return send(self.client, method, path, body, **{"X-CSRFToken": self.token, **headers})

    def submit(self, path: str, **fields: str | list[str]) -> Answer:
        """Send the form of a page of the console."""
        response = self.client.post(path, {"csrfmiddlewaretoken": self.token, **fields})
        return Answer(response.status_code, response.content, response.headers)

    def get(self, path: str) -> Answer:
        return self.call("GET", path)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("POST", path, body, **headers)

    def patch(self, path: str, body: Any) -> Answer:
        return self.call("PATCH", path, body)

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)
