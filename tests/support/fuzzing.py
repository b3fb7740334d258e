"""What schemathesis draws becomes requests about objects that are there, and every answer a promise to be kept.

It knows the document alone: its identifiers name nothing, its texts no attribute, and nearly everything would be
answered with 404. So most of what it drew for such a member is exchanged for something of the test's world, just before
the request is sent. What it broke on purpose stays as it is.
"""

import contextlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import wraps
from random import Random
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import ldap
import schemathesis
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from schemathesis.checks import CHECKS
from schemathesis.core import NotSet
from schemathesis.core.failures import Failure
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import CoveragePhaseData, CoverageScenario
from schemathesis.hooks import unregister

from lab.directory import Directory, random_name
from tests.support.openapi import Document, Documented, Received

Json = Any

_ATTRIBUTES = (
    *("title", "mail", "description", "displayName", "department", "telephoneNumber", "otherTelephone", "info"),
    *("sAMAccountName", "userAccountControl", "pwdLastSet", "lockoutTime", "accountExpires", "member", "manager"),
    *("managedBy", "servicePrincipalName", "thumbnailPhoto", "jpegPhoto", "logonHours", "employeeID", "uidNumber"),
    *("countryCode", "c", "st", "l", "street", "proxyAddresses", "groupType", "primaryGroupID", "unicodePwd", "cn"),
    *("objectGUID", "objectSid", "memberOf", "objectClass", "name", "nTSecurityDescriptor", "whenCreated", "nosuch"),
    *("TITLE", "userPassword", "msDS-cloudExtensionAttribute1", "extensionAttribute1", "wWWHomePage", "2.5.4.12"),
)
_VALUES = ("@user.dn", "@group.dn", "0", "512", "514", "TRUE", "AQID")
_PARENTS = (*("@unit.dn", "@inner.dn", "@inner", "@unit") * 2, "@user.dn", "@missing", "CN=nowhere,@unit.dn")
_OBJECTS = ("@user", "@group", "@computer", "@inner", "@missing")
SEEDS: Mapping[str, tuple[str, ...]] = {
    "attributes": ("mail", "*", "member", "title", "unicodePwd", "nosuch", "objectSid", "objectGUID", "whenCreated"),
    "sort": ("cn", "-cn", "whenCreated", "-uSNChanged", "accountExpires", "member", "objectSid", "unicodePwd", "x"),
    "filter": (
        *("(cn=*)", "(&)", "(|)", "(!(cn=a*))", "(objectGUID=\\01\\02)", "(groupType:1.2.840.113556.1.4.803:=2)"),
        *("(cn=", "(nosuch=x)", "(unicodePwd=x)", "(tokenGroups=*)", "(accountExpires>=zz)", "(member=nonsense)"),
        *("(&(cn=a)(|(sn=b)(!(mail=*))))", "(objectSid=S-1-5-32)", "(whenCreated>=20200101000000.0Z)", "(anr=a)"),
    ),
    "base": _PARENTS,
    "parent": _PARENTS,
    "dn": ("@user.dn", "@group.dn", "@unit.dn", "@missing", "cn = nobody , @unit.dn"),
    "cursor": ("@cursor", "x"),
    "name": ("@random", "@random", "Ada", "Zoë", "a,b+c=d", " x ", "#1", "x" * 64, "x" * 65, "Ada Lovelace"),
    "samAccountName": ("ada", "a" * 20, "a" * 21, "a@b", "a/b", "@random"),
    "userPrincipalName": ("ada@corp.example.test", "ada", "@random"),
    "password": ("Correct-Horse-9", "short", "x" * 256, "Pässwörd-12345"),
    "newPassword": ("Correct-Horse-9", "Other-Horse-10", "short", "Pässwörd-12345"),
    "currentPassword": ("Correct-Horse-9", "wrong"),
    "objectClass": ("container", "contact", "organizationalUnit", "user", "group", "top", "nosuch", "printQueue"),
    "accounts": _OBJECTS,
    "add": _OBJECTS,
    "remove": _OBJECTS,
    "id": _OBJECTS,
    "ids": _OBJECTS,
    "ifMatch": ("@version", '"x"', "*"),
    "planId": ("@plan", "@missing"),
    "target": _OBJECTS,
    "scopes": ("@unit.dn", "@inner", "@missing"),
    "owner": ("@username", "nobody"),
    "username": ("@username", "@random"),
    "role": ("@role", "@missing"),
    "directory": ("@directory", "@missing"),
    "urls": ("ldaps://127.0.38.200", "ldap://127.0.38.200", "ldaps://127.0.38.200:99999"),
    "permissions": ("directory.read_object", "directory.read_object", "nosuch"),
    "allowedAddresses": ("127.0.0.1", "10.0.0.0/8", "10.0.0.1/8", "::1"),
    "expiresAt": ("2199-01-01T00:00:00Z", "2000-01-01T00:00:00Z"),
    "digest": ("@digest", "@missing"),
    "clear": _ATTRIBUTES,
    "If-Match": ("@version", '"x"', 'W/"1", "2"', "*"),
    "If-None-Match": ("@version", "*", '"x", W/"@bare-version"'),
    "X-Client-Id": ("@client", "@client", "@client", "@missing"),
}
"""What members and parameters of these names are exchanged for. `@name` is something of the world."""

