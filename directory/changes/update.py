"""Proposals to change attributes of an object, and to enable, disable or unlock an account."""

from collections.abc import Sequence
from dataclasses import replace
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
from directory.changes.membership import cycle_post_check, require_members_allowed
from directory.changes.references import require_references_visible, resolve_references
from directory.changes.targets import find_target, propose_modify, require_update_possible
from directory.groups import require_group_type_fits
from directory.lookup.access import client_of
from directory.lookup.visibility import visibility_of
from directory.policies.password_policy import RESULTANT_POLICY, policy_of
from directory.protection.rules import contains_protected, require_may_write
from directory.shapes.inputs import AccountPart, AttributeUpdates, GroupPart, attribute_names, pointer
from directory.shapes.kinds import ACCOUNT_KINDS, RESOURCES, Kind, kind_of_entry, permission_for
from directory.shapes.modifications import (
    Delta,
    Step,
    append_difference,
    delta_of,
    parse_updates,
    require_sensible_values,
)
from directory.shapes.object_references import is_multi_reference
from directory.shapes.proposal import Proposal
from directory.shapes.value_rules import ALL_GROUP_SCOPES, GROUP_SCOPE_BITS, sign_in_effects

# Attributes that need more than the permission to update (docs/api.md#effective-permissions).
_PERMISSIONS_OF_ATTRIBUTE = {
    "useraccountcontrol": {"directory.enable_account", "directory.disable_account"},
    "lockouttime": {"directory.unlock_account"},
    "pwdlastset": {"directory.reset_password"},
    "member": {"directory.manage_membership"},
}
_ATTRIBUTES_BY_OPTION = {
    "expires_at": "accountexpires",
    "password_never_expires": "useraccountcontrol",
    "must_change_password": "pwdlastset",
    "scope": "grouptype",
    "type": "grouptype",
}
# A change of group policy links affects every object below the container.
_POLICY_LINKS = frozenset({"gplink", "gpoptions"})


def permissions_for_attributes(names: frozenset[str]) -> frozenset[str]:
    """The permissions besides the operation's own that writing these attributes (lower case) needs."""
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
    """Propose all changes of a request as one modify, guarded by the old values.

    Raises what `parse_updates`, `require_sensible_values`, `require_update_possible` and `require_members_allowed` do;
    InvalidRequest for a part that the object's kind does not have, AttributesConflict, ObjectNotFound and Forbidden.
    """
    client = client_of(call)
    schema = client.schema
    steps = parse_updates(updates, schema, kind=RESOURCES[resource].kind)
    _require_no_overlap(updates, account=account, group=group)

    wanted = ["accountExpires", "pwdLastSet", "groupType", *(step.attribute.name for step in steps)]
    if account is not None and "password_never_expires" in account.model_fields_set:
        wanted.append(RESULTANT_POLICY)
    entry, protected = find_target(call, resource, id, *wanted)
    kind = kind_of_entry(entry)
    names = attribute_names(updates)
    if not protected and names & _POLICY_LINKS:
        protected = require_may_write(call, protected=contains_protected(client, entry.dn))
    require_references_visible(call, steps)
    require_sensible_values(steps, kind=kind, entry=entry)
    delta = delta_of(steps, entry, kind=kind)
    _require_removals_visible(call, schema, delta)
    identities = resolve_references(call, steps, delta.changes)
    members_added = require_members_allowed(call, entry, delta, identities)
    require_update_possible(client, entry, steps, delta)
    why_risky = _apply_parts(delta, schema, entry, kind, account=account, group=group)
    require_group_type_fits(client, entry, delta, display_name=lambda name: visibility_of(call).display_name(name))

    written = {change.attribute for change in delta.changes}
    # An attribute that a part writes counts as if an update had named it, but for userAccountControl: the part changes
    # only whether the password expires, which enables and disables nobody. That is a security change instead.
    needing = names | {name.lower() for name in written - {"userAccountControl"}}
    effects = sign_in_effects(delta.values)
    requires = {permission_for("update", kind), *(effect.permission for effect in effects)}
    if why_risky and account is not None and _depends_on_password_age(client, entry):
        requires.add("directory.reset_password")

    proposal = propose_modify(call, entry, delta, protected=protected, identities=identities)
    return replace(
        proposal,
        requires=permissions_for_attributes(needing) | requires,
        attributes=frozenset(step.attribute.name for step in steps) | written,
        risk=Risk.SECURITY if why_risky else Risk.ORDINARY,
        risk_reason=why_risky,
        sign_in_effects=effects,
        post_check=cycle_post_check(client, proposal, members_added),
        confirmed=_confirmed_values(steps, delta, account),
    )


