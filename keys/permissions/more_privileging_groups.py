"""Groups of a directory that stand for more than a caller may do: whoever gets into one, or takes the account of
somebody who is in one, has it at the next sign-in.

So these groups, the groups in them and all their members are protected against that caller, whether or not anybody of
them has ever signed in.
"""

from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.contrib.auth.models import Group

from active_directory import And, Client, Entry, Equals, InChain, Or, Scope
from core.call import Call, CredentialKind
from directory.groups.ancestry import ABOVE_ATTRIBUTES, groups_above
from directory.lookup.access import client_of, is_within_any
from keys.models import Person
from keys.models.groups import DirectoryGroup, GroupScopes
from keys.permission_catalogue import names_by_key

_AS_THEMSELVES = (CredentialKind.SESSION, CredentialKind.PLATFORM_TOKEN)


def is_superuser(call: Call) -> bool:
    """Whether the caller is a superuser in person. A key has only what its role names, whoever owns it."""
    return (
        call.credential.kind in _AS_THEMSELVES
        and Person.objects.filter(pk=call.person.id, is_active=True, is_superuser=True).exists()
    )


@dataclass(frozen=True)
class MorePrivilegingGroups:
    """The groups of any directory, by objectGUID, that stand for more than a caller may do.

    The same domain may be connected twice, so it does not matter by which connection they were named.
    """

    call: Call
    guids: frozenset[UUID]

    @classmethod
    def of(cls, call: Call) -> "MorePrivilegingGroups":
        """Those of a caller; most gateways have none at all, which one query tells.

        A group of permissions that confines its members counts whatever it gives: without it they may do more. For
        somebody confined every group does that gives anything.
        """
        mapped = list(DirectoryGroup.objects.order_by().values_list("object_guid", "group_id"))
        if not mapped or is_superuser(call):
            return cls(call, frozenset())
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
        """Those that the caller's directory has."""
        return self._client.read_many(self.guids, ("objectGUID", "objectSid")) if self.guids else {}

    @cached_property
    def _sids(self) -> frozenset[bytes]:
        return frozenset(sid for group in self._found.values() for sid in group.values("objectSid"))

    def contains(self, guid: UUID) -> bool:
        """Whether an object is one of the groups or in one, by whatever other groups."""
        if not self._found:
            return False
        if guid in self._found:
            return True
        entry = self._client.find(guid, (*ABOVE_ATTRIBUTES, "tokenGroups"))
        if entry is None:
            return False
        if not self._sids.isdisjoint(entry.values("tokenGroups")):
            return True
        return any(above.group.guid in self._found for above in groups_above(self._client, entry))

    def has_members_below(self, dn: str) -> bool:
        """Whether an object of this name, or anything below it, is one of the groups or in one."""
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
