"""Accounts and groups of a directory that give more rights in the gateway than a caller has.

A caller who could reset the password of a person with more rights, or with rights elsewhere, could sign in as them. And
a caller who could add an account to a group of a directory that stands for a permission group would have its rights
at the next sign-in. So these accounts, these groups, nested groups and all their members are protected against that
caller, like those of the domain's administrators (docs/api.md#protected-objects), even if nobody among them has ever
signed in. `directory.protection.rules` decides what is protected against everybody.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet

from active_directory import And, Client, Delete, Entry, Equals, InChain, Modify, Or, Rename, Scope, Write
from core.call import Call, CredentialKind
from core.database.existence import has_rows
from core.text.messages import message
from directory.groups import MEMBERSHIP_ATTRIBUTES, groups_above
from directory.lookup.access import client_of, is_within_any
from directory.shapes.proposal import Proposal
from keys.models import Person
from keys.models.people import DirectoryGroup, GroupScopes
from keys.permission_catalogue import names_by_key
from keys.permissions.scopes import is_within, scopes_of_people

_POLICY_LINKS = frozenset({"gplink", "gpoptions"})


_AS_THEMSELVES = (CredentialKind.SESSION, CredentialKind.PLATFORM_TOKEN)


def is_superuser(call: Call) -> bool:
    """Whether the caller is a superuser in person. A superuser's key has only the permissions of its role."""
    return (
        call.credential.kind in _AS_THEMSELVES
        and Person.objects.filter(pk=call.person.id, is_active=True, is_superuser=True).exists()
    )


def protection_reason(call: Call, proposal: Proposal) -> str | None:
    """Why a change needs the permission for protected objects, in words; None if it does not.

    It does if it writes the account of a person with more rights than the caller, or moves, renames, deletes or
    re-links the policies of a container with such an account. The same goes for members, present or new, of a group of
    the directory that gives more rights than the caller has.
    """
    target = proposal.target
    if target.id is not None and _more_privileged_accounts(call, [target.id]):
        return message("the account of a person who may do more in this gateway than the caller")
    reaches_below = _reaches_below(proposal.write)
    if reaches_below and _holds_any(call, target.distinguished_name, _more_privileged_accounts(call)):
        return message("it holds the account of a person who may do more in this gateway than the caller")
    groups = MorePrivilegingGroups.of(call)
    if any(groups.contains(touched) for touched in _touched_objects(proposal)):
        return message("by a group of the directory it gives more in this gateway than the caller may do")
    if reaches_below and groups.has_members_below(target.distinguished_name):
        return message("what it holds gives, by a group of the directory, more in this gateway than the caller may do")
    return None


def _touched_objects(proposal: Proposal) -> Iterator[UUID]:
    """The objects that a change writes, and the groups that its target joins again when it is restored."""
    for target in (proposal.target, *(each.target for each in proposal.dependent_changes)):
        if target.id is not None:
            yield target.id
    for change in proposal.changes:
        if change.attribute.lower() == "memberof":
            yield from (proposal.identities[name] for name in change.after if name in proposal.identities)


def more_privileged_people(call: Call, among: Collection[UUID]) -> frozenset[UUID]:
    """Those of the accounts (objectGUIDs) whose people may do more than the caller, now or at their next sign-in."""
    groups = MorePrivilegingGroups.of(call)
    return _more_privileged_accounts(call, among) | {account for account in among if groups.contains(account)}


def _more_privileged_accounts(call: Call, among: Collection[UUID] | None = None) -> frozenset[UUID]:
    """The accounts (objectGUIDs) of people, all or `among` some, who hold permissions that the caller lacks, or who may
    use theirs where a confined caller may not.

    Inactive people count: an account could be taken over now and its person be activated later. All connections count:
    the same domain may be connected twice, and an objectGUID belongs to one account only.
    """
    if among is not None and not _may_be_people(among):
        return frozenset()
    lacking = [key for key, name in names_by_key().items() if name not in call.permissions]
    # Subqueries, since two joins would multiply the rows.
    direct = Person.user_permissions.through.objects.filter(person_id=OuterRef("pk"), permission_id__in=lacking)
    by_group = Person.groups.through.objects.filter(person_id=OuterRef("pk"), group__permissions__in=lacking)
    is_above = Exists(direct) | Exists(by_group)
    if not is_superuser(call):
        is_above |= Q(is_superuser=True)
    people = Person.objects.order_by().filter(object_guid__isnull=False)
    if among is not None:
        people = people.filter(object_guid__in=among)
    above = {guid for guid in people.filter(is_above).values_list("object_guid", flat=True) if guid is not None}
    return frozenset(above | _less_confined_accounts(call, people))