def _confirmed_values(steps: Sequence[Step], delta: Delta, account: AccountPart | None) -> dict[str, frozenset[str]]:
    """What is asked for and is so already (`Proposal.confirmed`)."""
    changed = {change.attribute.lower(): {*change.before, *change.after} for change in delta.changes}
    confirmed = {step.name: frozenset[str]() for step in steps if step.name not in changed}
    asked = {value.decode() for step in steps if step.name == "member" for value in step.values}
    if kept := asked - changed.get("member", set()):
        confirmed["member"] = frozenset(kept)
    options = set() if account is None else account.model_fields_set
    if "password_never_expires" in options and "useraccountcontrol" not in changed:
        confirmed["useraccountcontrol"] = frozenset({str(UserAccountControl.DONT_EXPIRE_PASSWD.value)})
    if "expires_at" in options and "accountexpires" not in changed:
        confirmed["accountexpires"] = frozenset()
    return confirmed


def propose_enabled(call: Call, *, resource: str, id: UUID, enabled: bool) -> Proposal:
    """Propose to enable or disable an account; one already in that state gives a proposal without a write."""
    entry, protected = find_target(call, resource, id)
    delta, bit = Delta(), UserAccountControl.ACCOUNTDISABLE
    confirmed: dict[str, frozenset[str]] = {}
    if not change_account_control(delta, client_of(call).schema, entry, bit, is_set=not enabled):
        confirmed["useraccountcontrol"] = frozenset({str(bit.value)})
    return replace(propose_modify(call, entry, delta, protected=protected), confirmed=confirmed)


def propose_unlock(call: Call, *, resource: str, id: UUID) -> Proposal:
    """Propose to set lockoutTime to 0, which also resets badPwdCount ([MS-SAMR] 3.1.1.8.6)."""
    entry, protected = find_target(call, resource, id, "lockoutTime")
    delta = Delta()
    if entry.integer("lockoutTime"):
        change_integer(delta, client_of(call).schema, entry, "lockoutTime", 0)
    return propose_modify(call, entry, delta, protected=protected)


def _require_removals_visible(call: Call, schema: Schema, delta: Delta) -> None:
    """Refuse to remove values that reference objects outside the caller's scopes. Raises Forbidden.

    The old value of a single-valued attribute may be replaced unseen, unless it holds a list.
    """
    removing = [step for step in delta.modifications if step.op == "delete"]
    if not call.scopes or not removing:
        return
    visibility = visibility_of(call)
    for step in removing:
        attribute = schema.attribute(step.attribute)
        if attribute is None or (attribute.single_valued and not is_multi_reference(schema, attribute.name)):
            continue
        if visibility.hides(attribute.name, decode(attribute, step.values)):
            raise Forbidden


def _require_part_applies(fits: bool, member: str) -> None:
    if not fits:
        raise InvalidRequest.naming(
            message("an object of this kind has no {member}", member=member), pointer=pointer(member)
        )


def _require_no_overlap(updates: AttributeUpdates, **parts: AccountPart | GroupPart | None) -> None:
    """Refuse attribute updates of what a part writes. Raises AttributesConflict."""
    names = attribute_names(updates)
    for option, name in _ATTRIBUTES_BY_OPTION.items():
        for member, part in parts.items():
            if part is not None and option in part.model_fields_set and name in names:
                raise errors.AttributesConflict.naming(
                    message("{name} is also among the attributes", name=name), pointer=pointer(member)
                )


