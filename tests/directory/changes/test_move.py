"""Moving objects to another parent: what is done, recorded and refused."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.changes import tree
from lab.directory import Directory, random_name
from lab.proxy import FaultyProxy
from tests.directory.changes.test_delete import protect_from_deletion
from tests.directory.supervised import approve
from tests.support.cast import Integration, all_permissions, make_integration
from tests.support.mishaps import just_before_the_write, lose_the_answer


@pytest.fixture
def here(directory: Directory, organizational_unit: str) -> str:
    return directory.add_unit("Here", parent=organizational_unit)


@pytest.fixture
def there(directory: Directory, organizational_unit: str) -> str:
    return directory.add_unit("There", parent=organizational_unit)


@pytest.fixture
def bob(directory: Directory, here: str) -> UUID:
    return directory.add_user("Bob, the #1", parent=here)


def test_it_works(integration: Integration, bob: UUID, directory: Directory, there: str) -> None:
    before = directory.dn(bob)
    answer = integration.post(f"/api/ad/users/{bob}/move", {"parent": there})
    assert answer.status == 200, answer
    assert directory.dn(bob) == f"CN=Bob\\, the \\#1,{there}"
    assert (answer.body["distinguishedName"], answer.body["name"]) == (directory.dn(bob), "Bob, the #1")
    assert answer.body["parentId"] == str(directory.guid(there))
    assert answer.headers["ETag"] == f'"{answer.body["version"]}"'
    (record,) = OperationRecord.objects.filter(operation="users.move")
    assert (record.outcome, record.target_id, record.server is not None) == ("succeeded", bob, True)
    assert record.changes == [
        {"attribute": "distinguishedName", "before": [before], "after": [f"CN=Bob\\, the \\#1,{there}"]}
    ]


def test_every_kind_by_either_reference(integration: Integration, directory: Directory, here: str, there: str) -> None:
    moved = {
        "groups": directory.add_group(parent=here),
        "computers": directory.add_computer(parent=here),
        "organization-units": directory.guid(directory.add_unit("Inner", parent=here)),
        "objects": directory.add(f"CN=Contact,{here}", {"objectClass": "contact"}),
    }
    for resource, guid in moved.items():
        answer = integration.post(f"/api/ad/{resource}/{guid}/move", {"parent": str(directory.guid(there)).upper()})
        assert answer.status == 200, (resource, answer)
        assert directory.dn(guid).endswith(f",{there}")


def test_what_lies_below_moves_too(integration: Integration, bob: UUID, directory: Directory, there: str) -> None:
    here = directory.dn(bob).partition(",OU=")[2]
    unit = directory.guid(f"OU={here}")
    dry = integration.post(f"/api/ad/organization-units/{unit}/move?dryRun=true", {"parent": there}).body
    assert (dry["risk"], dry["warnings"][0]) == (
        "destructive",
        "This is a destructive change: it moves an organizational unit.",
    )
    assert dry["warnings"][1:] == ["1 objects below it get another distinguished name."]
    assert dry["changes"][0]["before"] == [f"OU={here}"]
    assert directory.dn(bob).endswith(here), "a dry run changes nothing"
    assert integration.post(f"/api/ad/organization-units/{unit}/move", {"parent": there}).status == 200
    assert directory.dn(bob) == f"CN=Bob\\, the \\#1,OU=Here,{there}"


def test_a_container_that_holds_accounts_moves_as_a_unit_does(
    integration: Integration, directory: Directory, here: str, there: str
) -> None:
    empty, full = (directory.add(f"CN={name},{here}", {"objectClass": "container"}) for name in ("empty", "full"))
    directory.add_contacts(1, parent=directory.dn(empty))
    directory.add_user(parent=directory.dn(full))
    for guid, risk in ((empty, "ordinary"), (full, "destructive")):
        dry = integration.post(f"/api/ad/objects/{guid}/move?dryRun=true", {"parent": there}).body
        assert dry["risk"] == risk
        assert ("This is a destructive change: it moves a container with accounts in it." in dry["warnings"]) == (
            guid == full
        )


def test_a_large_subtree_is_said_to_take_a_while(
    integration: Integration, directory: Directory, here: str, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "LARGE_SUBTREE", 3)
    unit = directory.guid(directory.add_unit("Large", parent=here))
    told = "can take the domain controller a minute"
    for name, is_told in (("one", False), ("two", False), ("three", True)):
        directory.add(f"CN={name},{directory.dn(unit)}", {"objectClass": "contact"})
        moved = integration.post(f"/api/ad/organization-units/{unit}/move?dryRun=true", {"parent": there})
        deleted = integration.delete(f"/api/ad/organization-units/{unit}?dryRun=true&recursive=true")
        for answer in (moved, deleted):
            assert any(told in warning for warning in answer.body["warnings"]) == is_told


def test_policies_are_inherited_anew(integration: Integration, directory: Directory, here: str, there: str) -> None:
    policies = f"CN=Policies,CN=System,{directory.base_dn}"
    names = []
    for display_name in ("Red", "Green", "Blue"):
        name = f"CN={{{str(uuid4()).upper()}}},{policies}"
        directory.add(name, {"objectClass": "groupPolicyContainer", "displayName": display_name})
        names.append(name)
    red, green, blue = names
    directory.modify(here, gPLink=f"[LDAP://{red};0][LDAP://{blue};1]")
    directory.modify(there, gPLink=f"[LDAP://{green};2]")
    unit = directory.guid(directory.add_unit("Inner", parent=here))
    path = f"/api/ad/organization-units/{unit}/move?dryRun=true"
    _, *warnings = integration.post(path, {"parent": there}).body["warnings"]
    assert warnings == ["Group policies no longer inherited: Red.", "Group policies newly inherited: Green."]
    directory.modify(unit, gPOptions="1")  # blocks what is not enforced
    _, *warnings = integration.post(path, {"parent": there}).body["warnings"]
    assert warnings == ["Group policies newly inherited: Green."]
    for name in names:
        directory.delete(name)


def test_the_same_parent_is_no_change(integration: Integration, bob: UUID, directory: Directory, here: str) -> None:
    version = directory.text(bob, "uSNChanged")
    answer = integration.post(f"/api/ad/users/{bob}/move", {"parent": here.upper()})
    assert (answer.status, answer.body["id"]) == (200, str(bob))
    assert directory.text(bob, "uSNChanged") == version
    assert not OperationRecord.objects.filter(operation="users.move").exists()


def refused(answer: Any) -> tuple[int, str | None]:
    return answer.status, answer.code


def test_what_cannot_be(integration: Integration, bob: UUID, directory: Directory, here: str, there: str) -> None:
    path = f"/api/ad/users/{bob}/move"
    assert refused(integration.post(path, {"parent": str(uuid4())})) == (404, "AD.Object.NotFound")
    assert refused(integration.post(path, {"parent": f"OU=no,{here}"})) == (404, "AD.Object.NotFound")
    assert refused(integration.post(path, {"parent": "nowhere"})) == (400, "Request.Invalid")
    assert refused(integration.post(path, {})) == (400, "Request.Invalid")
    assert refused(integration.post(path, {"parent": there, "name": "x"})) == (400, "Request.UnknownMember")
    assert refused(integration.post(f"/api/ad/groups/{bob}/move", {"parent": there})) == (404, "AD.Object.NotFound")
    directory.add_user("bob, THE #1", parent=there)
    assert refused(integration.post(path, {"parent": there})) == (409, "AD.Object.AlreadyExists")
    group = directory.add_group(parent=there)
    answer = integration.post(path, {"parent": str(group)})
    assert refused(answer) == (422, "AD.Directory.Rejected")
    assert "valid child class" in answer.body["directoryMessage"]
    assert directory.dn(bob).endswith(here)


def test_a_parent_that_holds_no_such_class(
    integration: Integration, connection: Any, bob: UUID, directory: Directory, here: str, there: str
) -> None:
    unit = directory.guid(there)
    supervised = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    path = f"/api/ad/organization-units/{unit}/move"
    for answer in (
        integration.post(f"{path}?dryRun=true", {"parent": str(bob)}),
        supervised.post(path, {"parent": str(bob)}),
    ):
        assert refused(answer) == (422, "AD.Directory.Rejected")
        assert answer.body["errors"][0]["pointer"] == "#/parent"
    assert directory.dn(unit) == there


def test_not_below_itself(integration: Integration, directory: Directory, here: str) -> None:
    inner = directory.add_unit("Inner", parent=here)
    unit = directory.guid(here)
    for parent in (here, inner):
        answer = integration.post(f"/api/ad/organization-units/{unit}/move", {"parent": parent})
        assert refused(answer) == (409, "AD.Object.MoveBelowItself")


def test_the_root_stays(integration: Integration, directory: Directory, here: str) -> None:
    root = directory.guid(directory.base_dn)
    answer = integration.post(f"/api/ad/objects/{root}/rename", {"name": "corp2"})
    assert refused(answer) == (422, "AD.Directory.Rejected")


def test_what_the_domain_keeps_in_place(integration: Integration, directory: Directory, here: str) -> None:
    controllers = directory.guid(f"OU=Domain Controllers,{directory.base_dn}")
    answer = integration.post(f"/api/ad/organization-units/{controllers}/move", {"parent": here})
    assert refused(answer) == (422, "AD.Directory.Rejected")


def test_protected_from_deletion(integration: Integration, directory: Directory, here: str, there: str) -> None:
    unit = directory.guid(here)
    protect_from_deletion(directory, unit)
    path = f"/api/ad/organization-units/{unit}"
    assert refused(integration.post(f"{path}/move", {"parent": there})) == (409, "AD.Object.DeletionProtected")
    assert directory.dn(unit) == here
    assert integration.post(f"{path}/rename", {"name": "Elsewhere"}).status == 200


def test_scopes(connection: Any, directory: Directory, organizational_unit: str, bob: UUID, there: str) -> None:
    here = directory.guid(f"OU=Here,{organizational_unit}")
    outside = directory.guid(there)
    inner = directory.add_unit("Inner", parent=f"OU=Here,{organizational_unit}")
    confined = make_integration(connection, scopes=[here])
    assert refused(confined.post(f"/api/ad/users/{bob}/move", {"parent": there})) == (403, "Auth.Forbidden")
    other = make_integration(connection, scopes=[outside])
    assert refused(other.post(f"/api/ad/users/{bob}/move", {"parent": there})) == (403, "Auth.Forbidden")
    # The base of a scope itself: its parent is outside.
    answer = confined.post(f"/api/ad/organization-units/{here}/move", {"parent": inner})
    assert refused(answer) == (403, "Auth.Forbidden")
    answer = confined.post(f"/api/ad/organization-units/{here}/rename", {"name": "Mine"})
    assert refused(answer) == (403, "Auth.Forbidden")
    assert confined.post(f"/api/ad/users/{bob}/move", {"parent": inner}).status == 200
    both = make_integration(connection, scopes=[here, outside])
    assert both.post(f"/api/ad/users/{bob}/move", {"parent": there}).status == 200


def test_permissions(connection: Any, directory: Directory, bob: UUID, there: str) -> None:
    mover = make_integration(connection, may=["directory.move_object"])
    assert mover.post(f"/api/ad/users/{bob}/rename", {"name": "Robert"}).status == 403
    assert mover.post(f"/api/ad/users/{bob}/move", {"parent": there}).status == 200
    updater = make_integration(connection, may=["directory.update_group", "directory.update_user"])
    assert updater.post(f"/api/ad/users/{bob}/move", {"parent": there}).status == 403


def test_what_holds_a_protected_object(connection: Any, directory: Directory, here: str, there: str) -> None:
    deep = directory.add_unit("Deep", parent=here)
    administrator = directory.add_user(parent=deep)
    directory.add_values(f"CN=Backup Operators,CN=Builtin,{directory.base_dn}", member=directory.dn(administrator))
    ordinary = make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})
    unit = directory.guid(here)
    path = f"/api/ad/organization-units/{unit}"
    assert ordinary.post(f"{path}/move", {"parent": there}).status == 403
    assert ordinary.post(f"{path}/rename", {"name": "x"}).status == 403
    assert ordinary.post(f"/api/ad/users/{administrator}/move", {"parent": there}).status == 403
    trusted = make_integration(connection)
    dry = trusted.post(f"{path}/rename?dryRun=true", {"name": "x"}).body
    assert dry["risk"] == "security"
    assert trusted.post(f"{path}/move?dryRun=true", {"parent": there}).body["risk"] == "security"


def test_if_match_and_idempotency(integration: Integration, bob: UUID, directory: Directory, there: str) -> None:
    path = f"/api/ad/users/{bob}/move"
    answer = integration.post(path, {"parent": there}, **{"If-Match": '"0"'})
    assert refused(answer) == (412, "AD.Object.VersionMismatch")
    headers = {"If-Match": integration.get(f"/api/ad/users/{bob}").headers["ETag"], "Idempotency-Key": random_name("k")}
    first = integration.post(path, {"parent": there}, **headers)
    again = integration.post(path, {"parent": there}, **headers)
    assert (first.status, again.status, again.headers.get("Idempotency-Replayed")) == (200, 200, "true")
    assert again.body == first.body


def test_a_unit_waits_for_a_person(connection: Any, directory: Directory, here: str, there: str, bob: UUID) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    assert careful.post(f"/api/ad/users/{bob}/move", {"parent": there}).status == 200, "an ordinary change"
    unit = directory.guid(here)
    held = careful.post(f"/api/ad/organization-units/{unit}/move", {"parent": there})
    assert held.body["changeRequest"]["risk"] == "destructive"
    assert directory.dn(unit) == here
    assert approve(held).status == "applied"
    assert directory.dn(unit) == f"OU=Here,{there}"


def test_whichever_path_names_the_unit(connection: Any, directory: Directory, here: str, there: str) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    assert careful.post(f"/api/ad/objects/{directory.guid(here)}/move", {"parent": there}).status == 202


def test_a_move_approved_too_late_is_stale(connection: Any, directory: Directory, here: str, there: str) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    unit = directory.guid(here)
    held = careful.post(f"/api/ad/organization-units/{unit}/move", {"parent": there})
    directory.rename(unit, "Renamed")
    assert approve(held).status == "stale"
    assert directory.dn(unit).startswith("OU=Renamed,")
    assert not directory.dn(unit).endswith(there)


def test_a_name_that_changes_on_the_way(
    integration: Integration, bob: UUID, directory: Directory, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    just_before_the_write(monkeypatch, lambda: directory.rename(bob, "Robert"))
    answer = integration.post(f"/api/ad/users/{bob}/move", {"parent": there})
    assert (answer.status, answer.body["name"]) == (200, "Robert")
    assert directory.dn(bob) == f"CN=Robert,{there}"
    outcomes = OperationRecord.objects.filter(operation="users.move").order_by("at").values_list("outcome", flat=True)
    assert list(outcomes) == ["failed", "succeeded"]


def test_a_lost_answer(
    through_proxy: Integration,
    directory: Directory,
    directory_proxy: FaultyProxy,
    bob: UUID,
    there: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert through_proxy.get(f"/api/ad/users/{bob}").status == 200
    lose_the_answer(monkeypatch, directory_proxy)
    answer = through_proxy.post(f"/api/ad/users/{bob}/move", {"parent": there})
    assert answer.status == 200, answer
    assert directory.dn(bob).endswith(there)
    (record,) = OperationRecord.objects.filter(operation="users.move")
    assert record.outcome == "succeeded"
