"""What the operations log can give back to a deleted object: attributes in the restoring write, memberships after it.

A tombstone keeps its identity and little else ([MS-ADTS] 3.1.1.5.5.1); the record of the deletion holds the rest.
Never a password, and nothing that the directory maintains itself. Of the directory only what values refer to is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from active_directory import (
    AttributeType,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    InvalidValue,
    Modification,
    Modify,
    Scope,
    decode,
    encode,
    guid_reference,
    is_credential,
    may_refer,
)
from audit.models import OperationRecord
from audit.redact import SECRET
from core.call import Call
from directory.changes.identities import changes_of, identities_of, with_present_names
from directory.changes.targets import TARGET_ATTRIBUTES, target_of
from directory.groups.nesting import is_group
from directory.lookup.access import client_of
from directory.lookup.visibility import Visibility, visibility_of
from directory.outcomes.evidence import evidence_of
from directory.protection.rules import protected_among
from directory.shapes.proposal import AttributeChange, DependentChange, shown_values
from directory.shapes.value_rules import MAINTAINED_BY_DIRECTORY, NAMING

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
class FromLog:
    """`steps` belong into the restoring modify, `dependent_changes` come after it.

    `warnings` say what is left out and why. `joins_protected` is whether one of the groups that the object joins again
    is protected. `identities` are the objects that the changes refer to, by name.
    """

    steps: list[Modification] = field(default_factory=list)
    changes: list[AttributeChange] = field(default_factory=list)
    dependent_changes: list[DependentChange] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    joins_protected: bool = False
    identities: dict[str, UUID] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Image:
    """What an object was like when it was deleted, by the record of that: its values, by attribute.

    `present` are the objects that these values name, by name as it was, as far as they are known and there (again).
    """

    values: Mapping[str, Sequence[str]]
    present: Mapping[str, Entry]


def image_of(client: Client, deletion: OperationRecord) -> Image:
    """The image that the record of a deletion holds. An older one kept names alone, which may be others' by now."""
    changes = [change for change in changes_of(deletion) if SECRET not in change.before]
    referring = [change for change in changes if change.attribute.lower() != "distinguishedname"]
    identities = identities_of(client, deletion, referring)
    found = client.read_many(identities.values(), TARGET_ATTRIBUTES)
    return Image(
        values={change.attribute: change.before for change in changes},
        present={name: found[guid] for name, guid in identities.items() if guid in found},
    )


def restored_from_log(call: Call, image: Image, entry: Entry, new_dn: str) -> FromLog:
    """What an image from the log gives back to a tombstone that is to live again as `new_dn`."""
    client, visibility = client_of(call), visibility_of(call)
    from_log = FromLog()
    from_log.identities.update((found.dn, found.guid) for found in image.present.values())
    left_out = []
    named_by = DistinguishedName.parse(new_dn).rdn_attribute.lower()
    for name, texts in sorted(image.values.items()):
        attribute = client.schema.attribute(name)
        if attribute is None or not texts or name in entry or name.lower() == named_by:
            continue
        if _is_left_out(name, texts):
            left_out.append(attribute.name)
        elif _is_refilled(attribute):
            _restore_attribute(call, from_log, attribute, texts, image, visibility=visibility)
    if left_out:
        from_log.warnings.append(f"Not given back, to be given anew where it is wanted: {', '.join(left_out)}.")
    if "memberOf" in image.values:
        _restore_memberships(call, from_log, image, entry.guid, new_dn, visibility=visibility)
    return from_log


def _is_left_out(name: str, texts: Sequence[str]) -> bool:
    if name.lower() == "primarygroupid":
        return not _DEFAULT_PRIMARY_GROUPS.issuperset(texts)
    return name.lower() in _TO_BE_GIVEN_ANEW


def _is_refilled(attribute: AttributeType) -> bool:
    maintained = attribute.system_only or attribute.constructed or attribute.back_link
    return not (maintained or is_credential(attribute.name) or attribute.name.lower() in _NOT_REFILLED)


