"""Proposals to create an object with one LDAP add that holds everything, an account's password included."""

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
from audit.redact import SECRET
from core.call import Call
from core.errors import FieldError, InvalidRequest
from core.operation import Risk
from core.text.messages import message
from directory import errors
from directory.changes.membership import require_new_members_allowed
from directory.changes.passwords import explain_password_refusal, require_acceptable_password
from directory.changes.references import (
    parent_name,
    require_references_visible,
    resolve_references,
)
from directory.changes.targets import (
    rejection,
    require_allowed_attributes,
    require_identifiers_free,
    require_mandatory_attributes,
    require_name_free,
    require_possible_parent,
)
from directory.changes.update import permissions_for_attributes
from directory.lookup.access import client_of, find_parent, parse_reference
from directory.outcomes.evidence import evidence_of
from directory.policies.change_warnings import explain_missing_root_key, missing_root_key_warnings
from directory.policies.password_policy import PasswordPolicy, PolicyReader, generate_first_password, generate_password
from directory.protection.rules import is_content_protected, require_may_write
from directory.queries.reading import read_record
from directory.shapes.inputs import AccountPart, CreateAccount, CreateGroup, CreateNamed, pointer
from directory.shapes.kinds import ACCOUNT_KINDS, Kind, kind_of, permission_for
from directory.shapes.modifications import Step, initial_values, parse_updates, require_sensible_values
from directory.shapes.proposal import AttributeChange, Proposal, Target, shown_values
from directory.shapes.record import PROTECTION_ATTRIBUTES
from directory.shapes.value_rules import (
    ACCOUNT_TYPE_OF_KIND,
    GROUP_SCOPE_BITS,
    account_name_problem,
    name_problem,
    sanitize_account_name,
)


@dataclass(frozen=True, slots=True)
class _Attributes:
    """The attributes of a new object; `pointers` maps their lower-case names to JSON pointers into the body."""

    values: dict[str, tuple[bytes, ...]]
    pointers: dict[str, str]

    def __contains__(self, attribute: str) -> bool:
        return attribute.lower() in self.pointers

    def set(self, attribute: str, value: str | int, member: str) -> None:
        """Set an attribute from a member of the body. Raises AttributesConflict if the attribute updates set it too."""
        where = pointer(member)
        if attribute in self:
            raise errors.AttributesConflict.naming(
                message("{attribute} is also among the attributes", attribute=attribute), pointer=where
            )
        self.values[attribute] = (str(value).encode(),)
        self.pointers[attribute.lower()] = where


# Attributes that the body's own members set: for a new object the permission to create suffices for them. Attribute
# updates that name them need the same permissions as in an update.
_COVERED_BY_CREATE = frozenset(
    {"sAMAccountName", "userPrincipalName", "userAccountControl", "unicodePwd", "groupType"}
    | {"pwdLastSet", "accountExpires"}
)