UPDATES = frozenset({"replace", "add", "remove"})
"""Members whose own members are attributes."""

SIGN_IN = ("POST", "/rest/session")
"""Sent without a session: whoever signs in anew ends the one that all the others need."""

_IDENTIFIERS = {
    "/ad/users/": ("@user", "@user", "@user", "@group"),
    "/ad/groups/": ("@group", "@group", "@group", "@user"),
    "/ad/computers/": ("@computer", "@computer", "@computer", "@user"),
    "/ad/contacts/": ("@contact", "@contact", "@contact", "@user"),
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
    "/agents/": ("@agent",),
    "/agent-clients/": ("@agent-client",),
}

_BY_DN = {
    "/ad/users/by-dn": ("@user.dn", "@user.dn", "@missing", "cn = nobody , @unit.dn"),
    "/ad/groups/by-dn": ("@group.dn", "@group.dn", "@user.dn"),
    "/ad/computers/by-dn": ("@computer.dn", "@computer.dn", "@user.dn"),
    "/ad/contacts/by-dn": ("@contact.dn", "@contact.dn", "@user.dn"),
    "/ad/organization-units/by-dn": ("@unit.dn", "@inner.dn", "@user.dn"),
}
"""What the `dn` of an operation that asks for one kind is exchanged for."""


@dataclass
class World:
    """What the requests are about, all in a place that none of them names.

    What a request deleted is made anew before the next one.
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
            "contact": lambda: self.directory.add(
                f"CN={random_name('contact')},{self.place}", {"objectClass": "contact"}
            ),
        }
        for name, maker in make.items():
            if name not in self.objects or not self.directory.exists(self.objects[name]):
                self.objects[name] = maker()
        if "deleted" not in self.objects or self.directory.exists(self.objects["deleted"]):
            self.objects["deleted"] = self.directory.add_user(parent=self.place)
            self.directory.delete(self.objects["deleted"])

    def filled(self, text: str) -> str:
        """The text with everything that stands for something replaced."""
        return _PLACEHOLDER.sub(lambda match: self._meant_by(match[0]), text)

    def _meant_by(self, placeholder: str) -> str:
        name, _, part = placeholder.removeprefix("@").partition(".")
        if name in self.objects and part != "dn":
            return str(self.objects[name])
        if name in self.objects:
            try:
                return self.directory.dn(self.objects[name])
            except ldap.NO_SUCH_OBJECT:
                return f"CN=gone,{self.place}"
        made = {
            "@cursor": self.cursor,
            "@version": self.version,
            "@bare-version": self.version.strip('"'),
            "@missing": str(uuid4()),
            "@plan": self.fixed.get("@plan", str(uuid4())),
            "@random": random_name("r"),
        }
        return made.get(placeholder) or self.fixed.get(placeholder) or placeholder

    def learn(self, operation: str, answer: Received) -> None:
        """Keep what a later request may want to give back, and which operations were ever carried out."""
        if answer.status < 400:
            self.carried_out.add(operation)
        self.version = answer.headers.get("etag", self.version)
        if answer.media_type == "application/json" and answer.content:
            said = json.loads(answer.content)
            self.cursor = said.get("nextCursor") or self.cursor
            for member in ("runId", "planId", "digest"):
                if said.get(member):
                    self.fixed[f"@{member.removesuffix('Id')}"] = said[member]


_PLACEHOLDER = re.compile(r"@[a-zA-Z]+(?:[.-][a-z]+)*")


@dataclass(frozen=True)
class Accepted:
    """What schemathesis takes for a failure and is none: its code, the problem's, and words of its detail."""

    failure: str
    code: str
    reason: str
    detail: str = ""

    def covers(self, failure: str, problem: Mapping[str, Json]) -> bool:
        """Whether the problem of an answer is one that may be."""
        if (failure, problem.get("code")) != (self.failure, self.code):
            return False
        details = [item["detail"] for item in (problem, *problem.get("errors", ()))]
        return any(self.detail in detail for detail in details)