def _apply_parts(
    delta: Delta, schema: Schema, entry: Entry, kind: Kind, *, account: AccountPart | None, group: GroupPart | None
) -> str | None:
    """Add the parts' changes to a delta; return why they are a security change, or None.

    Raises InvalidRequest for a part that the object's kind does not have.
    """
    why_risky = None
    if account is not None:
        _require_part_applies(kind in ACCOUNT_KINDS, "account")
        why_risky = _change_account(delta, schema, entry, account)
    if group is not None:
        _require_part_applies(kind is Kind.GROUP, "group")
        why_risky = _change_group(delta, schema, entry, group)
    return why_risky


def _change_account(delta: Delta, schema: Schema, entry: Entry, account: AccountPart) -> str | None:
    """Add an account part's changes to a delta; return why they are a security change, or None."""
    why_risky = None
    given = account.model_fields_set
    if "expires_at" in given:
        new = FILETIME_NEVER[1] if account.expires_at is None else datetime_to_filetime(account.expires_at)
        both_never = {entry.number("accountExpires"), new} <= set(FILETIME_NEVER)
        if not both_never:
            change_integer(delta, schema, entry, "accountExpires", new)
    if "password_never_expires" in given:
        bit = UserAccountControl.DONT_EXPIRE_PASSWD
        if change_account_control(delta, schema, entry, bit, is_set=account.password_never_expires):
            why_risky = message("it changes whether the password ever expires")
    if "must_change_password" in given and account.must_change_password != (entry.integer("pwdLastSet") == 0):
        change_integer(delta, schema, entry, "pwdLastSet", 0 if account.must_change_password else -1)
    return why_risky


def _depends_on_password_age(client: Client, entry: Entry) -> bool:
    """Whether an account can sign in only as long as its password, older than the maximum age, does not expire.

    The option that the password never expires then opens or closes the account, as a new password would.
    """
    control = UserAccountControl(entry.number("userAccountControl"))
    if control & UserAccountControl.ACCOUNTDISABLE or control & KEEPS_PASSWORD & ~UserAccountControl.DONT_EXPIRE_PASSWD:
        return False
    last_set = filetime_to_datetime(entry.number("pwdLastSet"))
    if last_set is None:
        return True
    policy = policy_of(client, entry)
    if policy is None:  # the bind account may not read it
        return True
    return policy.maximum_age is not None and last_set + policy.maximum_age <= datetime.now(UTC)


def _change_group(delta: Delta, schema: Schema, entry: Entry, group: GroupPart) -> str | None:
    """Add a group part's changes to a delta; return why they are a security change, or None."""
    bits = GroupType.from_directory(entry.number("groupType"))
    if "scope" in group.model_fields_set:
        bits = bits & ~ALL_GROUP_SCOPES | GROUP_SCOPE_BITS[group.scope]
    if "type" in group.model_fields_set:
        security = GroupType.SECURITY_ENABLED
        bits = bits | security if group.type == "security" else bits & ~security
    before = len(delta.changes)
    change_integer(delta, schema, entry, "groupType", bits.signed)
    return message("it changes the scope or type of the group") if len(delta.changes) > before else None


def change_account_control(
    delta: Delta, schema: Schema, entry: Entry, bit: UserAccountControl, *, is_set: bool
) -> bool:
    """Add a change of one bit of userAccountControl to a delta, guarded by the old value; return whether it differs."""
    before = entry.number("userAccountControl")
    after = before | bit.value if is_set else before & ~bit.value
    change_integer(delta, schema, entry, "userAccountControl", after)
    return before != after


def change_integer(delta: Delta, schema: Schema, entry: Entry, name: str, value: int) -> None:
    """Add a new number for a single-valued attribute to a delta, guarded by the old one."""
    attribute = schema.attribute(name)
    if attribute is None:  # these attributes are in every schema of Active Directory
        raise errors.DirectoryFailed(message("The directory's schema has no {name}.", name=name))
    append_difference(delta, attribute, entry.values(name), [str(value).encode()])