def propose_create(call: Call, *, object_class: str, body: CreateNamed) -> Proposal:
    """Propose to add an object of a structural class below a parent; accounts and groups have bodies of their own.

    Raises InvalidRequest for an impossible class, name or expiry, AttributesConflict, PasswordRequired, ObjectNotFound
    for the parent, AlreadyExists when the name or an identifier is in use, PasswordPolicyViolation, and
    DirectoryRejected for a parent that cannot contain the class and for attributes that the class does not allow.
    """
    parent = parse_reference(body.parent, pointer="#/parent")
    client = client_of(call)
    schema = client.schema
    classes, rdn_attribute = _resolve_class(schema, object_class)
    kind = kind_of(classes)
    if complaint := name_problem(body.name):
        raise InvalidRequest.naming(complaint, pointer="#/name")
    steps = parse_updates(body, schema, kind=kind, new=classes)
    require_references_visible(call, steps)
    require_sensible_values(steps, kind=kind, entry=None)
    new = _Attributes(  # one with an empty list of values counts as unset
        {attribute.name: encoded for attribute, encoded in initial_values(steps, kind=kind)},
        {step.name: step.where for step in steps if step.values},
    )
    named = frozenset(new.values)
    policy, generated = None, None
    if isinstance(body, CreateAccount):
        _add_account(new, kind, body)
        if body.password is not None or body.generate_password:
            policy = PolicyReader(client).of_domain()
        if body.generate_password:
            generated = _add_generated_password(new, policy, body)
    elif isinstance(body, CreateGroup):
        _add_group(new, body)
    why_risky = _account_risk(new, kind, "#/password" if isinstance(body, CreateAccount) else None)

    container = find_parent(call, parent, attributes=PROTECTION_ATTRIBUTES)
    protected = require_may_write(call, protected=is_content_protected(client, container))
    identities = resolve_references(call, steps, _changes_of_values(schema, new.values))
    require_new_members_allowed(call, new.values, identities)
    dn = DistinguishedName.parse(container.dn).child(rdn_attribute.upper(), body.name)
    require_possible_parent(schema, classes, container, "#/parent")
    require_allowed_attributes(schema, classes, steps)
    require_mandatory_attributes(schema, classes, {rdn_attribute.lower(), *map(str.lower, new.values)})
    _require_no_primary_group(steps)
    require_name_free(client, str(dn))
    require_identifiers_free(client, new.values, new.pointers)
    planned = Entry(str(dn), {attribute: list(encoded) for attribute, encoded in new.values.items()})
    if isinstance(body, CreateAccount) and body.password is not None:
        require_acceptable_password(policy, planned, body.password, pointer="#/password")

    write = Add(str(dn), {"objectClass": (classes[-1].encode(),), **new.values})
    warnings = missing_root_key_warnings(client, classes)
    written = named | (new.values.keys() - _COVERED_BY_CREATE)
    return Proposal(
        target=Target(id=None, kind=kind, distinguished_name=str(dn), account_name=planned.text("sAMAccountName")),
        changes=(AttributeChange("distinguishedName", (), (write.dn,)), *_changes_of_values(schema, write.attributes)),
        write=write,
        answer=lambda: {**read_record(call, dn), **({"generatedPassword": generated} if generated else {})},
        secret=generated,
        requires=permissions_for_attributes(frozenset(map(str.lower, written))) | {permission_for("create", kind)},
        attributes=written,
        protected=protected,
        risk=Risk.SECURITY if why_risky else Risk.ORDINARY,
        risk_reason=why_risky,
        evidence=evidence_of(write, entry=container),
        identities={**identities, parent_name(write.dn): container.guid},
        warnings=warnings,
        explain=lambda refusal: explain_missing_root_key(warnings, explain_password_refusal(policy, refusal)),
    )


def _resolve_class(schema: Schema, object_class: str) -> tuple[list[str], str]:
    """A structural class with all its superclasses, `top` first, and its naming attribute.

    Raises InvalidRequest for a class that is unknown or not structural.
    """
    known = schema.object_class(object_class)
    if known is None or not known.is_structural:
        raise InvalidRequest.naming(
            message("{object_class!r} is no structural class of the schema", object_class=object_class),
            pointer="#/objectClass",
        )
    inherited = schema.superclasses(known.name)
    rdn_attribute = next(
        (found.rdn_attribute for found in map(schema.object_class, inherited) if found and found.rdn_attribute), None
    )
    return inherited[::-1], rdn_attribute or "cn"


def _require_no_primary_group(steps: Sequence[Step]) -> None:
    """Refuse to set primaryGroupID: a new account is in no group yet. Raises DirectoryRejected."""
    for step in steps:
        if step.name == "primarygroupid" and step.values:
            detail = message(
                "primaryGroupID must be that of a group that the account belongs to, and a new one is in none yet"
            )
            raise rejection(detail, step.where, attribute="primaryGroupID")