class Campaign:
    """One run of schemathesis about a world: its hooks, and a check besides its own."""

    def __init__(
        self, world: World, document: Document, accepted: Iterable[Accepted], credential: Mapping[str, str]
    ) -> None:
        """`credential` is the headers that every request has, whatever is drawn."""
        self.world = world
        self._document = document
        self._accepted = tuple(accepted)
        self._credential = credential
        self._operations = {(item.method, item.path): item for item in document.operations}
        self._has_changed = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Take part in whatever schemathesis does meanwhile."""
        hooks = [_function(method) for method in (self.before_call, self.after_call, self.filter_failure)]
        for hook in hooks:
            schemathesis.hook(hook)
        schemathesis.check(_function(self.promises))
        try:
            with _drawn_from_the_document_alone():
                yield
        finally:
            CHECKS.unregister("promises")
            for hook in hooks:
                unregister(hook)

    def before_call(self, context: Any, case: schemathesis.Case, kwargs: Any) -> None:
        """Let what is sent be about the world."""
        if self._has_changed:
            self.world.replenish()
            self._has_changed = False
        exchange = _Exchange(self.world, Random(self._seed_of(case)))  # noqa: S311 - no secret
        if (case.method, case.path) == SIGN_IN:
            for name in self._credential:
                case.headers.pop(name, None)
        if _is_whole(case, ParameterLocation.PATH):
            case.path_parameters = exchange.identifiers(case.path, case.path_parameters)
        if _is_whole(case, ParameterLocation.QUERY):
            case.query = exchange.members(case.query) | exchange.distinguished_name(case.path, case.query)
        if _is_whole(case, ParameterLocation.HEADER):
            case.headers.update(exchange.headers(dict(case.headers)))
        if _is_whole(case, ParameterLocation.BODY) and isinstance(case.body, dict):
            case.body = exchange.members(case.body)

    def _seed_of(self, case: schemathesis.Case) -> int:
        """The same for the same draw in every run, which the credential is not, nor where `NotSet` lies."""
        headers = {name: value for name, value in case.headers.items() if name not in self._credential}
        body = None if isinstance(case.body, NotSet) else case.body
        drawn = (case.method, case.path, case.path_parameters, case.query, headers, body)
        return zlib.crc32(repr(drawn).encode())

    def after_call(self, context: Any, case: schemathesis.Case, response: schemathesis.Response) -> None:
        """Learn of the answer."""
        self._has_changed |= case.method != "GET" and response.status_code < 400
        operation = self._operation(case)
        if operation is not None:
            self.world.learn(operation.name, _received(response))

    def filter_failure(
        self, context: Any, failure: Failure, case: schemathesis.Case, response: schemathesis.Response
    ) -> bool:
        """Whether a failure is one."""
        answer = _received(response)
        said = json.loads(answer.content) if answer.media_type.endswith("json") and answer.content else {}
        problems = [item["problem"] for item in said["results"]] if answer.status == 207 else [said]
        return not any(item.covers(failure.code, problem or {}) for item in self._accepted for problem in problems)

    def promises(self, context: Any, response: schemathesis.Response, case: schemathesis.Case) -> None:
        """What schemathesis does not know: closed shapes, the form of times, and what a problem says."""
        operation = self._operation(case)
        if operation is None:
            return
        complaints = list(self._document.complaints(operation, _received(response)))
        assert not complaints, "\n".join(complaints)

    def _operation(self, case: schemathesis.Case) -> Documented | None:
        """What was called, None when the path does not know the method."""
        data = case.meta.phase.data if case.meta else None
        if isinstance(data, CoveragePhaseData) and data.scenario is CoverageScenario.UNSPECIFIED_HTTP_METHOD:
            return None
        return self._operations.get((case.method, case.path))


def _drawn_from_the_document_alone() -> AbstractContextManager[Any]:
    """The same draws whatever else this process has loaded.

    Hypothesis also draws constants that it finds in the project's modules, as far as they are imported: every change of
    the sources, and every test that ran before, would make other requests.
    """
    cache = type(providers.CONSTANTS_CACHE)(1024)
    return patch.multiple(providers, _get_local_constants=Constants, CONSTANTS_CACHE=cache)


def _function(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method as schemathesis wants it: it notes things on what it is given, which methods do not take."""

    @wraps(method)
    def call(*arguments: Any) -> Any:
        return method(*arguments)

    return call


