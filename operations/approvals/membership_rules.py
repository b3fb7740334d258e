"""Rules for groups that are given for a while only; `gateway.pipeline.membership_rules` keeps them."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from django.db.models import QuerySet
from pydantic import Field
from typing_extensions import TypedDict

from active_directory import Entry
from approvals import ends
from core.call import Call
from core.database import own_rows
from core.errors import InvalidRequest
from core.operation import Effect, Target, operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Duration, Id, Moment, PartialUpdate, as_record, example
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, find_object, parse_reference
from directory.lookup.visibility import visibility_of
from directory.models import MembershipRule
from directory.queries.member_counts import member_counts
from directory.shapes.inputs import pointer
from directory.shapes.kinds import RESOURCES
from gateway.pipeline.schedules import LONGEST, SHORTEST

READ: Final = "directory.read_object"
MANAGE: Final = "directory.manage_membershiprule"


class SearchMembershipRules(PageQuery):
    """The filter of the list."""

    group: UUID | None = Field(None, description="Only the rule of this group (objectGUID).")


class CreateMembershipRule(Body):
    """A rule for a group."""

    model_config = example(
        group="CN=Server operators,OU=Groups,DC=corp,DC=example,DC=com",
        maxDuration="PT8H",
        defaultDuration="PT2H",
        reasonRequired=True,
    )

    group: Annotated[str, Field(description="UUID or distinguished name of the group; kept by objectGUID.")]
    max_duration: Annotated[
        Duration | None,
        Field(description="The longest membership: an ISO 8601 duration from PT1M to P366D; null for any."),
    ] = None
    default_duration: Annotated[
        Duration | None,
        Field(description="How long a membership lasts for which nobody names an end; null: it has to be named."),
    ] = None
    reason_required: Annotated[bool, Field(description="Whether members are added with a reason only.")] = False


class UpdateMembershipRule(CreateMembershipRule, PartialUpdate):
    """The members to change; a rule stays with its group."""

    model_config = example(maxDuration="PT4H")
    fixed = frozenset({"group"})


class MembershipRuleRecord(TypedDict):
    """A rule. `permanentMembers` are direct members without an end."""

    id: Id
    version: str
    group: Id
    distinguishedName: str
    isDeleted: bool
    maxDuration: str | None
    defaultDuration: str | None
    reasonRequired: bool
    permanentMembers: int | None
    createdAt: Moment | None
    changedAt: Moment | None


@operation(
    "membership-rules.list",
    "GET membership-rules",
    "List membership rules",
    permission=READ,
    target=Target.DIRECTORY,
)
def list_membership_rules(call: Call, *, query: SearchMembershipRules) -> Page[MembershipRuleRecord]:
    """List the membership rules of this directory, with their groups."""
    rows = own_rows.filter_optional(_visible_rules(call), group_guid=query.group)
    page: Page[MembershipRule] = page_of(call, rows, query=query, order=("group_dn", "id"), render=lambda row: row)
    return {**page, "items": _records(call, page["items"])}


@operation(
    "membership-rules.read",
    "GET membership-rules/{id}",
    "Read {a membership rule}",
    permission=READ,
    target=Target.DIRECTORY,
)
def read_membership_rule(call: Call, *, id: UUID) -> MembershipRuleRecord:
    """Read one rule, with the present name of its group."""
    return _record(call, _find(call, id))


@operation(
    "membership-rules.create",
    "POST membership-rules",
    "Create {a membership rule}",
    permission=MANAGE,
    requires=frozenset({READ}),
    target=Target.DIRECTORY,
    creates=True,
    effect=Effect.ADMINISTER,
)
def create_membership_rule(call: Call, *, body: CreateMembershipRule) -> MembershipRuleRecord:
    """Make a rule for a group. The members that it has stay as they are."""
    assert call.directory is not None
    reference = parse_reference(body.group, pointer=pointer("group"))
    try:
        group = find_object(call, reference, kinds=RESOURCES["groups"].kinds)
    except errors.ObjectNotFound:
        detail = message("there is no group {text}", text=body.group)
        raise errors.ObjectNotFound.naming(detail, pointer=pointer("group")) from None
    row = MembershipRule(connection_id=call.directory.id, group_guid=group.guid, group_dn=group.dn)
    return _save(call, row, {name: value for name, value in body if name != "group"})


@operation(
    "membership-rules.update",
    "PATCH membership-rules/{id}",
    "Update {a membership rule}",
    permission=MANAGE,
    requires=frozenset({READ}),
    target=Target.DIRECTORY,
    effect=Effect.ADMINISTER,
)
def update_membership_rule(call: Call, *, id: UUID, body: UpdateMembershipRule) -> MembershipRuleRecord:
    """Change a rule. Ends that are to come stay as they are."""
    return _save(call, _find(call, id), body.sent_values())


@operation(
    "membership-rules.delete",
    "DELETE membership-rules/{id}",
    "Delete {a membership rule}",
    permission=MANAGE,
    requires=frozenset({READ}),
    target=Target.DIRECTORY,
    effect=Effect.ADMINISTER,
)
def delete_membership_rule(call: Call, *, id: UUID) -> None:
    """Delete a rule: memberships of its group can be permanent. Ends that are to come stay as they are."""
    _find(call, id).delete()


def _save(call: Call, row: MembershipRule, given: dict[str, Any]) -> MembershipRuleRecord:
    """Check the given members and save them; raises InvalidRequest, and Conflict for a group that has a rule."""
    own_rows.assign(row, given)
    for member, lasts in (("maxDuration", row.max_duration), ("defaultDuration", row.default_duration)):
        if lasts is not None and not SHORTEST <= lasts <= LONGEST:
            raise InvalidRequest.naming(message("must be from PT1M to P366D"), pointer=pointer(member))
    if row.default_duration is not None and row.default_duration > (row.max_duration or timedelta.max):
        raise InvalidRequest.naming(message("is longer than maxDuration"), pointer=pointer("defaultDuration"))
    if not (row.max_duration or row.default_duration or row.reason_required):
        raise InvalidRequest.naming(message("or another limit is needed"), pointer=pointer("maxDuration"))
    own_rows.save(row, taken=message("There is a rule for this group already."))
    return _record(call, row)


def _visible_rules(call: Call) -> QuerySet[MembershipRule]:
    """The rules of the call's directory, without those of groups outside the caller's scopes."""
    assert call.directory is not None
    rows = MembershipRule.objects.filter(connection_id=call.directory.id)
    if not call.scopes:
        return rows
    known, groups = visibility_of(call), _groups(call, rows)
    names = {row.pk: groups[row.group_guid].dn if row.group_guid in groups else row.group_dn for row in rows}
    return rows.filter(pk__in=[id for id, name in names.items() if known.may_know(name)])


def _find(call: Call, id: UUID) -> MembershipRule:
    return own_rows.find(_visible_rules(call), id=id)


def _groups(call: Call, rows: Iterable[MembershipRule]) -> dict[UUID, Entry]:
    """The groups of rules that exist, by objectGUID."""
    return client_of(call).read_many({row.group_guid for row in rows}, ("objectGUID", "objectSid", "member"))


def _record(call: Call, row: MembershipRule) -> MembershipRuleRecord:
    return _records(call, [row])[0]


def _records(call: Call, rows: list[MembershipRule]) -> list[MembershipRuleRecord]:
    groups, client = _groups(call, rows), client_of(call)
    counts = dict(zip(groups, member_counts(client, visibility_of(call), [*groups.values()]), strict=True))
    leaving: dict[UUID | None, set[UUID]] = {}
    for end in ends.find_pending(*groups):
        if ends.removes_members(end):
            leaving.setdefault(end.target_id, set()).update(ends.identities_in(end.changes).values())
    known = client.read_many({guid for guids in leaving.values() for guid in guids}, ("objectGUID",))
    for id, group in groups.items():
        present = set(group.texts("member"))
        staying = counts[id] - sum(guid in known and known[guid].dn in present for guid in leaving.get(id, ()))
        counts[id] = max(0, staying)
    return [
        as_record(
            MembershipRuleRecord,
            row,
            version=str(row.revision),
            group=str(row.group_guid),
            distinguishedName=groups[row.group_guid].dn if row.group_guid in groups else row.group_dn,
            isDeleted=row.group_guid not in groups,
            permanentMembers=counts.get(row.group_guid),
        )
        for row in rows
    ]
