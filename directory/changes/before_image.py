"""An object before its deletion, according to the operations log, and what a restored tombstone gets back of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
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
    decode,
    encode,
    guid_reference,
    is_credential,
)
from audit.log_queries import last_deletion
from audit.redact import SECRET
from core.call import Call
from directory.changes.references import (
    recorded_changes,
    recorded_identities,
    summarize_names,
    with_current_names,
)
from directory.changes.targets import TARGET_ATTRIBUTES, target_of
from directory.groups import is_group
from directory.lookup.access import client_of
from directory.lookup.visibility import visibility_of
from directory.outcomes.evidence import evidence_of
from directory.protection.rules import protected_among
from directory.queries.deleted_objects import deleted_at
from directory.shapes.proposal import AttributeChange, DependentChange, shown_values
from directory.shapes.value_rules import MAINTAINED_BY_DIRECTORY, NAMING

# A tombstone keeps some of these; the directory sets the others on a restored account, which has no password and no
# memberships yet, so that neither pwdLastSet nor another primary group could be restored.
_NOT_RESTORED_FROM_LOG: Final = (
    MAINTAINED_BY_DIRECTORY
    | NAMING
    | {"useraccountcontrol", "samaccountname", "grouptype", "primarygroupid", "pwdlastset", "lockouttime"}
)
# Delegation rights and alternative identities must not come back unnoticed: somebody has to set them again. (Windows
# lets only holders of SeEnableDelegationPrivilege write the first, and nobody the last.)
_NEVER_RESTORED: Final = frozenset(
    """
    msds-allowedtodelegateto msds-allowedtoactonbehalfofotheridentity msds-keycredentiallink altsecurityidentities
    sidhistory
    """.split()
)
_RESET_PRIMARY_GROUPS: Final = frozenset({"513", "514", "515"})  # Domain Users, Guests, Computers
_VALUE_REASONS = "what they name is gone, in use elsewhere or outside the caller's scopes, or the caller may not do it"
_GROUP_REASONS = "the group is gone or the caller may not change it"


@dataclass(slots=True, kw_only=True)
class RestoredContent:
    """What an object gets back besides its name.

    `steps` are part of the restoring modify, `dependent_changes` follow it. `warnings` say what is left out and why.
    `requires` are the permissions needed; `joins_protected`: the object becomes a member of a protected group again.
    `identities` maps the names in the changes to objectGUIDs.
    """

    steps: list[Modification] = field(default_factory=list)
    changes: list[AttributeChange] = field(default_factory=list)
    dependent_changes: list[DependentChange] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    requires: frozenset[str] = frozenset()
    joins_protected: bool = False
    identities: dict[str, UUID] = field(default_factory=dict)


def find_before_image(call: Call, client: Client, entry: Entry) -> "BeforeImage | None":
    """The object's state before this deletion, from the record of it in the log, if there is one."""
    moment = deleted_at(entry, client.schema)
    if moment is None or call.directory is None:
        return None
    deletion = last_deletion(call.directory.id, entry.guid, deleted_at=datetime.fromisoformat(moment))
    if deletion is None:
        return None
    changes = [change for change in recorded_changes(deletion) if SECRET not in change.before]
    referring = [change for change in changes if change.attribute.lower() != "distinguishedname"]
    identities = recorded_identities(client, deletion, referring)
    found = client.read_many(identities.values(), TARGET_ATTRIBUTES)
    present = {name: found[guid] for name, guid in identities.items() if guid in found}
    return BeforeImage(call, {change.attribute: change.before for change in changes}, present)


