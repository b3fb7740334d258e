"""Proposals to create an object: one Add that holds everything, the password of an account included."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from directory import errors
from directory.access import Reference, client_of, find_parent, require_inside_scopes
from directory.ldap import Add, Client, Entry, Schema, Scope, quoted_password
from directory.ldap.codecs import datetime_to_filetime, decode
from directory.ldap.dn import DistinguishedName
from directory.ldap.filters import Equals, Or
from directory.ldap.flags import GroupType, UserAccountControl
from directory.password_policy import PolicyReader
from directory.passwords import explain_refusal, require_acceptable
from directory.proposal import SECRET, AttributeChange, Proposal, Target
from directory.reading import read_created
from directory.references import require_new_members_allowed, require_references
from directory.settle import evidence_of
from directory.shapes.account import AccountPart, GroupCategory, GroupScope
from directory.shapes.bags import Bags, attribute_names, pointer
from directory.shapes.kinds import Kind, kind_of, permission_for
from directory.shapes.modifications import Step, read_bags, refusal, require_sense, values_of_new
from directory.shapes.value_rules import (
    ACCOUNT_TYPE_OF_KIND,
    GROUP_SCOPE_BITS,
    refuse_account_name,
    refuse_name,
    replace_bad_characters,
)
from directory.updating import permissions_for_attributes
from gateway.core.call import Call
from gateway.core.errors import InvalidRequest
from gateway.core.operation import Risk


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount:
    """What a new user or computer has besides its bags."""

    sam_account_name: str | None = None
    user_principal_name: str | None = None
    password: str | None = field(default=None, repr=False)
    enabled: bool = False
    options: AccountPart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGroup:
    """What a new group has besides its bags."""

    scope: GroupScope = "global"
    category: GroupCategory = "security"


def propose_create(
    call: Call,
    *,
    object_class: str,
    name: str,
    parent: Reference,
    bags: Bags,
    account: NewAccount | None = None,
    group: NewGroup | None = None,
) -> Proposal:
    """The Add of an object of a structural class below a parent.

    Raises InvalidRequest for a class or name that cannot be, PasswordRequired, ObjectNotFound for the parent,
    AlreadyExists when the name, the sAMAccountName or the userPrincipalName is taken, PasswordPolicyViolation.
    """
    client = client_of(call)
    schema = client.schema
    rdn_attribute, kind = _class_of_new(schema, object_class)
    if complaint := refuse_name(name):
        raise refusal(InvalidRequest, "#/name", complaint)
    steps = read_bags(bags, schema, kind=kind)
    require_sense(steps, kind=kind, entry=None)
    values = {attribute.name: encoded for attribute, encoded in values_of_new(steps, kind=kind)}
    why_risky = None
    if account is not None:
        why_risky = _add_account(values, bags, kind, name, account)
    if group is not None:
        _add_group(values, bags, name, group)

    container = find_parent(call, parent)
    require_references(call, steps)
    require_inside_scopes(call, *_members(steps))
    require_new_members_allowed(client, values)
    new = DistinguishedName.parse(container.dn).child(rdn_attribute.upper(), name)
    _require_free(client, new, values)
    policy = None
    if account is not None and account.password is not None:
        policy = PolicyReader(client).of_domain()
        planned = Entry(str(new), {attribute: list(encoded) for attribute, encoded in values.items()})
        require_acceptable(policy, planned, account.password, pointer="#/password")

    write = Add(str(new), {"objectClass": (object_class.encode(),), **values})
    return Proposal(
        target=Target(id=None, kind=kind, distinguished_name=str(new)),
        changes=tuple(_changes(schema, write)),
        write=write,
        answer=lambda: read_created(call, str(new)),
        requires=permissions_for_attributes(attribute_names(bags)) | {permission_for("create", kind)},
        attributes=frozenset(step.attribute.name for step in steps),
        risk=Risk.SECURITY if why_risky else Risk.ORDINARY,
        risk_reason=why_risky,
        evidence=evidence_of(write),
        explain=partial(explain_refusal, policy),
    )


def _class_of_new(schema: Schema, object_class: str) -> tuple[str, Kind]:
    """The naming attribute and the kind of a class; raises InvalidRequest unless objects can be made of it."""
    known = schema.object_class(object_class)
    if known is None or not known.structural:
        raise refusal(InvalidRequest, "#/objectClass", f"{object_class!r} is no structural class of the schema")
    inherited = schema.superclasses(known.name)
    rdn_attribute = next(
        (found.rdn_attribute for found in map(schema.object_class, inherited) if found and found.rdn_attribute), None
    )
    return rdn_attribute or "cn", kind_of(reversed(inherited))


def _add_account(
    values: dict[str, tuple[bytes, ...]], bags: Bags, kind: Kind, name: str, account: NewAccount
) -> str | None:
    """Add what makes it an account; why that is a security change, if it is."""
    named = attribute_names(bags)
    options = account.options
    given: frozenset[str] = frozenset() if options is None else frozenset(options.model_fields_set)
    _set_account_name(values, named, kind, name, account.sam_account_name)
    if account.user_principal_name is not None:
        _set(values, named, "userPrincipalName", account.user_principal_name.encode(), "userPrincipalName")
    if "useraccountcontrol" not in named or account.enabled or "password_never_expires" in given:
        control = ACCOUNT_TYPE_OF_KIND[kind]
        if not account.enabled:
            control |= UserAccountControl.ACCOUNTDISABLE
        if options is not None and options.password_never_expires:
            control |= UserAccountControl.DONT_EXPIRE_PASSWD
        _set(
            values,
            named,
            "userAccountControl",
            str(control.value).encode(),
            "enabled" if account.enabled else "account",
        )
    if options is not None and options.expires_at is not None:
        _set(values, named, "accountExpires", str(datetime_to_filetime(options.expires_at)).encode(), "account")
    if options is not None and options.must_change_password:
        _set(values, named, "pwdLastSet", b"0", "account")
    if account.password is not None:
        if not account.password:
            raise refusal(InvalidRequest, "#/password", "must not be empty")
        values["unicodePwd"] = (quoted_password(account.password),)
    enabled = not int(values["userAccountControl"][0]) & UserAccountControl.ACCOUNTDISABLE
    if enabled and account.password is None:
        raise refusal(errors.PasswordRequired, "#/password", "an enabled account needs a password")
    if enabled:
        return "it creates an enabled account"
    never_expires = options is not None and options.password_never_expires
    return "it creates an account whose password never expires" if never_expires else None


def _set_account_name(
    values: dict[str, tuple[bytes, ...]], named: frozenset[str], kind: Kind, name: str, given: str | None
) -> None:
    """The sAMAccountName: as given, else the object's name (as New-ADUser does); a computer's ends with `$`."""
    if given is None and "samaccountname" in named:
        return
    chosen = name if given is None else given
    if kind is Kind.COMPUTER and not chosen.endswith("$"):
        chosen += "$"
    if complaint := refuse_account_name(chosen, kind):
        raise refusal(InvalidRequest, "#/samAccountName", complaint)
    _set(values, named, "sAMAccountName", chosen.encode(), "samAccountName")


def _add_group(values: dict[str, tuple[bytes, ...]], bags: Bags, name: str, group: NewGroup) -> None:
    named = attribute_names(bags)
    bits = GROUP_SCOPE_BITS[group.scope]
    if group.category == "security":
        bits |= GroupType.SECURITY_ENABLED
    _set(values, named, "groupType", str(bits.signed).encode(), "scope")
    if "samaccountname" not in named:
        values["sAMAccountName"] = (replace_bad_characters(name).encode(),)


def _set(
    values: dict[str, tuple[bytes, ...]], named: frozenset[str], attribute: str, value: bytes, member: str
) -> None:
    if attribute.lower() in named:
        raise refusal(errors.AttributesConflict, pointer(member), f"{attribute} is also in a bag")
    values[attribute] = (value,)


def _members(steps: Iterable[Step]) -> list[str]:
    return [value.decode() for step in steps if step.name == "member" for value in step.values]


def _require_free(client: Client, new: DistinguishedName, values: dict[str, tuple[bytes, ...]]) -> None:
    """Refuse early what the directory would refuse: a dry run and an approver shall see it too."""
    if client.find(str(new), ("objectGUID",)) is not None:
        raise errors.AlreadyExists(f"There is an object with the name {new.rdn_value!r} in this container already.")
    identifiers = [
        Equals(name, values[name][0].decode()) for name in ("sAMAccountName", "userPrincipalName") if name in values
    ]
    domain = client.default_naming_context
    taken = (
        list(client.search(domain, Scope.SUBTREE, Or(*identifiers), ("sAMAccountName",), limit=1))
        if identifiers
        else []
    )
    for found in taken:
        same = (found.text("sAMAccountName") or "").lower() == values["sAMAccountName"][0].decode().lower()
        raise errors.AlreadyExists(f"The {'sAMAccountName' if same else 'userPrincipalName'} is in use.")


def _changes(schema: Schema, write: Add) -> Iterable[AttributeChange]:
    yield AttributeChange("distinguishedName", (), (write.dn,))
    for name, values in write.attributes.items():
        secret = name == "unicodePwd"
        yield AttributeChange(name, (), (SECRET,) if secret else tuple(decode(schema.attribute(name), values)))
