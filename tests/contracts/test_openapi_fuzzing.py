"""Both OpenAPI documents against the running gateway: whatever is sent, the answer is one that the document promises.

The key is confined to one organizational unit, and a person is only ever given names inside it, so that what is deleted
and renamed at random hurts nothing.
"""

import contextlib
import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from uuid import UUID, uuid4

import ldap
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from directory.models import DirectoryConnection
from gateway.core.call import SupervisionLevel
from keys.models import ApiKey
from tests.support.cast import PASSWORD, Integration, make_integration, make_person
from tests.support.directory import Directory, random_name
from tests.support.fuzzing import Drawn, filled, requests
from tests.support.gateway import LiveGateway
from tests.support.openapi import Document, Documented, Received

pytestmark = pytest.mark.django_db(transaction=True)  # the web server sees what is committed

EXAMPLES = 12
SECONDS = 25.0
"""For each document. An operation that would take more than its share of it gets fewer examples."""

ENDS_THE_SESSION = "session.destroy"


@dataclass
class World:
    """What the requests are about, all in a place that none of them names.

    What a request deleted is made anew before the next operation.
    """

    directory: Directory
    place: str
    fixed: dict[str, str] = field(default_factory=dict)
    objects: dict[str, UUID] = field(default_factory=dict)
    carried_out: set[str] = field(default_factory=set)
    cursor: str = "x"
    version: str = '"1"'

    def replenish(self) -> None:
        """Have an object of each kind, and a deleted one."""
        make: dict[str, Callable[[], UUID]] = {
            "unit": lambda: self.directory.guid(self.directory.add_unit(random_name("unit"), parent=self.place)),
            "inner": lambda: self.directory.guid(self.directory.add_unit(random_name("inner"), parent=self.place)),
            "user": lambda: self.directory.add_user(parent=self.place, password="Correct-Horse-9"),
            "group": lambda: self.directory.add_group(parent=self.place),
            "computer": lambda: self.directory.add_computer(parent=self.place),
        }
        for name, maker in make.items():
            if name not in self.objects or not self.directory.exists(self.objects[name]):
                self.objects[name] = maker()
        if "deleted" not in self.objects or self.directory.exists(self.objects["deleted"]):
            self.objects["deleted"] = self.directory.add_user(parent=self.place)
            self.directory.delete(self.objects["deleted"])

    def replace(self, placeholder: str) -> str:
        """What a placeholder stands for now; a text that is none stays."""
        name, _, part = placeholder.removeprefix("@").partition(".")
        if name in self.objects and part != "dn":
            return str(self.objects[name])
        if name in self.objects:
            with contextlib.suppress(ldap.NO_SUCH_OBJECT):
                return self.directory.dn(self.objects[name])
            return f"CN=gone,{self.place}"
        made = {
            "@cursor": self.cursor,
            "@version": self.version,
            "@bare-version": self.version.strip('"'),
            "@missing": str(uuid4()),
            "@random": random_name("r"),
            "@UPPER": str(self.objects["user"]).upper(),
        }
        return made.get(placeholder) or self.fixed.get(placeholder) or placeholder

    def learn(self, operation: Documented, answer: Received) -> None:
        """Keep what a later request may want to give back, and which operations were ever carried out."""
        if answer.status < 400:
            self.carried_out.add(operation.name)
        self.version = answer.headers.get("etag", self.version)
        if answer.media_type == "application/json" and answer.content:
            said = json.loads(answer.content)
            self.cursor = said.get("nextCursor") or self.cursor
            for member in ("runId", "planId", "digest"):
                if said.get(member):
                    self.fixed[f"@{member.removesuffix('Id')}"] = said[member]


class Wire:
    """Requests over one connection, with the credential's headers."""

    def __init__(self, base_url: str, headers: dict[str, str]) -> None:
        self._headers = headers
        self._connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=60)

    def send(self, method: str, target: str, content: bytes | None = None, headers: Any = ()) -> Received:
        """One request, exactly as given."""
        sent = {**self._headers, **({} if content is None else {"Content-Type": "application/json"}), **dict(headers)}
        try:
            answer = self._exchange(method, target, content, sent)
        except (http.client.HTTPException, ConnectionError):  # the server had given the idle connection up
            self._connection.close()
            answer = self._exchange(method, target, content, sent)
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Received(answer.status, names, answer.read())

    def sign_in(self, username: str) -> None:
        """Go on with a person's session."""
        body = json.dumps({"username": username, "password": PASSWORD}).encode()
        answer = self._exchange("POST", "/rest/session", body, {"Content-Type": "application/json"})
        token = json.loads(answer.read())["csrfToken"]
        cookies = [header.partition(";")[0] for header in answer.headers.get_all("Set-Cookie", [])]
        self._headers |= {"Cookie": "; ".join(cookies), "X-CSRFToken": token}

    def _exchange(self, method: str, target: str, content: Any, headers: Any) -> http.client.HTTPResponse:
        self._connection.request(method, target, body=content, headers=headers)
        return self._connection.getresponse()


@pytest.fixture
def key(connection: DirectoryConnection, directory: Directory, organizational_unit: str) -> Integration:
    """May do everything inside one organizational unit, without asking."""
    return make_integration(connection, scopes=[directory.guid(organizational_unit)])


