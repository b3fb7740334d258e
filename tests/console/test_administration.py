"""People and roles as administrators look after them: presets, groups, sessions of others, widening a role."""

import time

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from keys.models import Person, Role
from keys.permission_catalogue import MEANINGS, PRESETS
from lab.domain import Domain
from tests.console.access_pages import fields_of, followed, make_unreachable, text_of
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, make_connection, make_integration, make_person, permissions

pytestmark = pytest.mark.django_db

READ = "directory.read_object"


@pytest.fixture
def console() -> Console:
    return Console(make_person("grace", superuser=True))


def test_presets_name_permissions_that_there_are() -> None:
    for preset in PRESETS:
        assert preset.permissions <= MEANINGS.keys()
        assert preset.for_role
    danger = {
        "keys.change_person",
        "directory.manage_protected",
        "directory.delete_user",
        "directory.manage_membership",
    }
    for name in ("help-desk", "approver", "auditor"):
        assert not danger & next(preset.permissions for preset in PRESETS if preset.name == name)


def test_a_preset_fills_the_form_without_scripts(console: Console) -> None:
    browser = PlainBrowser(console).open("/console/people/new")
    browser.press("Approver", username="ida", email="ida@example.com")
    assert 'value="approvals.decide_change" checked' in browser.content
    assert 'value="ida"' in browser.content
    browser.press("Create the account", password="a long and unusual phrase")
    ida = Person.objects.get(username="ida")
    assert (ida.email, ida.has_perm("approvals.decide_change"), ida.has_perm("directory.delete_user")) == (
        *("ida@example.com", True, False),
    )
    browser.open("/console/roles/new").press("Help desk", name="Desk").press("Create the role")
    role = Role.objects.get(name="Desk")
    assert set(role.permissions.values_list("codename", flat=True)) >= {"unlock_account", "reset_password"}


def test_a_group_gives_its_permissions_to_its_members(console: Console) -> None:
    ada = make_person("ada")
    browser = (
        PlainBrowser(console)
        .open("/console/people/groups/new")
        .press("Auditor")
        .press("Create the group", name="Revision")
    )
    assert "Revision was created." in browser.text
    browser.open(f"/console/people/{ada.public_id}/permissions").press("Save", groups=["Revision"])
    assert Person.objects.get(pk=ada.pk).has_perm("audit.read_log")
    record = OperationRecord.objects.get(operation="people.update")
    assert "the person joins a group" in record.raised_access
    group = Group.objects.get()
    browser.open(f"/console/people/groups/00000000-0000-0000-0000-{group.pk:012x}")
    assert "1 member" in browser.text
    browser.press("Delete Revision")
    assert not Person.objects.get(pk=ada.pk).has_perm("audit.read_log")


def test_only_superusers_touch_groups() -> None:
    admin = Console(make_person(may=["keys.view_person", "keys.change_person", READ]))
    group = Group.objects.create(name="Readers")
    group.permissions.set(permissions([READ]))
    ada = make_person("ada")
    path = f"/rest/permission-groups/00000000-0000-0000-0000-{group.pk:012x}"
    assert admin.get(path).body["permissions"] == [READ]
    assert admin.patch(path, {"permissions": []}).status == 403
    assert admin.delete(path).status == 403
    assert admin.post("/rest/permission-groups", {"name": "Mine"}).status == 403
    assert admin.patch(f"/rest/users/{ada.public_id}", {"groups": ["Readers"]}).status == 403
    assert console_of_superuser().patch(f"/rest/users/{ada.public_id}", {"groups": ["None"]}).status == 400


def console_of_superuser() -> Console:
    return Console(make_person(superuser=True))


def test_sessions_of_others_are_seen_and_ended(console: Console) -> None:
    ada = Console(make_person("ada", may=[READ]))
    path = f"/console/people/{ada.person.public_id}"
    assert "1 session" in text_of(console.get(path))
    assert "They are signed out everywhere" in followed(console, console.submit(f"{path}/sessions/end"))
    assert ada.get("/rest/session").status == 401
    record = OperationRecord.objects.get(operation="people.end-sessions")
    assert record.changes == [{"attribute": "sessionsEnded", "before": [], "after": ["1"]}]
    assert Console(ada.person, by_password=True).get("/rest/session").status == 200, "they may come back"
    below = Console(make_person(may=["keys.view_person", "keys.change_person"]))
    for method, place in (("GET", "sessions"), ("POST", "end-sessions")):
        assert below.call(method, f"/rest/users/{console.person.public_id}/{place}").status == 403


def test_what_widening_a_role_means_is_seen_before_it_is_saved(console: Console) -> None:
    integration = make_integration(None, may=[READ])
    role = integration.key.role
    path = f"/console/roles/{role.pk}/edit"
    more = [READ, "directory.delete_user"]
    seen = console.submit(path, name=role.name, description="", scopes="", permissions=more)
    assert (seen.status, "Nothing is saved yet." in text_of(seen)) == (200, True)
    assert integration.key.name in text_of(seen)
    assert "Without the recycle bin" in text_of(seen)
    assert role.permissions.count() == 1
    browser = PlainBrowser(console).open(path)
    browser.press("Save", permissions=more).press("Save")
    assert role.permissions.count() == 2
    browser.open(path).press("Save", permissions=[READ])
    assert role.permissions.count() == 1, "less needs no second look"


@pytest.mark.django_db(transaction=True)
def test_a_broken_connection_looks_broken_and_is_not_offered(console: Console, domain: Domain) -> None:
    make_connection(domain, name="Works")
    make_unreachable(name="Lost")
    deadline = time.monotonic() + 120
    while fields_of(console.get("/console/connections/states")).count("Broken") != 1:  # what was found is kept for 2 s
        assert time.monotonic() < deadline
        time.sleep(0.1)
    while 'value="Lost"' in (page := Client().get("/console/sign-in").content.decode()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert 'value="Works"' in page
    assert "Lost cannot be reached at the moment" in page


def test_scopes_are_checked_at_once(console: Console, domain: Domain) -> None:
    connection = make_connection(domain, name="Corp")
    checked = console.submit("/console/roles/scopes", scopes=connection.base_dn)
    assert "in Corp" in text_of(checked)
    wrong = console.submit("/console/roles/scopes", scopes="OU=Nowhere,DC=corp")
    assert "is in none of the enabled directories" in text_of(wrong)
    typed = {"choice": "new", "name": "Desk", "scopes": "OU=Nowhere,DC=corp", "go": "on"}
    step = console.submit("/console/keys/new/role", permissions=[READ], **typed)
    assert (step.status, 'id="scopes-error"' in fields_of(step)) == (400, True)
    assert DirectoryConnection.objects.count() == 1
