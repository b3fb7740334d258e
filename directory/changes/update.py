"""Proposals to change the attributes of an object: by attribute updates, and by the parts of an account or a group."""

from datetime import UTC, datetime
from uuid import UUID

from active_directory import (
    FILETIME_NEVER,
    KEEPS_PASSWORD,
    Client,
    Entry,
    GroupType,
    Schema,
    UserAccountControl,
    datetime_to_filetime,
    decode,
    filetime_to_datetime,
)
from core.call import Call
from core.errors import Forbidden, InvalidRequest
from core.operation import Risk
from core.text.messages import message
from directory import errors
from directory.changes.checks.group_cycles import cycle_check
from directory.changes.checks.prechecks import require_update_possible
from directory.changes.references import require_members_allowed, require_references_visible, resolve_references
from directory.changes.targets import find_target, guarded_modify, target_of
from directory.groups.nesting import require_type_fits
from directory.lookup.access import client_of
from directory.lookup.visibility import visibility_of
from directory.outcomes.evidence import evidence_of
from directory.policies.password_policy import RESULTANT_POLICY, policy_of
from directory.protection.rules import holds_protected, require_may_write
from directory.queries.reading import read_changed
from directory.shapes.account import AccountPart, GroupPart
from directory.shapes.attribute_updates import AttributeUpdates, attribute_names, pointer
from directory.shapes.kinds import ACCOUNT_KINDS, RESOURCES, Kind, kind_of, permission_for
from directory.shapes.modifications import (
    Delta,
    append_difference,
    combine,
    read_updates,
    require_sense,
)
from directory.shapes.object_references import is_list_in_one_value
from directory.shapes.proposal import Proposal
from directory.shapes.value_rules import ALL_GROUP_SCOPES, GROUP_SCOPE_BITS
from directory.shapes.wording.sign_in_effects import sign_in_effects

# What an update may not do under the permission to update alone (docs/api.md#effective-permissions).
_PERMISSIONS_OF_ATTRIBUTE = {
    "useraccountcontrol": {"directory.enable_account", "directory.disable_account"},
    "lockouttime": {"directory.unlock_account"},
    "pwdlastset": {"directory.reset_password"},
    "member": {"directory.manage_membership"},
}
# Re-linking policies changes what every object below is governed by.
_POLICY_LINKS = frozenset({"gplink", "gpoptions"})


def permissions_for_attributes(names: frozenset[str]) -> frozenset[str]:
    """The permissions that writing these attributes (lower case) needs besides the operation's own."""
    return frozenset(needed for name in names for needed in _PERMISSIONS_OF_ATTRIBUTE.get(name, ()))


def propose_update(
    call: Call,
    *,
    resource: str,
    id: UUID,
    updates: AttributeUpdates,
    account: AccountPart | None = None,
    group: GroupPart | None = None,
) -> Proposal:
    """All of one request as one modify, each old value guarding it.

    Raises what `read_updates`, `require_sense`, `require_update_possible` and `require_members_allowed` do;
    InvalidRequest for a part that the object has not, AttributesConflict, ObjectNotFound and Forbidden.
    """
    client = client_of(call)
    schema = client.schema
    steps = read_updates(updates, schema, kind=RESOURCES[resource].kind)
    _require_separate(updates, account, group)

    wanted = ["accountExpires", "pwdLastSet", "groupType", *(step.attribute.name for step in steps)]
    if account is not None and "password_never_expires" in account.model_fields_set:
        wanted.append(RESULTANT_POLICY)
    entry, protected = find_target(call, resource, id, *wanted)
    kind = kind_of(entry.object_classes)
    names = attribute_names(updates)
    if not protected and names & _POLICY_LINKS:
        protected = require_may_write(call, protected=holds_protected(client, entry.dn))
    require_references_visible(call, steps)
    require_sense(steps, kind=kind, entry=entry)
    delta = combine(steps, entry, kind=kind)
    _require_unseen_kept(call, schema, delta)
    identities = resolve_references(call, steps, delta.changes)
    members_added = require_members_allowed(call, entry, delta, identities)
    require_update_possible(client, entry, steps, delta)
    why_risky = None
    if account is not None:
        _require_part(kind in ACCOUNT_KINDS, "account")
        why_risky = _change_account(delta, schema, entry, account)
    if group is not None:
        _require_part(kind is Kind.GROUP, "group")
        why_risky = _change_group(delta, schema, entry, group)
    require_type_fits(client, entry, delta, tell=lambda name: visibility_of(call).display_name(name))

    written = {change.attribute for change in delta.changes}
    # What a part writes counts as if an update had named it. But of userAccountControl it changes only whether the
    # password expires, which enables and disables nobody; that is a security change.
    needing = names | {name.lower() for name in written - {"userAccountControl"}}
    effects = sign_in_effects(delta.values)
    requires = {permission_for("update", kind), *(effect.permission for effect in effects)}
    if why_risky and account is not None and _depends_on_password_age(client, entry):
        requires.add("directory.reset_password")
    write = guarded_modify(entry, delta.modifications)
    return Proposal(
        target=target_of(entry),
        changes=tuple(delta.changes),
        write=write,
        answer=lambda: read_changed(call, entry.guid),
        requires=permissions_for_attributes(needing) | requires,
        attributes=frozenset(step.attribute.name for step in steps) | written,
        protected=protected,
        risk=Risk.SECURITY if why_risky else Risk.ORDINARY,
        risk_reason=why_risky,
        sign_in_effects=effects,
        evidence=evidence_of(write, entry=entry, schema=schema, identities=identities) if write else {},
        identities=identities,
        post_check=cycle_check(client, target_of(entry), members_added, write, delta.changes, identities=identities),
    )


