"""Versions: every answer about an object carries its own, reads are spared by it and writes made to depend on it."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest

from active_directory import Client
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.call import SupervisionLevel, Surface
from core.operation import Effect, operations
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory, random_name
from tests.support.cast import Answer, Console, Integration, make_integration, make_person

MISMATCH = (412, "AD.Object.VersionMismatch")
USERS = "/api/ad/users"
PASSWORD, NEW_PASSWORD = "Correct-Horse-9", "Other-Horse-10"


@pytest.fixture
def bob(directory: Directory, organizational_unit: str) -> UUID:
    """Must change the password, so that the minimum age does not stop a change."""
    return directory.add_user("Bob", parent=organizational_unit, password=PASSWORD, pwdLastSet="0")


def version_of(integration: Integration, guid: UUID, resource: str = "users") -> str:
    version: str = integration.get(f"/api/ad/{resource}/{guid}").body["version"]
    return version


def test_every_answer_with_a_record_carries_its_version(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    inner = directory.guid(directory.add_unit("Inner", parent=organizational_unit))
    made = integration.post(USERS, {"name": "Ada", "parent": organizational_unit})
    user = f"{USERS}/{made.body['id']}"
    answers = [
        made,
        integration.get(user),
        integration.get(f"/api/ad/objects/{made.body['id']}"),
        integration.get(f"{USERS}/by-dn?{urlencode({'dn': made.body['distinguishedName']})}"),
        integration.patch(user, {"replace": {"title": "Countess"}}),
        integration.patch(user, {"replace": {"title": "Countess"}}),
        integration.post(f"{user}/rename", {"name": "Ada Lovelace"}),
        integration.post(f"{user}/move", {"parent": str(inner)}),
        integration.post(f"{user}/disable"),
        integration.post(f"{user}/unlock"),
    ]
    for answer in answers:
        assert answer.status in (200, 201), answer.body
        assert answer.headers["ETag"] == f'"{answer.body["version"]}"'
    versions = [int(answer.body["version"], 16) for answer in answers]
    assert versions == sorted(versions)
    assert versions[4] == versions[5], "nothing was changed"
    assert len(set(versions)) == 4, "created, changed, renamed, moved"


def test_a_version_changes_with_everything_that_is_the_objects_own(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID, bob: UUID
) -> None:
    group = directory.add_group(parent=organizational_unit)
    before, before_ada = version_of(integration, group, "groups"), version_of(integration, ada)
    directory.add_values(group, member=directory.dn(ada))
    assert version_of(integration, group, "groups") != before
    assert version_of(integration, ada) == before_ada, "a membership is the group's"
    before = version_of(integration, bob)
    assert integration.post(f"{USERS}/{bob}/reset-password", {"newPassword": NEW_PASSWORD}).status == 200
    assert version_of(integration, bob) != before


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ('"{}"', 304),
        ('W/"{}"', 304),
        ('"other", W/"{}", "more"', 304),
        ("*", 304),
        ('"other"', 200),
        ('W/"other"', 200),
        ('"*"', 200),
        ("{}", 200),
        ("", 200),
    ],
)
def test_if_none_match(integration: Integration, ada: UUID, directory: Directory, header: str, status: int) -> None:
    version = version_of(integration, ada)
    by_name = f"{USERS}/by-dn?{urlencode({'dn': directory.dn(ada)})}"
    for path in (f"{USERS}/{ada}", f"/api/ad/objects/{ada}", by_name):
        answer = integration.get(path, **{"If-None-Match": header.format(version)})
        assert answer.status == status
        assert answer.headers["ETag"] == f'"{version}"'
        if status == 304:
            assert answer.body == b""
            assert "Content-Type" not in answer.headers


def test_a_copy_is_fresh_until_the_object_changes(integration: Integration, ada: UUID, directory: Directory) -> None:
    tag = integration.get(f"{USERS}/{ada}").headers["ETag"]
    assert integration.get(f"{USERS}/{ada}", **{"If-None-Match": tag}).status == 304
    directory.modify(ada, title="Countess")
    answer = integration.get(f"{USERS}/{ada}", **{"If-None-Match": tag})
    assert (answer.status, answer.body["attributes"]["title"]) == (200, ["Countess"])


def test_of_a_known_version_nothing_else_is_read(
    integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = integration.get(f"{USERS}/{ada}").headers["ETag"]
    asked: list[set[str]] = []
    read = Client.read

    def note(self: Client, ref: Any, attributes: Any = None, **options: Any) -> Any:
        if ref == ada:
            asked.append(set(attributes))
        return read(self, ref, attributes, **options)

    monkeypatch.setattr(Client, "read", note)
    assert integration.get(f"{USERS}/{ada}", **{"If-None-Match": tag}).status == 304
    assert asked == [{"objectGUID", "objectClass", "uSNChanged"}]
    assert integration.get(f"{USERS}/{ada}", **{"If-None-Match": '"other"'}).body["attributes"]["title"] == ["Analyst"]
    assert len(asked) == 3
    reads.flush()
    assert [record.target_id for record in OperationRecord.objects.filter(operation="users.read")] == [ada] * 3


@pytest.mark.parametrize("outside", ["the scopes", "the kind", "the directory"])
def test_a_known_version_opens_nothing(
    connection: DirectoryConnection,
    integration: Integration,
    directory: Directory,
    organizational_unit: str,
    ada: UUID,
    outside: str,
) -> None:
    elsewhere = directory.guid(directory.add_unit("Elsewhere", parent=organizational_unit))
    confined = make_integration(connection, scopes=[elsewhere])
    tag = integration.get(f"{USERS}/{ada}").headers["ETag"]
    asker, path = {
        "the scopes": (confined, f"{USERS}/{ada}"),
        "the kind": (integration, f"/api/ad/groups/{ada}"),
        "the directory": (integration, f"{USERS}/{uuid4()}"),
    }[outside]
    for known in (tag, "*"):
        plain, conditional = asker.get(path), asker.get(path, **{"If-None-Match": known})
        assert (conditional.status, conditional.body["code"]) == (plain.status, plain.body["code"])
        assert conditional.status in (403, 404)


def test_a_change_is_answered_whole_whatever_is_known(integration: Integration, ada: UUID) -> None:
    answer = integration.patch(f"{USERS}/{ada}", {"replace": {"title": "x"}}, **{"If-None-Match": "*"})
    assert (answer.status, answer.body["attributes"]["title"]) == (200, ["x"])


WRITES: dict[str, tuple[str, str, Any]] = {
    "users.update": ("PATCH", "", {"replace": {"title": "x"}}),
    "users.delete": ("DELETE", "", None),
    "users.move": ("POST", "/move", {"parent": "<unit>"}),
    "users.rename": ("POST", "/rename", {"name": "Robert"}),
    "users.enable": ("POST", "/enable", None),
    "users.disable": ("POST", "/disable", None),
    "users.unlock": ("POST", "/unlock", None),
    "users.reset-password": ("POST", "/reset-password", {"newPassword": NEW_PASSWORD}),
    "users.change-password": (
        *("POST", "/change-password"),
        {"currentPassword": PASSWORD, "newPassword": NEW_PASSWORD},
    ),
    "groups.update": ("PATCH", "", {"replace": {"description": "x"}}),
    "groups.delete": ("DELETE", "", None),
    "groups.move": ("POST", "/move", {"parent": "<unit>"}),
    "groups.rename": ("POST", "/rename", {"name": "Staff"}),
    "groups.change-members": ("POST", "/members", {"add": ["<ada>"]}),
    "organization-units.update": ("PATCH", "", {"replace": {"description": "x"}}),
    "organization-units.delete": ("DELETE", "", None),
    "organization-units.move": ("POST", "/move", {"parent": "<unit>"}),
    "organization-units.rename": ("POST", "/rename", {"name": "Other"}),
    "organization-units.enable-accounts": ("POST", "/accounts/enable", {"accounts": ["<ada>"]}),
    "organization-units.disable-accounts": ("POST", "/accounts/disable", {"accounts": ["<ada>"]}),
}


def test_the_writes_below_are_all_there_are() -> None:
    resources = {name.partition(".")[0] for name in WRITES}
    declared = {
        item.name
        for item in operations(Surface.API)
        if item.effect is Effect.CHANGE and item.resource in resources and "{id}" in item.path
    }
    assert declared == set(WRITES)


@pytest.mark.parametrize("name", WRITES)
def test_every_write_can_depend_on_the_version(
    integration: Integration, directory: Directory, organizational_unit: str, ada: UUID, bob: UUID, name: str
) -> None:
    resource = name.partition(".")[0]
    inner = directory.add_unit("Inner", parent=organizational_unit)
    target = {
        "users": bob,
        "groups": directory.add_group(parent=organizational_unit),
        "organization-units": directory.guid(inner),
    }[resource]
    there = directory.add_unit("There", parent=organizational_unit)
    method, rest, body = WRITES[name]
    body = _with({"<unit>": there, "<ada>": str(ada)}, body)
    if "accounts" in rest:
        directory.move(ada, parent=inner)
    version = version_of(integration, target, resource)
    before = directory.read(target)
    for header in ('"other"', f'W/"{version}"', version, '"*"', "", f'"{version}'):
        answer = integration.call(method, f"/api/ad/{resource}/{target}{rest}", body, **{"If-Match": header})
        assert (answer.status, answer.code) == MISMATCH, header
    assert directory.read(target) == before
    dry = integration.call(method, f"/api/ad/{resource}/{target}{rest}?dryRun=true", body, **{"If-Match": '"other"'})
    assert (dry.status, dry.code) == MISMATCH
    path = f"/api/ad/{resource}/{target}{rest}{'?dryRun=true' if 'accounts' in rest else ''}"  # a run needs a worker
    answer = integration.call(method, path, body, **{"If-Match": f'"other", "{version}"'})
    assert answer.status in (200, 204), answer.body


def _with(names: dict[str, str], body: Any) -> Any:
    if isinstance(body, dict):
        return {key: _with(names, value) for key, value in body.items()}
    if isinstance(body, list):
        return [_with(names, value) for value in body]
    return names.get(body, body)


def test_any_version_will_do(integration: Integration, ada: UUID, directory: Directory) -> None:
    assert integration.patch(f"{USERS}/{ada}", {"replace": {"title": "x"}}, **{"If-Match": "*"}).status == 200
    assert integration.delete(f"{USERS}/{ada}", **{"If-Match": "*"}).status == 204


def test_a_version_of_before_is_refused_even_with_nothing_to_do(integration: Integration, ada: UUID) -> None:
    old = version_of(integration, ada)
    change = {"replace": {"title": "x"}}
    assert integration.patch(f"{USERS}/{ada}", change, **{"If-Match": f'"{old}"'}).status == 200
    answer = integration.patch(f"{USERS}/{ada}", change, **{"If-Match": f'"{old}"'})
    assert (answer.status, answer.code) == MISMATCH


class TestRaces:
    """Somebody else changes the object between the gateway's look at it and its write."""

    @pytest.fixture
    def at_the_write(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
        """Let something happen right before the next write is sent, once."""

        def arrange(happening: Callable[[], None]) -> None:
            original, waiting = Client.write, [happening]

            def write(client: Client, *arguments: Any) -> str:
                if waiting:
                    waiting.pop()()
                return original(client, *arguments)

            monkeypatch.setattr(Client, "write", write)

        return arrange

    def outcomes(self) -> list[tuple[str, str | None]]:
        return list(OperationRecord.objects.order_by("id").values_list("outcome", "code"))

    def test_without_a_version_the_change_is_made_on_what_is_there_now(
        self, integration: Integration, ada: UUID, directory: Directory, at_the_write: Any
    ) -> None:
        at_the_write(lambda: directory.modify(ada, title="Duchess"))
        assert integration.patch(f"{USERS}/{ada}", {"replace": {"title": "Countess"}}).status == 200
        assert directory.text(ada, "title") == "Countess"
        assert self.outcomes() == [("failed", MISMATCH[1]), ("succeeded", None)]
        made = OperationRecord.objects.latest("id")
        assert made.changes == [{"attribute": "title", "before": ["Duchess"], "after": ["Countess"]}]

    def test_with_a_version_the_caller_decides(
        self, integration: Integration, ada: UUID, directory: Directory, at_the_write: Any
    ) -> None:
        tag = f'"{version_of(integration, ada)}"'
        at_the_write(lambda: directory.modify(ada, title="Duchess"))
        answer = integration.patch(f"{USERS}/{ada}", {"replace": {"title": "Countess"}}, **{"If-Match": tag})
        assert (answer.status, answer.code) == MISMATCH
        assert directory.text(ada, "title") == "Duchess"
        assert self.outcomes() == [("failed", MISMATCH[1])]

    def test_bits_of_others_are_not_lost(
        self, integration: Integration, ada: UUID, directory: Directory, at_the_write: Any
    ) -> None:
        control = int(directory.text(ada, "userAccountControl") or 0)
        at_the_write(lambda: directory.modify(ada, userAccountControl=str(control | 0x10000)))  # DONT_EXPIRE_PASSWD
        assert integration.post(f"{USERS}/{ada}/disable").status == 200
        assert int(directory.text(ada, "userAccountControl") or 0) == control | 0x10000 | 0x2

    def test_values_of_others_are_not_lost(
        self, integration: Integration, ada: UUID, directory: Directory, at_the_write: Any
    ) -> None:
        at_the_write(lambda: directory.add_values(ada, otherTelephone="2"))
        assert integration.patch(f"{USERS}/{ada}", {"add": {"otherTelephone": "1"}}).status == 200
        assert set(directory.read(ada, "otherTelephone")["otherTelephone"]) == {b"1", b"2"}

    def test_another_attribute_is_not_guarded(
        self, integration: Integration, ada: UUID, directory: Directory, at_the_write: Any
    ) -> None:
        """AD has no atomic check of a whole object: what guards a write is the old values of what it writes."""
        tag = f'"{version_of(integration, ada)}"'
        at_the_write(lambda: directory.modify(ada, department="Engines"))
        change = {"replace": {"title": "Countess"}}
        assert integration.patch(f"{USERS}/{ada}", change, **{"If-Match": tag}).status == 200
        assert directory.text(ada, "department") == "Engines"

    def test_a_change_that_became_needless_is_not_made(
        self, integration: Integration, ada: UUID, directory: Directory, at_the_write: Any
    ) -> None:
        at_the_write(lambda: directory.modify(ada, title="Countess"))
        assert integration.patch(f"{USERS}/{ada}", {"replace": {"title": "Countess"}}).status == 200
        assert directory.text(ada, "title") == "Countess"


class TestHeldChanges:
    """The version is looked at when a change is queued, and again when it is applied."""

    @pytest.fixture
    def asking(self, connection: DirectoryConnection) -> Integration:
        return make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)

    def held(self, asking: Integration, ada: UUID, tag: str) -> Answer:
        return asking.patch(f"{USERS}/{ada}", {"replace": {"title": "Countess"}}, **{"If-Match": tag})

    def approve_and_apply(self, id: str) -> Any:
        console = Console(make_person(random_name("grace"), may=["approvals.decide_change"]))
        digest = console.get(f"/rest/change-requests/{id}").body["digest"]
        assert console.post(f"/rest/change-requests/{id}/approve", {"digest": digest}).status == 200
        pipeline.apply_change_request(UUID(id))
        return console.get(f"/rest/change-requests/{id}").body

    def test_it_works(self, asking: Integration, ada: UUID, directory: Directory) -> None:
        answer = self.held(asking, ada, f'"{version_of(asking, ada)}"')
        assert answer.status == 202
        assert self.approve_and_apply(answer.body["changeRequest"]["id"])["status"] == "applied"
        assert directory.text(ada, "title") == "Countess"

    def test_another_version_is_not_queued(self, asking: Integration, ada: UUID) -> None:
        answer = self.held(asking, ada, '"other"')
        assert (answer.status, answer.code) == MISMATCH
        assert asking.get("/api/change-requests").body["items"] == []

    def test_a_version_gone_by_is_not_applied(self, asking: Integration, ada: UUID, directory: Directory) -> None:
        id = self.held(asking, ada, f'"{version_of(asking, ada)}"').body["changeRequest"]["id"]
        directory.modify(ada, department="Engines")
        shown = self.approve_and_apply(id)
        assert (shown["status"], shown["problem"]["code"]) == ("failed", MISMATCH[1])
        assert directory.text(ada, "title") == "Analyst"

    def test_any_version_is_any_version_then_too(self, asking: Integration, ada: UUID, directory: Directory) -> None:
        id = self.held(asking, ada, "*").body["changeRequest"]["id"]
        directory.modify(ada, department="Engines")
        assert self.approve_and_apply(id)["status"] == "applied"
