"""Was a write applied? The evidence of every kind of write, before and after it."""

import json
from uuid import UUID

import pytest

from active_directory import (
    Add,
    Client,
    Delete,
    Modification,
    Modify,
    Rename,
    ServerSettings,
    Write,
    guid_reference,
    quoted_password,
)
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES, evidence_of, find_created, find_outcome
from lab.directory import Directory
from lab.domain import Domain


def prove(client: Client, write: Write, target: UUID | str) -> None:
    """Before the write the evidence says no, after it yes; it survives being stored. Of an Add the parent is given."""
    entry = client.read(target, EVIDENCE_ATTRIBUTES)
    evidence = json.loads(json.dumps(evidence_of(write, entry=entry, schema=client.schema)))
    assert find_outcome(client, evidence) is False
    client.write(write)
    assert find_outcome(client, evidence) is True


def modify(guid: UUID, *steps: Modification) -> Modify:
    return Modify(guid_reference(guid), steps)


def test_a_new_object(client: Client, organizational_unit: str) -> None:
    prove(client, Add(f"OU=new,{organizational_unit}", {"objectClass": [b"organizationalUnit"]}), organizational_unit)


def test_attributes(client: Client, ada: UUID) -> None:
    title = Modification("replace", "title", (b"Countess",))
    mail = Modification("add", "mail", (b"ada@corp",))
    prove(client, modify(ada, title, mail), ada)
    prove(client, modify(ada, Modification("delete", "title", (b"Countess",))), ada)


def test_an_extension_of_the_schema(client: Client, ada: UUID) -> None:
    prove(client, modify(ada, Modification("add", "uidNumber", (b"1815",))), ada)


def test_a_password(client: Client, ada: UUID) -> None:
    prove(client, modify(ada, Modification("replace", "unicodePwd", (quoted_password("Correct-Horse-9"),))), ada)


def test_members(client: Client, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    group = directory.add_group(parent=organizational_unit)
    member = (directory.dn(ada).lower().encode(),)
    prove(client, modify(group, Modification("add", "member", member)), group)
    prove(client, modify(group, Modification("delete", "member", member)), group)


def test_members_of_whom_others_took_some_away(
    client: Client, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    group = directory.add_group(parent=organizational_unit)
    names = [directory.dn(ada), directory.dn(directory.add_user(parent=organizational_unit))]
    write = modify(group, Modification("add", "member", tuple(name.encode() for name in names)))
    evidence = evidence_of(write, entry=client.read(group, EVIDENCE_ATTRIBUTES), schema=client.schema)
    client.write(write)
    directory.remove_values(group, member=names[0])
    assert find_outcome(client, evidence) is None
    directory.remove_values(group, member=names[1])
    assert find_outcome(client, evidence) is False  # as far as the directory can tell


def test_a_thousand_members_leave_little_evidence(
    client: Client, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    group = directory.add_group(parent=organizational_unit)
    members = tuple(f"CN={number},{organizational_unit}".encode() for number in range(1000))
    write = modify(group, Modification("add", "member", members))
    evidence = evidence_of(write, entry=client.read(group, EVIDENCE_ATTRIBUTES), schema=client.schema)
    assert len(json.dumps(evidence)) < 2000


def test_a_name_and_a_place(client: Client, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    prove(client, Rename(directory.dn(ada), "CN=Countess"), ada)
    inner = directory.add_unit("Inner", parent=organizational_unit)
    prove(client, Rename(directory.dn(ada), "CN=Countess", inner), ada)


def test_the_end_of_an_object(client: Client, ada: UUID, directory: Directory) -> None:
    prove(client, Delete(directory.dn(ada)), ada)


def test_what_cannot_be_known(client: Client, ada: UUID, directory: Directory, domain: Domain) -> None:
    write = modify(ada, Modification("replace", "title", (b"Countess",)))
    evidence = evidence_of(write, entry=client.read(ada, EVIDENCE_ATTRIBUTES), schema=client.schema)
    directory.delete(ada)
    assert find_outcome(client, evidence) is None
    assert find_outcome(client, {}) is None
    nowhere = Client(
        ServerSettings(urls=("ldaps://127.0.33.250",), base_dn=domain.base_dn, bind_dn="x", bind_password="x")
    )
    assert find_outcome(nowhere, evidence) is None


@pytest.mark.parametrize("moment", ["before", "after"])
def test_members_that_got_other_names(
    client: Client, ada: UUID, directory: Directory, organizational_unit: str, moment: str
) -> None:
    group = directory.add_group(parent=organizational_unit)
    identities = {directory.dn(ada): ada}
    join = modify(group, Modification("add", "member", (directory.dn(ada).encode(),)))
    evidence = evidence_of(
        join, entry=client.read(group, EVIDENCE_ATTRIBUTES), schema=client.schema, identities=identities
    )
    if moment == "after":
        client.write(join)
    directory.rename(ada, "Ada renamed")
    assert find_outcome(client, evidence) is (moment == "after")
    directory.delete(ada)
    assert find_outcome(client, evidence) is None, "with the member its membership went"


def test_an_object_renamed_into_the_name_of_a_new_one(
    client: Client, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    """It is not what was created, however alike: a revert would delete it."""
    write = Add(f"CN=New,{organizational_unit}", {"objectClass": (b"user",), "sAMAccountName": (b"new-one",)})
    evidence = evidence_of(write, entry=client.read(ada, EVIDENCE_ATTRIBUTES))
    directory.rename(ada, "New")
    assert find_outcome(client, evidence) is False
    assert find_created(client, evidence) is None