@pytest.fixture
def world(key: Integration, directory: Directory, organizational_unit: str) -> World:
    world = World(directory, organizational_unit)
    world.replenish()
    user = f"/api/ad/users/{world.objects['user']}"
    ApiKey.objects.filter(pk=key.key.pk).update(supervision_level=SupervisionLevel.ASK_EVERY_CHANGE.value)
    held = key.patch(user, {"replace": {"title": "waiting"}})
    ApiKey.objects.filter(pk=key.key.pk).update(supervision_level=SupervisionLevel.ACT.value)
    assert held.status == 202, held
    changed = key.patch(user, {"replace": {"title": "changed"}})
    assert changed.status == 200, changed
    spare = make_integration(None, may=["directory.read_object"])
    nowhere = DirectoryConnection.objects.create(
        name=random_name("nowhere"), urls=["ldaps://127.0.38.201"], base_dn="DC=nowhere", bind_dn="x", enabled=False
    )
    world.fixed = {
        "@request": held.body["changeRequest"]["id"],
        "@record": key.get("/api/operations").body["items"][0]["id"],
        "@directory": str(nowhere.id),
        "@role": str(spare.key.role_id),
        "@key": str(spare.key.id),
        "@person": str(spare.key.owner.public_id),
        "@username": spare.key.owner.username,
    }
    return world


_IDENTIFIERS = {
    "/ad/users/": ("@user", "@user", "@user", "@group"),
    "/ad/groups/": ("@group", "@group", "@group", "@user"),
    "/ad/computers/": ("@computer", "@computer", "@computer", "@user"),
    "/ad/organization-units/": ("@inner", "@inner", "@unit", "@user"),
    "/ad/objects/": ("@user", "@group", "@computer", "@inner", "@deleted"),
    "/ad/saved-filters/": ("@filter",),
    "/ad/deleted-objects/": ("@deleted", "@deleted", "@user"),
    "/change-requests/": ("@request",),
    "/ad/runs/": ("@run",),
    "/operations/": ("@record",),
    "/directories/": ("@directory",),
    "/roles/": ("@role",),
    "/api-keys/": ("@key",),
    "/users/": ("@person",),
}


def identifiers(path: str) -> tuple[str, ...]:
    """What identifiers in a path may stand for, so that most of them name something of the right kind."""
    return next((known for part, known in _IDENTIFIERS.items() if part in path), ("@missing",))


def exchanged(wire: Wire, world: World, operation: Documented, drawn: Drawn) -> tuple[str, Received]:
    """Send one drawn request; what was sent, for the report, and what came back."""
    path = filled(drawn.path, world.replace)
    query = urlencode([(name, filled(value, world.replace)) for name, value in drawn.query], errors="surrogatepass")
    target = quote(path, safe="/%") + (f"?{query}" if query else "")
    headers = {name: filled(value, world.replace) for name, value in drawn.headers.items()}
    content = drawn.body
    if content is not None and not isinstance(content, bytes):
        content = json.dumps(filled(content, world.replace)).encode()
    answer = wire.send(operation.method, target, content, headers)
    return f"{operation.method} {target} {headers} {content!r}", answer


def complaints_of(wire: Wire, world: World, document: Document, *, skip: str = "") -> list[str]:
    """What is wrong with the answers of all operations of a document, each complaint once."""
    found: dict[str, str] = {}
    operations = [operation for operation in document.operations if operation.name != skip]
    for operation in operations:
        world.replenish()
        _send_many(wire, world, document, operation, found, until=time.monotonic() + SECONDS / len(operations))
    return [f"{complaint}\n   {where}" for complaint, where in found.items()]


def _send_many(
    wire: Wire, world: World, document: Document, operation: Documented, found: dict[str, str], *, until: float
) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests(document, operation, identifiers))
    def send_one(drawn: Drawn) -> None:
        if time.monotonic() > until:
            return
        sent, answer = exchanged(wire, world, operation, drawn)
        for complaint in document.complaints(operation, answer):
            where = f"{sent[:1500]}\n   -> {answer.status} {answer.content[:600]!r}"
            found.setdefault(f"{operation.name}: {complaint}", where)
        world.learn(operation, answer)

    send_one()


def require_promises(wire: Wire, world: World, document: Document, *, skip: str = "") -> None:
    """Fail with all complaints, or when most requests were refused at the door, so that little was tried."""
    complaints = complaints_of(wire, world, document, skip=skip)
    assert not complaints, "\n".join(complaints)
    never = sorted({operation.name for operation in document.operations} - world.carried_out)
    assert len(never) < len(document.operations) / 4, f"never carried out: {never}"


def save_a_filter(wire: Wire, world: World, surface: str) -> None:
    body = json.dumps({"name": "Saved", "filter": "(cn=*)", "base": world.place}).encode()
    answer = wire.send("POST", f"{surface}/ad/saved-filters", body)
    world.fixed["@filter"] = json.loads(answer.content)["id"]


def document_of(gateway: LiveGateway, surface: str) -> Document:
    status, _, document = gateway.request("GET", f"/{surface}/openapi.json")
    assert status == 200
    return Document(document)


def test_the_machine_surface_keeps_its_promises(live_gateway: LiveGateway, key: Integration, world: World) -> None:
    wire = Wire(live_gateway.base_url, {"X-API-Key": key.value, "X-Client-Id": key.client_id or ""})
    save_a_filter(wire, world, "/api")
    require_promises(wire, world, document_of(live_gateway, "api"))


def test_the_browser_surface_keeps_its_promises(
    live_gateway: LiveGateway, connection: DirectoryConnection, world: World
) -> None:
    wire = Wire(live_gateway.base_url, {"X-Client-Id": connection.client_id})
    wire.sign_in(make_person(superuser=True).username)
    save_a_filter(wire, world, "/rest")
    require_promises(wire, world, document_of(live_gateway, "rest"), skip=ENDS_THE_SESSION)
    assert wire.send("GET", "/rest/session").status == 200, "the session was lost on the way"
