"""What the operations log gives back to a deleted object is inside the scopes of whoever restores it."""

import json
from typing import Any
from uuid import UUID

import pytest

from active_directory import Schema, is_credential
from directory.lookup.connection import get_client
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.directory.changes.restoring import restore
from tests.directory.lookup.test_outside_references import Estate, octets, references, takes
from tests.support.cast import Integration, make_connection, make_integration
from tests.support.configuration import Configure


@pytest.fixture
def corp(db: None, domain_without_recycle_bin: Domain) -> Any:
    return make_connection(domain_without_recycle_bin)


@pytest.fixture
def everything(corp: Any) -> Integration:
    return make_integration(corp)


@pytest.fixture
def estate(tombstone_directory: Directory) -> Estate:
    return Estate(tombstone_directory, tombstone_directory.add_unit(random_name("unit")))


@pytest.fixture
def confined(corp: Any, estate: Estate) -> Integration:
    return make_integration(corp, scopes=[estate.unit_id])


def set_outside(directory: Directory, id: UUID, schema: Schema, estate: Estate) -> set[str]:
    """Refer to what is outside in every attribute that the object takes, and to what is inside where two fit."""
    taken = set()
    for name, (attribute, form) in references(schema).items():
        if attribute.is_back_link or is_credential(name) or name == "primaryGroupID":
            continue
        outside, inside = (
            octets(attribute, form, estate.value(attribute, form, of)) for of in (estate.right, estate.seen)
        )
        choices = [[outside]] if attribute.single_valued else [[inside, outside], [outside]]
        if any(takes(directory, id, name, values) for values in choices):
            taken.add(name)
    return taken


def test_nothing_outside_is_given_back(
    corp: Any, everything: Integration, confined: Integration, estate: Estate, tombstone_directory: Directory
) -> None:
    directory, schema = tombstone_directory, get_client(corp.pk).schema
    marks = [estate.right[name].lower() for name in ("dn", "sid", "guid", "host", "descriptor")]
    objects = {
        "users": directory.add_user(parent=estate.inside),
        "groups": directory.add_group(parent=estate.inside),
        "computers": directory.add_computer(parent=estate.inside),
        "organization-units": directory.guid(directory.add_unit(random_name("in"), parent=estate.inside)),
        "objects": estate.service_id,
    }
    lost: set[str] = set()
    kept: set[str] = set()
    for resource, id in objects.items():
        taken = set_outside(directory, id, schema, estate)
        assert everything.delete(f"/api/ad/{resource}/{id}").status == 204
        dry = restore(confined, id, query="?dryRun=true")
        shown = json.dumps(dry.body).lower()
        assert not [mark for mark in marks if json.dumps(mark)[1:-1] in shown], resource
        lost |= {name for name in taken if any(text.startswith(f"{name}: ") for text in dry.body["warnings"])}
        if id == estate.service_id:  # the directory lets nobody write again how often its password changes
            continue
        answer = restore(confined, id)
        assert answer.status == 200, answer
        after = directory.read(id)
        for name in taken:
            attribute, form = references(schema)[name]
            values = after.get(name, [])
            assert octets(attribute, form, estate.value(attribute, form, estate.right)) not in values, name
            if values:
                kept.add(name)
    assert {
        "manager",
        "managedBy",
        "member",
        "secretary",
        "gPLink",
        "userWorkstations",
        "msDS-GroupMSAMembership",
    } <= lost
    assert {"secretary", "member"} <= kept, "what is inside comes back beside it"


def test_memberships_outside_stay_lost_and_are_not_named(
    everything: Integration, confined: Integration, estate: Estate, tombstone_directory: Directory
) -> None:
    inside, outside = estate.seen["dn"], estate.right["dn"]
    assert everything.delete(f"/api/ad/users/{estate.user_id}").status == 204
    dry = restore(confined, estate.user_id, query="?dryRun=true")
    assert outside.lower() not in json.dumps(dry.body).lower()
    (warning,) = [text for text in dry.body["warnings"] if text.startswith("Memberships that stay lost")]
    assert warning.endswith(": 2 outside the caller's scopes.")
    assert restore(confined, estate.user_id).status == 200
    assert inside in {value.decode() for value in tombstone_directory.read(estate.user_id)["memberOf"]}
    assert tombstone_directory.members(UUID(estate.right["guid"])) == set()


def test_some_attributes_may_refer_to_what_is_outside(
    everything: Integration,
    confined: Integration,
    estate: Estate,
    tombstone_directory: Directory,
    configure: Configure,
) -> None:
    tombstone_directory.modify(estate.user_id, manager=estate.right["dn"], secretary=estate.right["dn"])
    assert everything.delete(f"/api/ad/users/{estate.user_id}").status == 204
    configure("Scopes", OutsideReferences=("manager",))
    assert restore(confined, estate.user_id).status == 200
    after = tombstone_directory.read(estate.user_id)
    assert (after["manager"], "secretary" in after) == ([estate.right["dn"].encode()], False)
