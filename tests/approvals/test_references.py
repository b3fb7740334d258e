"""An approval is of objects, not of their names: whoever is renamed away and into a name between the request and its
application, the change is made to those that the approver saw, or to nobody.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, get_args, get_origin
from uuid import UUID

import pytest

from active_directory import Syntax, may_refer
from approvals.models import ChangeRequest
from core.operation import Effect, operations
from directory.changes.references import PARENT_MEMBER, UPDATE_MEMBERS, resolve_names_in_input, update_names_in_input
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from gateway import pipeline
from lab.directory import Directory
from tests.directory.supervised import approve, approve_only
from tests.support.cast import Answer, Console, Integration, make_person


@pytest.fixture
def alice(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Alice", parent=organizational_unit)


@pytest.fixture
def mallory(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Mallory", parent=organizational_unit)


Swap = Callable[[], None]


@pytest.fixture
def swap(directory: Directory, alice: UUID, mallory: UUID) -> Swap:
    """Rename Alice away, and Mallory into her place."""

    def swap() -> None:
        directory.rename(alice, "Alice Somebody")
        directory.rename(mallory, "Alice")

    return swap


@pytest.fixture
def group(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group(parent=organizational_unit)


def references_in(held: Answer) -> dict[str, list[dict[str, Any]]]:
    """What the approver is shown of the objects referred to, by attribute."""
    reader = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
    found: dict[str, list[dict[str, Any]]] = {}
    for each in reader.get(f"/rest/change-requests/{held.body['changeRequest']['id']}").body["references"]:
        found.setdefault(each["attribute"], []).append(each)
    return found


def forecast(held: Answer) -> dict[str, Any]:
    reader = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
    told: dict[str, Any] = reader.get(f"/rest/change-requests/{held.body['changeRequest']['id']}/forecast").body
    return told


class TestMembers:
    @pytest.mark.parametrize("way", ["update", "members", "batch", "creation"])
    def test_whoever_has_the_name_by_then_is_nobody(
        self,
        careful: Integration,
        directory: Directory,
        organizational_unit: str,
        group: UUID,
        alice: UUID,
        mallory: UUID,
        swap: Swap,
        way: str,
    ) -> None:
        name = directory.dn(alice)
        held = self.hold(careful, way, group, alice, name, organizational_unit)
        assert [each["id"] for each in references_in(held)["member"]] == [str(alice)]
        assert references_in(held)["member"][0]["accountName"] == directory.text(alice, "sAMAccountName")
        swap()
        assert (forecast(held)["problem"], forecast(held)["stale"]) == (None, False)
        assert approve(held).status == "applied"
        joined = f"CN=New,{organizational_unit}" if way == "creation" else group
        assert directory.members(joined) == {directory.dn(alice)}

    @staticmethod
    def hold(careful: Integration, way: str, group: UUID, alice: UUID, name: str, unit: str) -> Answer:
        if way == "members":
            return careful.post(f"/api/ad/groups/{group}/members", {"add": [str(alice)]})
        if way == "creation":
            return careful.post("/api/ad/groups", {"name": "New", "parent": unit, "add": {"member": [name.lower()]}})
        updates = {"add": {"member": [name]}}
        if way == "update":
            return careful.patch(f"/api/ad/groups/{group}", updates)
        answer = careful.post("/api/ad/groups/batch/update", {"items": [{"id": str(group), **updates}]})
        (item,) = answer.body["results"]
        return Answer(item["status"], {"changeRequest": {"id": item["changeRequestId"]}}, {})

    def test_who_is_removed(
        self, careful: Integration, directory: Directory, group: UUID, alice: UUID, mallory: UUID, swap: Swap
    ) -> None:
        directory.add_values(group, member=[directory.dn(alice), directory.dn(mallory)])
        held = careful.patch(f"/api/ad/groups/{group}", {"remove": {"member": [directory.dn(alice)]}})
        swap()
        assert approve(held).status == "applied"
        assert directory.members(group) == {directory.dn(mallory)}

    def test_another_one_under_the_name(
        self, careful: Integration, directory: Directory, group: UUID, alice: UUID, mallory: UUID
    ) -> None:
        held = careful.patch(f"/api/ad/groups/{group}", {"add": {"member": [directory.dn(alice)]}})
        directory.delete(alice)
        directory.rename(mallory, "Alice")
        assert forecast(held)["stale"]
        assert approve(held).status == "stale"
        assert directory.members(group) == set()

    def test_one_who_is_restored_is_the_same(
        self, careful: Integration, integration: Integration, directory: Directory, group: UUID, alice: UUID
    ) -> None:
        held = careful.patch(f"/api/ad/groups/{group}", {"add": {"member": [directory.dn(alice)]}})
        directory.delete(alice)
        assert integration.post(f"/api/ad/deleted-objects/{alice}/restore", {"name": "Alice II"}).status == 200
        assert approve(held).status == "applied"
        assert directory.members(group) == {directory.dn(alice)}

    def test_a_name_that_meant_nobody(
        self, careful: Integration, directory: Directory, organizational_unit: str, group: UUID, mallory: UUID
    ) -> None:
        directory.add_values(group, member=directory.dn(mallory))
        nobody = f"CN=Nobody,{organizational_unit}"
        updates = {"remove": {"member": [nobody]}, "replace": {"description": "x"}}
        held = careful.patch(f"/api/ad/groups/{group}", updates)
        directory.rename(mallory, "Nobody")
        assert approve(held).status == "stale"
        assert directory.members(group) == {directory.dn(mallory)}

    def test_a_name_that_changes_hands_at_the_last_moment(
        self,
        careful: Integration,
        directory: Directory,
        group: UUID,
        alice: UUID,
        swap: Swap,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """After the values were compared, before the write is sent."""
        from tests.support.mishaps import just_before_the_write

        held = careful.patch(f"/api/ad/groups/{group}", {"add": {"member": [directory.dn(alice)]}})
        just_before_the_write(monkeypatch, swap)
        assert approve(held).status == "applied"
        assert directory.members(group) == {directory.dn(alice)}

    def test_so_does_that_of_a_direct_change(
        self,
        integration: Integration,
        directory: Directory,
        group: UUID,
        alice: UUID,
        swap: Swap,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from tests.support.mishaps import just_before_the_write

        just_before_the_write(monkeypatch, swap)
        assert integration.post(f"/api/ad/groups/{group}/members", {"add": [str(alice)]}).status == 200
        assert directory.members(group) == {directory.dn(alice)}


_BINARY = "B:32:AA312825768811D1ADED00C04FD8D5CE:"
_POLICY = "[LDAP://{};0]"


class TestAttributes:
    """Every syntax whose values name objects, and the text in which names are."""

    @pytest.mark.parametrize(
        ("resource", "attribute", "form"),
        [
            ("users", "manager", "{}"),
            ("users", "seeAlso", "{}"),
            ("users", "secretary", "{}"),
            ("computers", "managedBy", "{}"),
            ("computers", "msDS-HostServiceAccount", "{}"),
            ("groups", "managedBy", "{}"),
            ("organization-units", "managedBy", "{}"),
            ("organization-units", "otherWellKnownObjects", _BINARY + "{}"),
            ("organization-units", "gPLink", _POLICY),
        ],
    )
    def test_whoever_has_the_name_by_then_is_nobody(
        self,
        careful: Integration,
        directory: Directory,
        organizational_unit: str,
        alice: UUID,
        swap: Swap,
        resource: str,
        attribute: str,
        form: str,
    ) -> None:
        target = self.target(directory, organizational_unit, resource)
        held = careful.patch(f"/api/ad/{resource}/{target}", {"replace": {attribute: form.format(directory.dn(alice))}})
        assert held.status == 202, held
        (reference,) = references_in(held)[attribute]
        assert (reference["id"], reference["name"]) == (str(alice), directory.dn(alice))
        swap()
        assert approve(held).status == "applied"
        assert directory.text(target, attribute) == form.format(directory.dn(alice))

    @staticmethod
    def target(directory: Directory, unit: str, resource: str) -> UUID:
        if resource == "organization-units":
            return directory.guid(directory.add_unit("Target", parent=unit))
        if resource == "groups":
            return directory.add_group("Target", parent=unit)
        return (directory.add_computer if resource == "computers" else directory.add_user)("Target", parent=unit)

    def test_who_it_was(
        self, careful: Integration, directory: Directory, organizational_unit: str, alice: UUID, mallory: UUID
    ) -> None:
        """What was there before is compared by identity too."""
        target = directory.add_user("Target", parent=organizational_unit, manager=directory.dn(alice))
        held = careful.patch(f"/api/ad/users/{target}", {"clear": ["manager"]})
        directory.rename(alice, "Alice Somebody")
        assert approve(held).status == "applied", "renamed, but the same"
        directory.modify(target, manager=directory.dn(alice))
        held = careful.patch(f"/api/ad/users/{target}", {"clear": ["manager"]})
        name = "Alice Somebody"
        directory.rename(alice, "Alice")
        directory.rename(mallory, name)
        directory.modify(target, manager=directory.dn(mallory))
        assert approve(held).status == "stale", "another one, called the same"
        assert directory.text(target, "manager") == directory.dn(mallory)

    def test_text_that_looks_like_a_name_is_text(
        self, careful: Integration, directory: Directory, organizational_unit: str, alice: UUID, swap: Swap
    ) -> None:
        target = directory.add_user("Target", parent=organizational_unit)
        name = directory.dn(alice)
        held = careful.patch(f"/api/ad/users/{target}", {"replace": {"description": name, "manager": name}})
        swap()
        assert approve(held).status == "applied"
        assert directory.text(target, "description") == name
        assert directory.text(target, "manager") == directory.dn(alice)

    def test_the_whole_schema(self, connection: DirectoryConnection, directory: Directory, alice: UUID) -> None:
        """Names are found in values of every attribute that has them, by its syntax and not by a list of names."""
        client = get_client(connection.id)
        dn = directory.dn(alice)
        forms = {Syntax.DN: dn, Syntax.DN_BINARY: f"B:4:00FF:{dn}", Syntax.DN_STRING: f"S:2:::{':'}{dn}"}
        referring = [known for known in client.schema.attributes.values() if may_refer(known)]
        assert {known.syntax for known in referring} >= set(forms)
        for known in referring:
            text = forms.get(known.syntax, _POLICY.format(dn))
            document = {"replace": {known.name: [text]}}
            kept = resolve_names_in_input(client, document)
            assert kept == {dn: str(alice)}, known.name
        directory.rename(alice, "Ali, ce")
        for known in referring:
            text = forms.get(known.syntax, _POLICY.format(dn))
            renamed = update_names_in_input(client, {"replace": {known.name: text}}, {dn: str(alice)})
            assert renamed == {"replace": {known.name: text.replace(dn, directory.dn(alice))}}, known.name


class TestPlaces:
    """The parent of what is created, moved or restored."""

    @pytest.fixture
    def sales(self, directory: Directory, organizational_unit: str) -> UUID:
        return directory.guid(directory.add_unit("Sales", parent=organizational_unit))

    @pytest.fixture
    def trap(self, directory: Directory, organizational_unit: str) -> UUID:
        return directory.guid(directory.add_unit("Trap", parent=organizational_unit))

    @pytest.mark.parametrize("by", ["name", "id"])
    @pytest.mark.parametrize("action", ["create", "move", "restore"])
    def test_whatever_has_the_name_by_then_is_not_meant(
        self,
        careful: Integration,
        directory: Directory,
        alice: UUID,
        sales: UUID,
        trap: UUID,
        action: str,
        by: str,
    ) -> None:
        parent = directory.dn(sales) if by == "name" else str(sales)
        held = self.hold(careful, directory, action, alice, parent)
        (reference,) = [each for each in references_in(held)["distinguishedName"] if each["id"] == str(sales)]
        assert reference["kind"] == "organizationalUnit"
        directory.rename(sales, "Sales (old)")
        directory.rename(trap, "Sales")
        assert (forecast(held)["problem"], forecast(held)["stale"]) == (None, False)
        assert approve(held).status == "applied"
        assert directory.exists(f"CN=Alice,{directory.dn(sales)}")

    @staticmethod
    def hold(careful: Integration, directory: Directory, action: str, alice: UUID, parent: str) -> Answer:
        if action == "move":
            return careful.post(f"/api/ad/users/{alice}/move", {"parent": parent})
        name = directory.text(alice, "sAMAccountName")
        directory.delete(alice)
        if action == "restore":
            return careful.post(f"/api/ad/deleted-objects/{alice}/restore", {"parent": parent})
        return careful.post("/api/ad/users", {"name": "Alice", "parent": parent, "samAccountName": name})

    @pytest.mark.parametrize("action", ["create", "move", "restore"])
    def test_a_parent_that_is_gone(
        self, careful: Integration, directory: Directory, alice: UUID, sales: UUID, trap: UUID, action: str
    ) -> None:
        held = self.hold(careful, directory, action, alice, directory.dn(sales))
        directory.delete(sales)
        directory.rename(trap, "Sales")
        assert approve(held).status == "stale"
        assert not directory.exists(f"CN=Alice,{directory.dn(trap)}")

    def test_the_place_it_was_restored_to_by_default(
        self, careful: Integration, directory: Directory, sales: UUID, trap: UUID
    ) -> None:
        user = directory.add_user("Bob", parent=directory.dn(sales))
        directory.delete(user)
        held = careful.post(f"/api/ad/deleted-objects/{user}/restore")
        directory.rename(sales, "Sales (old)")
        directory.rename(trap, "Sales")
        assert approve(held).status == "applied"
        assert directory.dn(user) == f"CN=Bob,{directory.dn(sales)}"


class TestDeletions:
    def test_what_is_below_is_these_objects(
        self, careful: Integration, directory: Directory, organizational_unit: str, alice: UUID
    ) -> None:
        unit = directory.guid(directory.add_unit("Old", parent=organizational_unit))
        victim = directory.add_user("Nobody", parent=directory.dn(unit))
        held = careful.delete(f"/api/ad/organization-units/{unit}?recursive=true")
        directory.move(victim, parent=organizational_unit)
        directory.rename(alice, "Nobody II")
        directory.move(alice, parent=directory.dn(unit))
        directory.rename(victim, "Nobody III")
        directory.rename(alice, "Nobody")
        assert approve(held).status == "stale"
        assert directory.exists(alice)

    def test_its_members_may_be_called_otherwise(
        self, careful: Integration, directory: Directory, organizational_unit: str, alice: UUID, mallory: UUID
    ) -> None:
        group = directory.add_group(parent=organizational_unit, members=[alice])
        held = careful.delete(f"/api/ad/groups/{group}")
        directory.rename(alice, "Alice Somebody")
        assert approve(held).status == "applied"
        group = directory.add_group(parent=organizational_unit, members=[alice])
        held = careful.delete(f"/api/ad/groups/{group}")
        directory.remove_values(group, member=directory.dn(alice))
        directory.add_values(group, member=directory.dn(mallory))
        assert approve(held).status == "stale"


class TestRuns:
    def test_the_accounts_are_those_shown(
        self,
        careful: Integration,
        directory: Directory,
        organizational_unit: str,
        alice: UUID,
        mallory: UUID,
        swap: Swap,
    ) -> None:
        unit = directory.guid(organizational_unit)
        held = careful.post(f"/api/ad/organization-units/{unit}/accounts/disable", {"accounts": [str(alice)]})
        assert [each["id"] for each in next(iter(references_in(held).values()))] == [str(alice)]
        swap()
        assert approve(held).status == "applying", "its run has begun"


class TestDigest:
    def test_it_is_over_the_references(
        self, careful: Integration, directory: Directory, group: UUID, alice: UUID, mallory: UUID
    ) -> None:
        held = careful.patch(f"/api/ad/groups/{group}", {"add": {"member": [directory.dn(alice)]}})
        request = approve_only(held)
        kept = request.kept_input()
        assert kept["references"] == {directory.dn(alice): str(alice)}
        text = request.input.replace(str(alice), str(mallory))
        ChangeRequest.objects.filter(id=request.id).update(input=text)
        pipeline.apply_change_request(request.id)
        request.refresh_from_db()
        assert (request.status, request.problem["code"]) == ("failed", "Approvals.Changed")
        assert directory.members(group) == set()

    def test_a_request_of_an_earlier_version(
        self, careful: Integration, directory: Directory, group: UUID, alice: UUID
    ) -> None:
        """It has kept names alone, which nobody can tell the meaning of any more."""
        held = careful.patch(f"/api/ad/groups/{group}", {"add": {"member": [directory.dn(alice)]}})
        request = ChangeRequest.objects.get(id=held.body["changeRequest"]["id"])
        import json

        kept = request.kept_input()
        del kept["references"]
        request.input = json.dumps(kept)
        request.changes = [{key: item[key] for key in ("attribute", "before", "after")} for item in request.changes]
        request.digest = request.make_digest()
        request.save()
        assert approve(held).status == "stale"
        assert directory.members(group) == set()


_TEXT_THAT_NAMES_NO_OBJECT = {
    *("name", "sam_account_name", "user_principal_name", "password", "object_class", "scope", "type"),
    *("new_password", "current_password"),
}


def _types_in(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of, without what Annotated and Literal say of them."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        arguments = arguments[:1]
    if not arguments or get_origin(annotation) is Literal:
        yield annotation
    for argument in arguments:
        yield from _types_in(argument)


def test_every_text_in_the_body_of_a_change_is_known_to_name_an_object_or_not() -> None:
    """A member added later that names one by its distinguished name would be applied to whatever has the name then."""
    for operation in operations():
        if operation.effect is not Effect.CHANGE or operation.body is None:
            continue
        for name, field in operation.body.model_fields.items():
            if name in (*UPDATE_MEMBERS, PARENT_MEMBER, "clear") or name in _TEXT_THAT_NAMES_NO_OBJECT:
                continue
            assert not any(found is str for found in _types_in(field.annotation)), (
                f"{operation.name}: is {name} a reference? Then directory.changes.references has to know it."
            )


def test_the_page_of_the_approver(careful: Integration, directory: Directory, group: UUID, alice: UUID) -> None:
    held = careful.patch(f"/api/ad/groups/{group}", {"add": {"member": [directory.dn(alice)]}})
    approver = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
    page = approver.get(f"/console/changes/{held.body['changeRequest']['id']}").body.decode()
    assert "1 object referred to" in page
    assert str(directory.text(alice, "sAMAccountName")) in page