def _add_account(new: _Attributes, kind: Kind, body: CreateAccount) -> None:
    """Add the attributes of an account. Raises InvalidRequest and AttributesConflict."""
    options = body.account or AccountPart()
    _add_account_name(new, kind, body.name, body.sam_account_name)
    if body.user_principal_name is not None:
        new.set("userPrincipalName", body.user_principal_name, "userPrincipalName")
    if "userAccountControl" not in new or body.enabled or "password_never_expires" in options.model_fields_set:
        control = ACCOUNT_TYPE_OF_KIND[kind]
        if not body.enabled:
            control |= UserAccountControl.ACCOUNTDISABLE
        if options.password_never_expires:
            control |= UserAccountControl.DONT_EXPIRE_PASSWD
        new.set("userAccountControl", control.value, "enabled" if body.enabled else "account")
    if options.expires_at is not None:
        new.set("accountExpires", datetime_to_filetime(options.expires_at), "account")
    if options.must_change_password:
        new.set("pwdLastSet", 0, "account")
    if body.password is not None:
        if not body.password:
            raise InvalidRequest.naming(message("must not be empty"), pointer="#/password")
        new.values["unicodePwd"] = (quoted_password(body.password),)


def _add_generated_password(new: _Attributes, policy: PasswordPolicy | None, body: CreateAccount) -> str:
    """Add a password made by the gateway and return it. Raises InvalidRequest.

    It is made anew whenever the change is proposed: what a held request shows of it is that there is one.
    """
    if body.password is not None:
        detail = message("give only one of password and generatePassword")
        places = ("#/password", "#/generatePassword")
        raise InvalidRequest(
            detail, errors=[FieldError(InvalidRequest.code, detail, pointer=place) for place in places]
        )
    account, shown = (new.values.get(name, (b"",))[0].decode() for name in ("sAMAccountName", "displayName"))
    make = generate_first_password if new.values.get("pwdLastSet") == (b"0",) else generate_password
    generated = make(policy, account_name=account, display_name=shown)
    new.values["unicodePwd"] = (quoted_password(generated),)
    return generated


def _account_risk(new: _Attributes, kind: Kind, password_at: str | None) -> str | None:
    """Why the creation of an account is a security change, or None.

    `password_at` is the JSON pointer of the body's password, if its shape has one. Raises PasswordRequired for an
    enabled account without a password; a managed service account gets its password from the directory or its host.
    Without userAccountControl the directory creates a disabled account.
    """
    if kind not in ACCOUNT_KINDS or "userAccountControl" not in new:
        return None
    control = UserAccountControl(int(new.values["userAccountControl"][0]))
    if not control & UserAccountControl.ACCOUNTDISABLE:
        if "unicodePwd" not in new.values and kind is not Kind.SERVICE_ACCOUNT:
            where = password_at or new.pointers["useraccountcontrol"]
            raise errors.PasswordRequired.naming(message("an enabled account needs a password"), pointer=where)
        return message("it creates an enabled account")
    never_expires = bool(control & UserAccountControl.DONT_EXPIRE_PASSWD)
    return message("it creates an account whose password never expires") if never_expires else None


def _add_account_name(new: _Attributes, kind: Kind, name: str, given: str | None) -> None:
    """Set sAMAccountName: as given, else the object's name (as New-ADUser does); a computer's ends with `$`."""
    if given is None and "sAMAccountName" in new:
        return
    chosen = name if given is None else given
    if kind is Kind.COMPUTER and not chosen.endswith("$"):
        chosen += "$"
    if complaint := account_name_problem(chosen, kind):
        raise InvalidRequest.naming(complaint, pointer="#/samAccountName")
    new.set("sAMAccountName", chosen, "samAccountName")


def _add_group(new: _Attributes, body: CreateGroup) -> None:
    """Add the attributes of a group. Raises AttributesConflict."""
    sent = body.model_fields_set & {"scope", "type"}
    if "groupType" not in new or sent:
        bits = GROUP_SCOPE_BITS[body.scope]
        if body.type == "security":
            bits |= GroupType.SECURITY_ENABLED
        new.set("groupType", bits.signed, "scope" if "scope" in sent else "type")
    if body.sam_account_name is not None:
        _add_account_name(new, Kind.GROUP, body.name, body.sam_account_name)
    elif "sAMAccountName" not in new:
        new.set("sAMAccountName", sanitize_account_name(body.name), "name")


def _changes_of_values(schema: Schema, values: Mapping[str, Sequence[bytes]]) -> Iterable[AttributeChange]:
    for name, encoded in values.items():
        attribute, secret = schema.attribute(name), name == "unicodePwd"
        yield AttributeChange(name, (), (SECRET,) if secret else shown_values(attribute, decode(attribute, encoded)))
