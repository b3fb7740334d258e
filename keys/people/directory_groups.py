"""Groups of a directory whose members, nested ones included, belong to a permission group.

Memberships are updated when people sign in and whenever their account is checked (`account_status`), at least once a
minute while they or their keys are in use. Only memberships that came from the directory are taken away again: people
who were put into a group by hand stay in it. If a directory does not answer, nothing changes. A group counts as empty
if it was deleted, is no longer a security group, or was moved out of the connection's base.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Q

from active_directory import Client, DistinguishedName, Entry, GroupType, InvalidValue
from audit.model_changes.recording import call_of_gateway, recorded
from core.shapes import parse_guid
from directory import errors as directory_errors
from directory.groups import MEMBERSHIP_ATTRIBUTES, groups_above
from directory.lookup.access import is_within_any
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from keys.models import Person
from keys.models.people import DirectoryGroup, DirectoryMembership

GROUP_ATTRIBUTES = ("objectGUID", "objectSid", "objectClass", "groupType")
"""The attributes that a group of a directory has to be read with."""


def is_security_group(entry: Entry) -> bool:
    """Whether an entry, read with GROUP_ATTRIBUTES, is a security group ([MS-ADTS] 2.2.12)."""
    return "objectSid" in entry and bool(
        GroupType.from_directory(entry.integer("groupType") or 0) & GroupType.SECURITY_ENABLED
    )


def find_security_group(connection: DirectoryConnection, text: str) -> Entry | None:
    """The security group with a distinguished name or objectGUID; None if the directory has none.

    Raises Unavailable if the directory does not answer.
    """
    reference: UUID | str | None = parse_guid(text)
    if reference is None:
        try:
            reference = str(DistinguishedName.parse(text))
        except InvalidValue:
            return None
    client = get_client(connection.id)
    try:
        with directory_errors.translate_ldap_errors():
            entry = client.find(reference, GROUP_ATTRIBUTES)
    except directory_errors.DirectoryRejected:  # AD may reject a name that parses
        return None
    if entry is None or not is_security_group(entry) or not is_within_any(entry.dn, (client.settings.base_dn,)):
        return None
    return entry


def update_memberships(connection_id: UUID, client: Client, people: Sequence[Person]) -> None:
    """Bring the memberships of people of one directory in line with the groups of their accounts.

    Raises Unavailable if the directory stops answering; the people who were not reached yet keep their memberships.
    """
    given = _groups_from_directory(people)
    mapped = list(DirectoryGroup.objects.filter(connection_id=connection_id).values_list("group_id", "object_guid"))
    if not mapped and not any(given.values()):
        return
    with directory_errors.translate_ldap_errors():
        sids = _sids_of(client, {guid for _, guid in mapped})
        for person in people:
            assert person.object_guid is not None
            tokens = group_sids_of(client, person.object_guid) if sids else frozenset()
            wanted = {group for group, guid in mapped if sids.get(guid) in tokens}
            _set_groups(person, wanted, given.get(person.pk, set()))


def _groups_from_directory(people: Sequence[Person]) -> dict[int, set[int]]:
    """The groups that people are in because of the directory, all by primary key."""
    given: dict[int, set[int]] = {}
    rows = DirectoryMembership.objects.filter(person__in=[person.pk for person in people])
    for person, group in rows.values_list("person_id", "group_id"):
        given.setdefault(person, set()).add(group)
    return given


def _sids_of(client: Client, guids: Collection[UUID]) -> dict[UUID, bytes]:
    """The SIDs of the groups that count, by objectGUID. A group recreated under the same name is another one."""
    found = client.read_many(guids, GROUP_ATTRIBUTES, of_domain=True)
    return {
        guid: entry.values("objectSid")[0]
        for guid, entry in found.items()
        if is_security_group(entry) and is_within_any(entry.dn, (client.settings.base_dn,))
    }


def group_sids_of(client: Client, account: UUID) -> frozenset[bytes]:
    """The SIDs of all security groups that an account is in, nested ones and its primary group included.

    The domain controller computes them as for a sign-in ([MS-ADTS] 3.1.1.4.5.19, tokenGroups). If the gateway's account
    may not read that attribute, memberOf is followed instead.
    """
    entry = client.find(account, (*MEMBERSHIP_ATTRIBUTES, "tokenGroups"))
    if entry is None:
        return frozenset()
    if computed := entry.values("tokenGroups"):
        return frozenset(computed)
    security = (above.group for above in groups_above(client, entry) if is_security_group(above.group))
    return frozenset(sid for group in security for sid in group.values("objectSid"))


def _set_groups(person: Person, wanted: set[int], given: set[int]) -> None:
    """Put a person into groups and out of others, with one log record. Groups they are in by hand stay."""
    if wanted <= _groups_of(person) and given <= wanted:
        return
    reason = f"{person.username}: the groups of the account in the directory have changed."
    with recorded(call_of_gateway(reason), person, operation="people.update"):
        joined, left = wanted - _groups_of(person), given - wanted
        person.groups.add(*joined)
        person.groups.remove(*left)
        marks = [DirectoryMembership(person=person, group_id=group) for group in joined]
        DirectoryMembership.objects.bulk_create(marks, ignore_conflicts=True)
        DirectoryMembership.objects.filter(person=person, group_id__in=left).delete()


def _groups_of(person: Person) -> set[int]:
    return set(person.groups.values_list("pk", flat=True))


def set_directory_groups(group: Group, wanted: Mapping[tuple[UUID, UUID], str]) -> None:
    """Set the groups of directories of a permission group: distinguished names by connection and objectGUID.

    Joins the caller's transaction and record. Memberships follow when the accounts are checked next.
    """
    kept = Q(pk__in=())
    for connection, guid in wanted:
        kept |= Q(connection_id=connection, object_guid=guid)
    DirectoryGroup.objects.filter(group=group).exclude(kept).delete()
    for (connection, guid), name in wanted.items():
        DirectoryGroup.objects.update_or_create(
            group=group, connection_id=connection, object_guid=guid, defaults={"distinguished_name": name}
        )
