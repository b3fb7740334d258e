"""Groups of a directory that stand for groups of permissions: who is in the one, by nested groups too, is in the other.

People are put into the groups, and taken out of them, when they sign in and whenever their account is looked up
(`standing`): at least once a minute while they or what acts for them is in use. Only what came so is taken away so: a
group that somebody was put into by hand is theirs whatever the directory says. A directory that does not answer changes
nothing; a group that is gone from it, is none of security any more, or was moved out of the connection's base has
nobody in it.
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Q

from active_directory import Client, DistinguishedName, Entry, GroupType, InvalidValue
from audit.model_changes.recording import recorded
from audit.model_changes.unattended import call_of_gateway
from core.shapes import parse_guid
from directory import errors as directory_errors
from directory.groups.ancestry import ABOVE_ATTRIBUTES, groups_above
from directory.lookup.access import is_within_any
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from keys.models import Person
from keys.models.groups import DirectoryGroup, DirectoryMembership

GROUP_ATTRIBUTES = ("objectGUID", "objectSid", "objectClass", "groupType")
"""What a group of a directory must have been read with to be judged."""


def is_security_group(entry: Entry) -> bool:
    """Whether an entry, read with GROUP_ATTRIBUTES, is a group that may give rights ([MS-ADTS] 2.2.12)."""
    return "objectSid" in entry and bool(
        GroupType.from_directory(entry.integer("groupType") or 0) & GroupType.SECURITY_ENABLED
    )


def find_security_group(connection: DirectoryConnection, text: str) -> Entry | None:
    """The group that a distinguished name or an objectGUID names; None when no security group of the directory is so.

    Raises Unavailable when the directory does not answer.
    """
    reference: UUID | str | None = parse_guid(text)
    if reference is None:
        try:
            reference = str(DistinguishedName.parse(text))
        except InvalidValue:
            return None
    client = get_client(connection.id)
    try:
        with directory_errors.translated():
            entry = client.find(reference, GROUP_ATTRIBUTES)
    except directory_errors.DirectoryRejected:  # what is no name to it
        return None
    if entry is None or not is_security_group(entry) or not is_within_any(entry.dn, (client.settings.base_dn,)):
        return None
    return entry


def follow(connection_id: UUID, client: Client, people: Sequence[Person]) -> None:
    """Let people of one directory be in just those groups of permissions that groups of it stand for now.

    Raises Unavailable when the directory does not answer; then nothing has changed for those who were not asked about.
    """
    given = _given_to(people)
    mapped = list(DirectoryGroup.objects.filter(connection_id=connection_id).values_list("group_id", "object_guid"))
    if not mapped and not any(given.values()):
        return
    with directory_errors.translated():
        sids = _sids_of(client, {guid for _, guid in mapped})
        for person in people:
            assert person.object_guid is not None
            tokens = sids_above(client, person.object_guid) if sids else frozenset()
            wanted = {group for group, guid in mapped if sids.get(guid) in tokens}
            _put(person, wanted, given.get(person.pk, set()))


def _given_to(people: Sequence[Person]) -> dict[int, set[int]]:
    """The groups that people are in because of the directory, by their primary keys."""
    given: dict[int, set[int]] = {}
    rows = DirectoryMembership.objects.filter(person__in=[person.pk for person in people])
    for person, group in rows.values_list("person_id", "group_id"):
        given.setdefault(person, set()).add(group)
    return given


def _sids_of(client: Client, guids: Collection[UUID]) -> dict[UUID, bytes]:
    """The SIDs of those groups that count, by objectGUID: one that was made anew under the same name is another one."""
    found = client.read_many(guids, GROUP_ATTRIBUTES, of_domain=True)
    return {
        guid: entry.values("objectSid")[0]
        for guid, entry in found.items()
        if is_security_group(entry) and is_within_any(entry.dn, (client.settings.base_dn,))
    }


def sids_above(client: Client, account: UUID) -> frozenset[bytes]:
    """The SIDs of all groups that an account is in, nested ones and its primary group included.

    As the domain controller computes them for a sign-in ([MS-ADTS] 3.1.1.4.5.19, tokenGroups); where the gateway's
    account may not read that, by following memberOf.
    """
    entry = client.find(account, (*ABOVE_ATTRIBUTES, "tokenGroups"))
    if entry is None:
        return frozenset()
    if computed := entry.values("tokenGroups"):
        return frozenset(computed)
    security = (above.group for above in groups_above(client, entry) if is_security_group(above.group))
    return frozenset(sid for group in security for sid in group.values("objectSid"))


def _put(person: Person, wanted: set[int], given: set[int]) -> None:
    """Put somebody into groups and out of others, in one record. Groups they are in by hand stay as they are."""
    if wanted <= _groups_of(person) and given <= wanted:
        return
    reason = f"{person.username}: the groups of the account in the directory have changed."
    with recorded(call_of_gateway(reason), operation="people.update") as administration:
        administration.watch_row(person)
        joined, left = wanted - _groups_of(person), given - wanted
        person.groups.add(*joined)
        person.groups.remove(*left)
        marks = [DirectoryMembership(person=person, group_id=group) for group in joined]
        DirectoryMembership.objects.bulk_create(marks, ignore_conflicts=True)
        DirectoryMembership.objects.filter(person=person, group_id__in=left).delete()


def _groups_of(person: Person) -> set[int]:
    return set(person.groups.values_list("pk", flat=True))


def keep_directory_groups(group: Group, wanted: Mapping[tuple[UUID, UUID], str]) -> None:
    """Let a group of permissions have just these groups of directories, by connection and objectGUID, with their names.

    Joins the caller's transaction and record. Its members come and go when their accounts are looked up.
    """
    kept = Q(pk__in=())
    for connection, guid in wanted:
        kept |= Q(connection_id=connection, object_guid=guid)
    DirectoryGroup.objects.filter(group=group).exclude(kept).delete()
    for (connection, guid), name in wanted.items():
        DirectoryGroup.objects.update_or_create(
            group=group, connection_id=connection, object_guid=guid, defaults={"distinguished_name": name}
        )
