"""What the operations log can give back to a deleted object: attributes in the restoring write, memberships after it.

A tombstone keeps its identity and little else ([MS-ADTS] 3.1.1.5.5.1); the record of the deletion holds the rest.
Never a password, and nothing that the directory maintains itself. Pure but for looking at what values refer to.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from directory.access import client_of, is_within_any, scope_bases
from directory.ldap import Client, Entry, Equals, Modification, Modify, Scope, decode, encode, guid_reference
from directory.ldap.codecs import is_credential
from directory.ldap.dn import DistinguishedName
from directory.ldap.errors import InvalidValue
from directory.ldap.schema import AttributeType, Syntax
from directory.policy import is_protected
from directory.proposal import AttributeChange, FollowUp, shown_values
from directory.references import existing, find_named
from directory.settle import evidence_of
from directory.shapes.kinds import Kind, kind_of
from directory.shapes.value_rules import MAINTAINED_BY_DIRECTORY, NAMING
from directory.updating import TARGET_ATTRIBUTES, target_of
from gateway.core.call import Call

# What a tombstone keeps, and what the directory gives a restored account anew: an account without a password has to
# set one, and a primary group must be one that it is a member of.
_NOT_REFILLED = (
    MAINTAINED_BY_DIRECTORY
    | NAMING
    | {"useraccountcontrol", "samaccountname", "grouptype", "primarygroupid", "pwdlastset", "lockouttime"}
)
# Rights over others and second identities: given back to nobody who did not ask for them. (Windows lets only a
# privilege of its own write the first, and nobody the last.)
_TO_BE_GIVEN_ANEW = frozenset(
    {
        *("msds-allowedtodelegateto", "msds-allowedtoactonbehalfofotheridentity", "msds-keycredentiallink"),
        *("altsecurityidentities", "sidhistory"),
    }
)
# Domain Users, Guests, Computers ([MS-DTYP] 2.4.2.4)
_DEFAULT_PRIMARY_GROUPS = frozenset({"513", "514", "515"})
_SHOWN = 20


@dataclass(slots=True)
class Refill:
    """`steps` belong into the restoring modify, `follow_ups` come after it; `warnings` say what is left out and why."""

    steps: list[Modification] = field(default_factory=list)
    changes: list[AttributeChange] = field(default_factory=list)
    follow_ups: list[FollowUp] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def refill_from(call: Call, image: Mapping[str, Sequence[str]], entry: Entry, new_dn: str) -> Refill:
    """What an image from the log gives back to a tombstone that is to live again as `new_dn`."""
    client = client_of(call)
    refill = Refill()
    left_out = []
    named_by = DistinguishedName.parse(new_dn).rdn_attribute.lower()
    for name, texts in sorted(image.items()):
        attribute = client.schema.attribute(name)
        if attribute is None or not texts or name in entry or name.lower() == named_by:
            continue
        if _is_left_out(name, texts):
            left_out.append(attribute.name)
        elif _is_refilled(attribute):
            _refill_attribute(call, client, refill, attribute, texts)
    if left_out:
        refill.warnings.append(f"Not given back, to be given anew where it is wanted: {', '.join(left_out)}.")
    if groups := image.get("memberOf"):
        _refill_memberships(call, client, refill, groups, new_dn)
    return refill


def _is_left_out(name: str, texts: Sequence[str]) -> bool:
    if name.lower() == "primarygroupid":
        return not _DEFAULT_PRIMARY_GROUPS.issuperset(texts)
    return name.lower() in _TO_BE_GIVEN_ANEW


def _is_refilled(attribute: AttributeType) -> bool:
    maintained = attribute.system_only or attribute.constructed or attribute.back_link
    return not (maintained or is_credential(attribute.name) or attribute.name.lower() in _NOT_REFILLED)


def _refill_attribute(
    call: Call, client: Client, refill: Refill, attribute: AttributeType, texts: Sequence[str]
) -> None:
    try:
        values = encode(attribute, texts)
    except InvalidValue:  # the log shows what it cannot store, such as NUL, by a sign for it
        refill.warnings.append(f"{attribute.name} cannot be given back: the log does not hold it as it was.")
        return
    kept = _usable(call, client, attribute, values)
    if len(kept) < len(values):
        refill.warnings.append(
            f"{attribute.name}: {len(values) - len(kept)} of {len(values)} values cannot be given back: {_REASONS}."
        )
    if kept:
        refill.steps.append(Modification("replace", attribute.name, tuple(kept)))
        refill.changes.append(AttributeChange(attribute.name, (), shown_values(attribute, decode(attribute, kept))))


_REASONS = "what they name is gone or in use elsewhere, or the caller may not do it"


def _usable(call: Call, client: Client, attribute: AttributeType, values: Sequence[bytes]) -> list[bytes]:
    """The values that can be written now: one that cannot would make the whole restore fail."""
    name = attribute.name.lower()
    if name == "serviceprincipalname":  # unique in the forest
        return [value for value in values if not _is_in_use(client, attribute.name, value)]
    if attribute.syntax is not Syntax.DN:
        return list(values)
    if name == "member" and not call.may("directory.manage_membership"):
        return []
    names = {DistinguishedName.parse(value.decode()): value for value in values}
    present = existing(client, list(names))
    bases = scope_bases(call) if name == "member" else None
    return [
        value
        for parsed, value in names.items()
        if parsed in present and (bases is None or is_within_any(str(parsed), bases))
    ]


def _is_in_use(client: Client, name: str, value: bytes) -> bool:
    rows = client.search(client.default_naming_context, Scope.SUBTREE, Equals(name, value), ("objectGUID",), limit=1)
    return any(True for _ in rows)


def _refill_memberships(call: Call, client: Client, refill: Refill, groups: Sequence[str], new_dn: str) -> None:
    """One change of each group the object was a member of, as far as the caller may make it."""
    if not call.may("directory.manage_membership"):
        refill.warnings.append(f"Its memberships stay lost, the caller may not change members: {_shown(groups)}.")
        return
    bases = scope_bases(call)
    found = {
        DistinguishedName.parse(group.dn): group
        for group in find_named(client, groups, TARGET_ATTRIBUTES)
        if kind_of(group.object_classes) is Kind.GROUP
    }
    refused = []
    for name in groups:
        group = found.get(DistinguishedName.parse(name))
        if group is not None and _may_change(call, client, group, bases):
            refill.follow_ups.append(_membership(client, group, new_dn))
        else:
            refused.append(name)
    if refused:
        refill.warnings.append(f"Memberships that stay lost, as {_GROUP_REASONS}: {_shown(refused)}.")
    if refill.follow_ups:
        joined = tuple(follow_up.target.distinguished_name for follow_up in refill.follow_ups)
        refill.changes.append(AttributeChange("memberOf", (), joined))


_GROUP_REASONS = "the group is gone or the caller may not change it"


def _may_change(call: Call, client: Client, group: Entry, bases: Collection[str] | None) -> bool:
    if bases is not None and not is_within_any(group.dn, bases):
        return False
    return call.may("directory.manage_protected") or not is_protected(client, group)


def _membership(client: Client, group: Entry, new_dn: str) -> FollowUp:
    write = Modify(guid_reference(group.guid), (Modification("add", "member", (new_dn.encode(),)),), guarded=True)
    return FollowUp(
        operation="groups.update",
        target=target_of(group),
        changes=(AttributeChange("member", (), (new_dn,)),),
        write=write,
        evidence=evidence_of(write, entry=group, schema=client.schema),
    )


def _shown(names: Sequence[str]) -> str:
    listed = "; ".join(names[:_SHOWN])
    return listed if len(names) <= _SHOWN else f"{listed}; and {len(names) - _SHOWN} more"