def _less_confined_accounts(call: Call, people: QuerySet[Person]) -> set[UUID]:
    """The accounts of those people who may do anything outside of the caller's scopes."""
    if not call.scopes:
        return set()
    direct = Person.user_permissions.through.objects.filter(person_id=OuterRef("pk"))
    by_group = Person.groups.through.objects.filter(person_id=OuterRef("pk"))
    others = list(people.filter(Exists(direct) | Exists(by_group)))
    scopes = scopes_of_people(others)
    further = (person for person in others if not is_within(scopes[person.pk], call.scopes))
    return {person.object_guid for person in further if person.object_guid is not None}


def _may_be_people(accounts: Collection[UUID]) -> bool:
    """A shortcut for most accounts, which belong to nobody who uses the gateway."""
    return bool(accounts) and has_rows("SELECT 1 FROM keys_person WHERE object_guid IN ({ids}) LIMIT 1", accounts)


def _reaches_below(write: Write | None) -> bool:
    if isinstance(write, Delete):
        return write.tree
    if isinstance(write, Modify):
        return any(step.attribute.lower() in _POLICY_LINKS for step in write.modifications)
    return isinstance(write, Rename)


def _holds_any(call: Call, dn: str, accounts: Collection[UUID]) -> bool:
    if not accounts:
        return False
    found = client_of(call).read_many(accounts, ("objectGUID",))
    return any(is_within_any(entry.dn, (dn,)) for entry in found.values())


@dataclass(frozen=True)
class MorePrivilegingGroups:
    """The groups of any directory (objectGUIDs) that stand for more than a caller may do.

    All connections count, since the same domain may be connected twice.
    """

    call: Call
    guids: frozenset[UUID]

    @classmethod
    def of(cls, call: Call) -> "MorePrivilegingGroups":
        """Find the groups for a caller, with a single query where no groups of a directory are mapped.

        A permission group that confines its members counts whatever it grants: without it they may do more. For a
        confined caller every group counts that grants anything.
        """
        if not has_rows("SELECT 1 FROM keys_directorygroup LIMIT 1") or is_superuser(call):
            return cls(call, frozenset())
        mapped = list(DirectoryGroup.objects.order_by().values_list("object_guid", "group_id"))
        lacking = [key for key, name in names_by_key().items() if call.scopes or name not in call.permissions]
        groups = {group for _, group in mapped}
        giving = Group.permissions.through.objects.filter(group_id__in=groups, permission_id__in=lacking)
        above = {
            *giving.values_list("group_id", flat=True),
            *GroupScopes.objects.filter(group_id__in=groups).values_list("group_id", flat=True),
        }
        return cls(call, frozenset(guid for guid, group in mapped if group in above))

    @cached_property
    def _client(self) -> Client:
        return client_of(self.call)

    @cached_property
    def _found(self) -> dict[UUID, Entry]:
        """The groups that exist in the caller's directory."""
        return self._client.read_many(self.guids, ("objectGUID", "objectSid")) if self.guids else {}

    @cached_property
    def _sids(self) -> frozenset[bytes]:
        return frozenset(sid for group in self._found.values() for sid in group.values("objectSid"))

    def contains(self, guid: UUID) -> bool:
        """Whether an object is one of the groups, or a member of one, directly or through other groups."""
        if not self._found:
            return False
        if guid in self._found:
            return True
        entry = self._client.find(guid, (*MEMBERSHIP_ATTRIBUTES, "tokenGroups"))
        if entry is None:
            return False
        if not self._sids.isdisjoint(entry.values("tokenGroups")):
            return True
        return any(above.group.guid in self._found for above in groups_above(self._client, entry))

    def has_members_below(self, dn: str) -> bool:
        """Whether the object with this name, or anything below it, is one of the groups or a member of one."""
        if not self._found:
            return False
        if any(is_within_any(group.dn, (dn,)) for group in self._found.values()):
            return True
        linked = Or(*(InChain("memberOf", group.dn) for group in self._found.values()))
        nested = And(Equals("objectClass", "group"), linked)
        inside = self._client.search(self._client.default_naming_context, Scope.SUBTREE, nested, ("objectSid",))
        # memberOf does not show the primary group, which is named by the last part of its SID ([MS-ADA3] 2.120).
        sids = self._sids.union(sid for group in inside for sid in group.values("objectSid"))
        numbers = {int.from_bytes(sid[-4:], "little") for sid in sids}
        primary = (Equals("primaryGroupID", str(number)) for number in numbers)
        found = self._client.search(dn, Scope.SUBTREE, Or(linked, *primary), ("objectGUID",), limit=1)
        return any(True for _ in found)
