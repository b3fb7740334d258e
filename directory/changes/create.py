"""Proposals to create an object: one Add that holds everything, the password of an account included."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from active_directory import (
    Add,
    DistinguishedName,
    Entry,
    GroupType,
    Schema,
    UserAccountControl,
    datetime_to_filetime,
    decode,
    quoted_password,
)
from core.call import Call
from core.errors import InvalidRequest
from core.operation import Risk
from core.text.messages import message
from directory import errors
from directory.changes.checks.prechecks import (
    refuse_primary_group_of_new,
    require_attributes_of,
    require_free,
    require_mandatory_attributes,
    require_name_free,
    require_possible_parent,
)
from directory.changes.passwords import explain_refusal, require_acceptable
from directory.changes.references import (
    parent_of,
    require_new_members_allowed,
    require_references_visible,
    resolve_references,
)
from directory.changes.update import permissions_for_attributes
from directory.lookup.access import client_of, find_parent, parse_reference
from directory.outcomes.evidence import evidence_of
from directory.policies.password_policy import PolicyReader
from directory.policies.root_keys import explain_missing_key, warnings_of_missing_key
from directory.protection.rules import protects_its_content, require_may_write
from directory.queries.reading import read_created
from directory.shapes.account import AccountPart
from directory.shapes.attribute_updates import pointer
from directory.shapes.inputs import CreateAccount, CreateGroup, CreateNamed
from directory.shapes.kinds import ACCOUNT_KINDS, Kind, kind_of, permission_for
from directory.shapes.modifications import Step, read_updates, require_sense, values_of_new
from directory.shapes.proposal import SECRET, AttributeChange, Proposal, Target, shown_values
from directory.shapes.record import PROTECTION_ATTRIBUTES
from directory.shapes.value_rules import (
    ACCOUNT_TYPE_OF_KIND,
    GROUP_SCOPE_BITS,
    refuse_account_name,
    refuse_name,
    replace_bad_characters,
)


@dataclass(frozen=True, slots=True)
class _Attributes:
    """The attributes of the object to be made, and the members of the body they come from by lower-case name."""

    values: dict[str, tuple[bytes, ...]]
    where: dict[str, str]

    @classmethod
    def from_steps(cls, steps: Sequence[Step], kind: Kind) -> "_Attributes":
        """Those of the updates; an empty list gives a new object nothing: its name counts as not given."""
        return cls(
            {attribute.name: encoded for attribute, encoded in values_of_new(steps, kind=kind)},
            {step.name: step.where for step in steps if step.values},
        )

    def __contains__(self, attribute: str) -> bool:
        return attribute.lower() in self.where

    def set(self, attribute: str, value: bytes, *member: str) -> None:
        """Give it what a member of the body stands for. Raises AttributesConflict when the updates give it one too."""
        where = pointer(*member)
        if attribute in self:
            raise errors.AttributesConflict.naming(
                message("{attribute} is also among the attributes", attribute=attribute), pointer=where
            )
        self.values[attribute] = (value,)
        self.where[attribute.lower()] = where


# What the parts of a creation write: it needs no more than the permission to create, and is no change of anything. The
# same in an update is what a change of it would be.
_OF_CREATIONS = frozenset(
    {"sAMAccountName", "userPrincipalName", "userAccountControl", "unicodePwd", "groupType"}
    | {"pwdLastSet", "accountExpires"}
)


def propose_create(call: Call, *, object_class: str, body: CreateNamed) -> Proposal:
    """The Add of an object of a structural class below a parent; an account and a group come with bodies of their own.

    Raises InvalidRequest for a class, a name or an expiry that cannot be, AttributesConflict, PasswordRequired,
    ObjectNotFound for the parent, AlreadyExists when the name or an identifier is taken, PasswordPolicyViolation, and
    DirectoryRejected for a parent that holds no such class and for attributes that it does not have.
    """
    parent = parse_reference(body.parent, pointer="#/parent")
    client = client_of(call)
    schema = client.schema
    classes, rdn_attribute = _class_of_new(schema, object_class)
    kind = kind_of(classes)
    if complaint := refuse_name(body.name):
        raise InvalidRequest.naming(complaint, pointer="#/name")
    steps = read_updates(body, schema, kind=kind, new=classes)
    require_references_visible(call, steps)
    require_sense(steps, kind=kind, entry=None)
    new = _Attributes.from_steps(steps, kind)
    named = frozenset(new.values)
    if isinstance(body, CreateAccount):
        _add_account(new, kind, body)
    elif isinstance(body, CreateGroup):
        _add_group(new, body)
    why_risky = _risk_of_account(new, kind, "#/password" if isinstance(body, CreateAccount) else None)

    container = find_parent(call, parent, attributes=PROTECTION_ATTRIBUTES)
    protected = require_may_write(call, protected=protects_its_content(client, container))
    identities = resolve_references(call, steps, _changes_of_values(schema, new.values))
    require_new_members_allowed(call, new.values, identities)
    dn = DistinguishedName.parse(container.dn).child(rdn_attribute.upper(), body.name)
    require_possible_parent(schema, classes, container, "#/parent")
    require_attributes_of(schema, classes, steps)
    require_mandatory_attributes(schema, classes, {rdn_attribute.lower(), *map(str.lower, new.values)})
    refuse_primary_group_of_new(steps)
    require_name_free(client, str(dn))
    require_free(client, new.values, new.where)
    planned = Entry(str(dn), {attribute: list(encoded) for attribute, encoded in new.values.items()})
    policy = None
    if isinstance(body, CreateAccount) and body.password is not None:
        policy = PolicyReader(client).of_domain()
        require_acceptable(policy, planned, body.password, pointer="#/password")

    write = Add(str(dn), {"objectClass": (classes[-1].encode(),), **new.values})
    warnings = warnings_of_missing_key(client, classes)
    written = named | (new.values.keys() - _OF_CREATIONS)
    return Proposal(
        target=Target(id=None, kind=kind, distinguished_name=str(dn), account_name=planned.text("sAMAccountName")),
        changes=(AttributeChange("distinguishedName", (), (write.dn,)), *_changes_of_values(schema, write.attributes)),
        write=write,
        answer=lambda: read_created(call, str(dn)),
        requires=permissions_for_attributes(frozenset(map(str.lower, written))) | {permission_for("create", kind)},
        attributes=written,
        protected=protected,
        risk=Risk.SECURITY if why_risky else Risk.ORDINARY,
        risk_reason=why_risky,
        evidence=evidence_of(write, entry=container),
        identities={**identities, parent_of(write.dn): container.guid},
        warnings=warnings,
        explain=lambda refusal: explain_missing_key(warnings, explain_refusal(policy, refusal)),
    )


def _class_of_new(schema: Schema, object_class: str) -> tuple[list[str], str]:
    """The classes from `top` to a structural one, and its naming attribute.

    Raises InvalidRequest unless objects can be made of it.
    """
    known = schema.object_class(object_class)
    if known is None or not known.structural:
        raise InvalidRequest.naming(
            message("{object_class!r} is no structural class of the schema", object_class=object_class),
            pointer="#/objectClass",
        )
    inherited = schema.superclasses(known.name)
    rdn_attribute = next(
        (found.rdn_attribute for found in map(schema.object_class, inherited) if found and found.rdn_attribute), None
    )
    return inherited[::-1], rdn_attribute or "cn"


def _add_account(new: _Attributes, kind: Kind, body: CreateAccount) -> None:
    """Add what makes it an account. Raises InvalidRequest and AttributesConflict."""
    options = body.account or AccountPart()
    _add_account_name(new, kind, body.name, body.sam_account_name)
    if body.user_principal_name is not None:
        new.set("userPrincipalName", body.user_principal_name.encode(), "userPrincipalName")
    if "userAccountControl" not in new or body.enabled or "password_never_expires" in options.model_fields_set:
        control = ACCOUNT_TYPE_OF_KIND[kind]
        if not body.enabled:
            control |= UserAccountControl.ACCOUNTDISABLE
        if options.password_never_expires:
            control |= UserAccountControl.DONT_EXPIRE_PASSWD
        new.set("userAccountControl", str(control.value).encode(), "enabled" if body.enabled else "account")
    if options.expires_at is not None:
        new.set("accountExpires", str(datetime_to_filetime(options.expires_at)).encode(), "account")
    if options.must_change_password:
        new.set("pwdLastSet", b"0", "account")
    if body.password is not None:
        if not body.password:
            raise InvalidRequest.naming(message("must not be empty"), pointer="#/password")
        new.values["unicodePwd"] = (quoted_password(body.password),)


def _risk_of_account(new: _Attributes, kind: Kind, password_at: str | None) -> str | None:
    """Why what becomes of it as an account is a security change, if it is.

    Raises PasswordRequired for an enabled account without a password, whichever path it is made by: without
    userAccountControl the directory makes a disabled one. The password of a service account is the directory's matter,
    or that of its host. `password_at` is where the body has a password, if it can have one.
    """
    if kind not in ACCOUNT_KINDS or "userAccountControl" not in new:
        return None
    control = UserAccountControl(int(new.values["userAccountControl"][0]))
    if not control & UserAccountControl.ACCOUNTDISABLE:
        if "unicodePwd" not in new.values and kind is not Kind.SERVICE_ACCOUNT:
            where = password_at or new.where["useraccountcontrol"]
            raise errors.PasswordRequired.naming(message("an enabled account needs a password"), pointer=where)
        return message("it creates an enabled account")
    never_expires = bool(control & UserAccountControl.DONT_EXPIRE_PASSWD)
    return message("it creates an account whose password never expires") if never_expires else None


def _add_account_name(new: _Attributes, kind: Kind, name: str, given: str | None) -> None:
    """The sAMAccountName: as given, else the object's name (as New-ADUser does); a computer's ends with `$`."""
    if given is None and "sAMAccountName" in new:
        return
    chosen = name if given is None else given
    if kind is Kind.COMPUTER and not chosen.endswith("$"):
        chosen += "$"
    if complaint := refuse_account_name(chosen, kind):
        raise InvalidRequest.naming(complaint, pointer="#/samAccountName")
    new.set("sAMAccountName", chosen.encode(), "samAccountName")


def _add_group(new: _Attributes, body: CreateGroup) -> None:
    """Add what makes it a group. Raises AttributesConflict."""
    sent = body.model_fields_set & {"scope", "type"}
    if "groupType" not in new or sent:
        bits = GROUP_SCOPE_BITS[body.scope]
        if body.type == "security":
            bits |= GroupType.SECURITY_ENABLED
        new.set("groupType", str(bits.signed).encode(), "scope" if "scope" in sent else "type")
    if body.sam_account_name is not None:
        _add_account_name(new, Kind.GROUP, body.name, body.sam_account_name)
    elif "sAMAccountName" not in new:
        new.set("sAMAccountName", replace_bad_characters(body.name).encode(), "name")


def _changes_of_values(schema: Schema, values: Mapping[str, Sequence[bytes]]) -> Iterable[AttributeChange]:
    for name, encoded in values.items():
        attribute, secret = schema.attribute(name), name == "unicodePwd"
        yield AttributeChange(name, (), (SECRET,) if secret else shown_values(attribute, decode(attribute, encoded)))
