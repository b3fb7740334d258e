"""People who may do more in the gateway than a caller, or do it elsewhere: whoever takes their account in the directory
takes their rights.

So their accounts are protected against that caller, like those of the domain's administrators
(docs/api.md#protected-objects). What the directory itself protects is decided in `directory.protection.rules`.
"""

from collections.abc import Collection, Iterator
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from active_directory import Delete, Modify, Rename, Write
from core.call import Call
from core.text.messages import message
from directory.lookup.access import client_of, is_within_any
from directory.shapes.proposal import Proposal
from keys.models import Person
from keys.permission_catalogue import names_by_key
from keys.permissions.more_privileging_groups import MorePrivilegingGroups, is_superuser
from keys.permissions.scoping import is_within, scopes_of_people

_POLICY_LINKS = frozenset({"gplink", "gpoptions"})


def why_protected(call: Call, proposal: Proposal) -> str | None:
    """Why a change is one of a person above the caller, in words for people; None when it is not.

    It is when it writes their account, or moves, renames, deletes or re-links the policies of what holds it. So it is
    with what is in a group of the directory that gives more than the caller has (`groups_above`), or joins one.
    """
    target = proposal.target
    if target.id is not None and _accounts_above(call, [target.id]):
        return message("the account of a person who may do more in this gateway than the caller")
    reaches_below = _reaches_below(proposal.write)
    if reaches_below and _holds_any(call, target.distinguished_name, _accounts_above(call)):
        return message("it holds the account of a person who may do more in this gateway than the caller")
    groups = MorePrivilegingGroups.of(call)
    if any(groups.contains(touched) for touched in _touched(proposal)):
        return message("by a group of the directory it gives more in this gateway than the caller may do")
    if reaches_below and groups.has_members_below(target.distinguished_name):
        return message("what it holds gives, by a group of the directory, more in this gateway than the caller may do")
    return None


def _touched(proposal: Proposal) -> Iterator[UUID]:
    """What a change writes, and the groups that its target is in again."""
    for target in (proposal.target, *(each.target for each in proposal.dependent_changes)):
        if target.id is not None:
            yield target.id
    for change in proposal.changes:
        if change.attribute.lower() == "memberof":
            yield from (proposal.identities[name] for name in change.after if name in proposal.identities)


def more_privileged_people(call: Call, among: Collection[UUID]) -> frozenset[UUID]:
    """The accounts (objectGUIDs), of those given, of people who may do more than the caller, or could by a group of the
    directory as soon as they sign in.
    """
    groups = MorePrivilegingGroups.of(call)
    return _accounts_above(call, among) | {account for account in among if groups.contains(account)}


def _accounts_above(call: Call, among: Collection[UUID] | None = None) -> frozenset[UUID]:
    """The accounts (objectGUIDs), of those given or of all, of people who hold permissions that the caller lacks, or
    may use theirs where a confined caller may not.

    Whether a person is active does not matter: an account can be taken now and its person be activated later. Nor does
    the connection: the same domain may be connected twice, and an objectGUID is one account's alone.
    """
    if among is not None and not _may_be_people(among):
        return frozenset()
    lacking = [key for key, name in names_by_key().items() if name not in call.permissions]
    # Two conditions of their own: a join for each would multiply the rows.
    direct = Person.user_permissions.through.objects.filter(person_id=OuterRef("pk"), permission_id__in=lacking)
    by_group = Person.groups.through.objects.filter(person_id=OuterRef("pk"), group__permissions__in=lacking)
    is_above = Exists(direct) | Exists(by_group)
    if not is_superuser(call):
        is_above |= Q(is_superuser=True)
    people = Person.objects.order_by().filter(object_guid__isnull=False)
    if among is not None:
        people = people.filter(object_guid__in=among)
    above = {guid for guid in people.filter(is_above).values_list("object_guid", flat=True) if guid is not None}
    return frozenset(above | _reaching_further(call, people))


def _reaching_further(call: Call, people: QuerySet[Person]) -> set[UUID]:
    """Of some people those who may do anything outside of what the caller is confined to."""
    if not call.scopes:
        return set()
    direct = Person.user_permissions.through.objects.filter(person_id=OuterRef("pk"))
    by_group = Person.groups.through.objects.filter(person_id=OuterRef("pk"))
    others = list(people.filter(Exists(direct) | Exists(by_group)))
    scopes = scopes_of_people(others)
    further = (person for person in others if not is_within(scopes[person.pk], call.scopes))
    return {person.object_guid for person in further if person.object_guid is not None}


def _may_be_people(accounts: Collection[UUID]) -> bool:
    """Hardly any account that is written is that of a person of the gateway: that is soon known of a single one."""
    if len(accounts) != 1:
        return bool(accounts)
    (account,) = accounts
    return Person.objects.filter(object_guid=account).exists()


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