def _require_unseen_kept(call: Call, schema: Schema, delta: Delta) -> None:
    """Refuse to remove values that reference objects outside the caller's scopes.

    A single value is replaced as a whole, whatever it was, unless it is a list itself. Raises Forbidden.
    """
    removing = [step for step in delta.modifications if step.op == "delete"]
    if not call.scopes or not removing:
        return
    visibility = visibility_of(call)
    for step in removing:
        attribute = schema.attribute(step.attribute)
        if attribute is None or (attribute.single_valued and not is_list_in_one_value(schema, attribute.name)):
            continue
        if visibility.hides(attribute.name, decode(attribute, step.values)):
            raise Forbidden


def _require_part(fits: bool, member: str) -> None:
    if not fits:
        raise InvalidRequest.naming(
            message("an object of this kind has no {member}", member=member), pointer=pointer(member)
        )


def _require_separate(updates: AttributeUpdates, account: AccountPart | None, group: GroupPart | None) -> None:
    """What a part writes is named by no update too. Raises AttributesConflict."""
    names = attribute_names(updates)
    written = {
        "accountexpires": account is not None and "expires_at" in account.model_fields_set,
        "useraccountcontrol": account is not None and "password_never_expires" in account.model_fields_set,
        "pwdlastset": account is not None and "must_change_password" in account.model_fields_set,
        "grouptype": group is not None and bool(group.model_fields_set),
    }
    for name, is_written in written.items():
        if is_written and name in names:
            where = pointer("group" if name == "grouptype" else "account")
            raise errors.AttributesConflict.naming(
                message("{name} is also among the attributes", name=name), pointer=where
            )


def _change_account(delta: Delta, schema: Schema, entry: Entry, account: AccountPart) -> str | None:
    """Add what the part changes to a delta; why that is a security change, if it is."""
    why_risky = None
    given = account.model_fields_set
    if "expires_at" in given:
        new = FILETIME_NEVER[1] if account.expires_at is None else datetime_to_filetime(account.expires_at)
        both_never = {entry.integer("accountExpires") or 0, new} <= set(FILETIME_NEVER)
        if not both_never:
            change_integer(delta, schema, entry, "accountExpires", new)
    if "password_never_expires" in given:
        bit = UserAccountControl.DONT_EXPIRE_PASSWD
        if change_control(delta, schema, entry, bit, is_set=account.password_never_expires):
            why_risky = message("it changes whether the password ever expires")
    if "must_change_password" in given and account.must_change_password != (entry.integer("pwdLastSet") == 0):
        change_integer(delta, schema, entry, "pwdLastSet", 0 if account.must_change_password else -1)
    return why_risky


def _depends_on_password_age(client: Client, entry: Entry) -> bool:
    """Whether an account in use could not sign in with the password it has if that were to expire.

    Then the option that it never does opens or shuts the account, as setting another password would.
    """
    control = UserAccountControl(entry.integer("userAccountControl") or 0)
    if control & UserAccountControl.ACCOUNTDISABLE or control & KEEPS_PASSWORD & ~UserAccountControl.DONT_EXPIRE_PASSWD:
        return False
    last_set = filetime_to_datetime(entry.integer("pwdLastSet") or 0)
    if last_set is None:
        return True
    policy = policy_of(client, entry)
    if policy is None:  # the gateway's account may not read it
        return True
    return policy.maximum_age is not None and last_set + policy.maximum_age <= datetime.now(UTC)


def _change_group(delta: Delta, schema: Schema, entry: Entry, group: GroupPart) -> str | None:
    """Add what the part changes to a delta; why that is a security change, if it is."""
    bits = GroupType.from_directory(entry.integer("groupType") or 0)
    if "scope" in group.model_fields_set:
        bits = bits & ~ALL_GROUP_SCOPES | GROUP_SCOPE_BITS[group.scope]
    if "type" in group.model_fields_set:
        security = GroupType.SECURITY_ENABLED
        bits = bits | security if group.type == "security" else bits & ~security
    before = len(delta.changes)
    change_integer(delta, schema, entry, "groupType", bits.signed)
    return message("it changes the scope or type of the group") if len(delta.changes) > before else None


def change_control(delta: Delta, schema: Schema, entry: Entry, bit: UserAccountControl, *, is_set: bool) -> bool:
    """Set or clear a bit of userAccountControl as a compare-and-swap, all others kept. True if that changes it."""
    before = entry.integer("userAccountControl") or 0
    after = before | bit.value if is_set else before & ~bit.value
    change_integer(delta, schema, entry, "userAccountControl", after)
    return before != after


def change_integer(delta: Delta, schema: Schema, entry: Entry, name: str, value: int) -> None:
    """Add to a delta what gives a single-valued attribute this number, guarded by the present one."""
    attribute = schema.attribute(name)
    if attribute is None:  # every Active Directory has them; one that does not cannot do this
        raise errors.DirectoryFailed(message("The directory's schema has no {name}.", name=name))
    append_difference(delta, attribute, entry.values(name), [str(value).encode()])