def _restore_attribute(
    call: Call,
    from_log: FromLog,
    attribute: AttributeType,
    texts: Sequence[str],
    image: Image,
    *,
    visibility: Visibility,
) -> None:
    present = {name: found.dn for name, found in image.present.items()}
    named_now = with_present_names(attribute, texts, present) if may_refer(attribute) else texts
    known = [text for text in named_now if _is_in_reach(visibility, attribute, text)]
    try:
        values = encode(attribute, known)
    except InvalidValue:  # the log shows what it cannot store, such as NUL, by a sign for it
        from_log.warnings.append(f"{attribute.name} cannot be given back: the log does not hold it as it was.")
        return
    kept = _usable(call, client_of(call), attribute, values)
    if len(kept) < len(texts):
        from_log.warnings.append(
            f"{attribute.name}: {len(texts) - len(kept)} of {len(texts)} values cannot be given back: {_REASONS}."
        )
    if kept:
        from_log.steps.append(Modification("replace", attribute.name, tuple(kept)))
        from_log.changes.append(AttributeChange(attribute.name, (), shown_values(attribute, decode(attribute, kept))))


_REASONS = "what they name is gone, in use elsewhere or outside the caller's scopes, or the caller may not do it"


def _is_in_reach(visibility: Visibility, attribute: AttributeType, text: str) -> bool:
    """Whether the caller might write the value: a member lies inside their scopes, and so does what is referred to."""
    if attribute.name.lower() == "member" and not visibility.can_see(text):
        return False
    return not visibility.hides(attribute.name, [text])


def _usable(call: Call, client: Client, attribute: AttributeType, values: Sequence[bytes]) -> list[bytes]:
    """The values that can be written now: one that cannot would make the whole restore fail."""
    name = attribute.name.lower()
    if name == "serviceprincipalname":  # unique in the forest
        return [value for value in values if not _is_in_use(client, attribute.name, value)]
    if name == "member" and not call.may("directory.manage_membership"):
        return []
    return list(values)


def _is_in_use(client: Client, name: str, value: bytes) -> bool:
    rows = client.search(client.default_naming_context, Scope.SUBTREE, Equals(name, value), ("objectGUID",), limit=1)
    return any(True for _ in rows)


def _restore_memberships(
    call: Call, from_log: FromLog, image: Image, guid: UUID, new_dn: str, *, visibility: Visibility
) -> None:
    """One change of each group the object was a member of, as far as the caller may make it."""
    client, names = client_of(call), image.values["memberOf"]
    if not call.may("directory.manage_membership"):
        shown = _shown(visibility, image, names)
        from_log.warnings.append(f"Its memberships stay lost, the caller may not change members: {shown}.")
        return
    groups = {name: image.present[name] for name in names if name in image.present and is_group(image.present[name])}
    protected = protected_among(client, groups.values())
    may_join = {
        name: group
        for name, group in groups.items()
        if visibility.can_see(group.dn)
        if group.guid not in protected or call.may("directory.manage_protected")
    }
    for group in may_join.values():
        from_log.dependent_changes.append(_membership(client, group, guid, new_dn))
        from_log.joins_protected |= group.guid in protected
    refused = [name for name in names if name not in may_join]
    if refused:
        shown = _shown(visibility, image, refused)
        from_log.warnings.append(f"Memberships that stay lost, as {_GROUP_REASONS}: {shown}.")
    if from_log.dependent_changes:
        joined = tuple(dependent.target.distinguished_name for dependent in from_log.dependent_changes)
        from_log.changes.append(AttributeChange("memberOf", (), joined))


_GROUP_REASONS = "the group is gone or the caller may not change it"


def _membership(client: Client, group: Entry, guid: UUID, new_dn: str) -> DependentChange:
    write = Modify(guid_reference(group.guid), (Modification("add", "member", (new_dn.encode(),)),), guarded=True)
    identities = {new_dn: guid}
    return DependentChange(
        operation="groups.update",
        target=target_of(group),
        changes=(AttributeChange("member", (), (new_dn,)),),
        write=write,
        evidence=evidence_of(write, entry=group, schema=client.schema, identities=identities),
        identities=identities,
    )


def _shown(visibility: Visibility, image: Image, names: Sequence[str]) -> str:
    """The groups that the caller may know of, and how many others there are."""
    seen = [
        name
        for name in names
        if visibility.can_see(name) and (name not in image.present or visibility.can_see(image.present[name].dn))
    ]
    listed = seen[:_SHOWN]
    if more := len(seen) - len(listed):
        listed.append(f"and {more} more")
    if hidden := len(names) - len(seen):
        listed.append(f"{hidden} outside the caller's scopes")
    return "; ".join(listed)