class BeforeImage:
    """The state of an object when it was deleted, from the record of the deletion.

    `values` maps attributes to values. `present` maps the names in them, as they were, to the objects that still exist.
    """

    def __init__(self, call: Call, values: Mapping[str, Sequence[str]], present: Mapping[str, Entry]) -> None:
        self.values = values
        self._call = call
        self._client = client_of(call)
        self._present = present
        self._visibility = visibility_of(call)
        self._may_change_members = call.may("directory.manage_membership")

    def restored(self, entry: Entry, new_dn: str) -> RestoredContent:
        """What a tombstone gets back that is restored as `new_dn`."""
        restored = RestoredContent(identities={found.dn: found.guid for found in self._present.values()})
        left_out = []
        named_by = DistinguishedName.parse(new_dn).rdn_attribute.lower()
        for name, texts in sorted(self.values.items()):
            key, attribute = name.lower(), self._client.schema.attribute(name)
            if attribute is None or not texts or name in entry or key == named_by:
                continue
            if key in _NEVER_RESTORED or (key == "primarygroupid" and not _RESET_PRIMARY_GROUPS.issuperset(texts)):
                left_out.append(attribute.name)
            elif not (
                attribute.system_only
                or attribute.constructed
                or attribute.is_back_link
                or is_credential(name)
                or key in _NOT_RESTORED_FROM_LOG
            ):
                self._restore_attribute(restored, attribute, texts)
        if left_out:
            restored.warnings.append(f"Not given back, to be given anew where it is wanted: {', '.join(left_out)}.")
        if "memberOf" in self.values:
            self._restore_memberships(restored, entry.guid, new_dn)
        return restored

    def _restore_attribute(self, restored: RestoredContent, attribute: AttributeType, texts: Sequence[str]) -> None:
        """Restore the writable values of one attribute; a single refused one would make the whole restore fail."""
        name, is_member = attribute.name, attribute.name.lower() == "member"
        named_now = with_current_names(attribute, texts, {known: found.dn for known, found in self._present.items()})
        # Only values that the caller could write: members and referenced objects lie inside their scopes.
        in_reach = [
            text
            for text in named_now
            if not self._visibility.hides(name, [text]) and (not is_member or self._visibility.can_see(text))
        ]
        try:
            values = encode(attribute, in_reach)
        except InvalidValue:  # the log replaces characters that it cannot store, such as NUL
            restored.warnings.append(f"{name} cannot be given back: the log does not hold it as it was.")
            return
        if name.lower() == "serviceprincipalname":  # unique in the forest
            values = [
                each for each in values if not any(self._client.search_domain(Equals(name, each), ("objectGUID",)))
            ]
        elif is_member and not self._may_change_members:
            values = []
        if len(values) < len(texts):
            lost = len(texts) - len(values)
            restored.warnings.append(f"{name}: {lost} of {len(texts)} values cannot be given back: {_VALUE_REASONS}.")
        if values:
            restored.steps.append(Modification("replace", name, tuple(values)))
            restored.changes.append(AttributeChange(name, (), shown_values(attribute, decode(attribute, values))))

    def _restore_memberships(self, restored: RestoredContent, guid: UUID, new_dn: str) -> None:
        """Add a change of each group that the object was a member of and that the caller may change."""
        names = self.values["memberOf"]
        if not self._may_change_members:
            restored.warnings.append(
                f"Its memberships stay lost, the caller may not change members: {self._render_groups(names)}."
            )
            return
        groups = {
            name: self._present[name] for name in names if name in self._present and is_group(self._present[name])
        }
        protected = protected_among(self._client, groups.values())
        may_join = {
            name: group
            for name, group in groups.items()
            if self._visibility.can_see(group.dn)
            if group.guid not in protected or self._call.may("directory.manage_protected")
        }
        for group in may_join.values():
            restored.dependent_changes.append(self._membership(group, guid, new_dn))
            restored.joins_protected |= group.guid in protected
        if refused := [name for name in names if name not in may_join]:
            restored.warnings.append(
                f"Memberships that stay lost, as {_GROUP_REASONS}: {self._render_groups(refused)}."
            )
        if may_join:
            restored.changes.append(AttributeChange("memberOf", (), tuple(group.dn for group in may_join.values())))

    def _membership(self, group: Entry, guid: UUID, new_dn: str) -> DependentChange:
        write = Modify(guid_reference(group.guid), (Modification("add", "member", (new_dn.encode(),)),), guarded=True)
        identities = {new_dn: guid}
        return DependentChange(
            operation="groups.update",
            target=target_of(group),
            changes=(AttributeChange("member", (), (new_dn,)),),
            write=write,
            evidence=evidence_of(write, entry=group, schema=self._client.schema, identities=identities),
            identities=identities,
        )

    def _render_groups(self, names: Sequence[str]) -> str:
        """The names of the groups that the caller may see, and the number of others."""
        can_see = self._visibility.can_see
        seen = [
            name for name in names if can_see(name) and (name not in self._present or can_see(self._present[name].dn))
        ]
        listed = summarize_names(seen)
        if hidden := len(names) - len(seen):
            listed.append(f"{hidden} outside the caller's scopes")
        return "; ".join(listed)