def _is_whole(case: schemathesis.Case, location: ParameterLocation) -> bool:
    """Whether nothing was broken on purpose in this part of a request."""
    part = case.meta.components.get(location) if case.meta else None
    return part is None or part.mode.is_positive


def _received(response: schemathesis.Response) -> Received:
    names = {name.lower(): ", ".join(values) for name, values in response.headers.items()}
    return Received(response.status_code, names, response.content)


@dataclass(frozen=True)
class _Exchange:
    """Exchanges three of four values that a request names; which ones, what was drawn decides."""

    world: World
    random: Random

    def identifiers(self, path: str, drawn: Mapping[str, Json]) -> dict[str, Json]:
        known = next((known for part, known in _IDENTIFIERS.items() if part in path), ("@missing",))
        return {name: self._one_of(known) if _is_uuid(value) else value for name, value in drawn.items()}

    def distinguished_name(self, path: str, drawn: Mapping[str, Json]) -> dict[str, Json]:
        """That of the kind that the path asks for."""
        known = next((known for part, known in _BY_DN.items() if path.endswith(part)), None)
        return {"dn": self._one_of(known)} if known and isinstance(drawn.get("dn"), str) else {}

    def headers(self, drawn: Mapping[str, Json]) -> dict[str, Json]:
        """An idempotency key is always another one: nearly every request would be refused for the one before."""
        exchanged = self.members(drawn)
        return {name: str(uuid4()) if name == "Idempotency-Key" else value for name, value in exchanged.items()}

    def members(self, drawn: Mapping[str, Json]) -> dict[str, Json]:
        return {name: self._member(name, value) for name, value in drawn.items()}

    def _member(self, name: str, value: Json) -> Json:
        if isinstance(value, str) and name in SEEDS:
            return self._one_of(SEEDS[name]) if self.random.random() < 0.75 else value
        if isinstance(value, list):
            return [self._member(name, item) for item in value]
        if isinstance(value, dict) and name in UPDATES:
            return {
                self.random.choice(_ATTRIBUTES): self._one_of(_VALUES) if self.random.random() < 0.25 else inner
                for inner in value.values()
            }
        return self.members(value) if isinstance(value, dict) else value

    def _one_of(self, seeds: tuple[str, ...]) -> str:
        return self.world.filled(self.random.choice(seeds))


def _is_uuid(value: Json) -> bool:
    try:
        UUID(str(value))
    except ValueError:
        return False
    return True
