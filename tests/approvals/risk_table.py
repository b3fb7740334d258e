"""The truth table of supervision (docs/api.md#risk): for every change that can be asked for, the risk it is.

A row is an input of the operation and its risk. `{name}` in an input stands for an object of `tests.approvals.estate`;
each input really changes something there, or it would be no change at all. An operation without rows fails its test.
"""

from dataclasses import dataclass
from typing import Any

from core.operation import Risk

ORDINARY, DESTRUCTIVE, SECURITY = Risk
"""In their order: of several risks of one change the last one counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    target: str | None = None  # for {id} in the path
    body: Any = None
    query: str = ""
    risk: Risk


def _row(risk: Risk, target: str | None = None, body: Any = None, query: str = "") -> Row:
    return Row(target=target, body=body, query=query, risk=risk)


def _new(**more: Any) -> dict[str, Any]:
    return {"name": "Someone New", "parent": "{unit}", **more}


def _accounts_update(plain: str, protected: str, *, control: int) -> list[Row]:
    """Users and computers; `plain` is a disabled account, `control` its flags with DONT_EXPIRE_PASSWD."""
    return [
        _row(ORDINARY, plain, {"replace": {"description": "x", "info": "y"}}),
        _row(ORDINARY, plain, {"replace": {"msDS-cloudExtensionAttribute1": "x", "msDS-PhoneticDisplayName": "y"}}),
        _row(ORDINARY, plain, {"replace": {"displayName": "Ада Ловлейс"}}),
        _row(SECURITY, plain, {"replace": {"displayName": "Ada\u202e"}}),
        _row(DESTRUCTIVE, plain, {"account": {"expiresAt": "2031-01-31T00:00:00Z"}}),
        _row(DESTRUCTIVE, plain, {"replace": {"accountExpires": "2031-01-31T00:00:00Z"}}),
        _row(SECURITY, plain, {"account": {"mustChangePassword": False}}),
        _row(SECURITY, plain, {"replace": {"pwdLastSet": "-1"}}),
        _row(SECURITY, plain, {"account": {"passwordNeverExpires": True}}),
        _row(SECURITY, plain, {"replace": {"userAccountControl": str(control)}}),
        _row(SECURITY, plain, {"add": {"servicePrincipalName": ["HTTP/table.corp.example.test"]}}),
        _row(SECURITY, plain, {"replace": {"description": "x"}, "add": {"altSecurityIdentities": ["X509:<I>CN=x"]}}),
        _row(SECURITY, protected, {"replace": {"description": "x"}}),
    ]


def _moves(plain: str, protected: str) -> list[Row]:
    return [
        _row(ORDINARY, plain, {"parent": "{elsewhere}"}),
        _row(SECURITY, protected, {"parent": "{elsewhere}"}),
    ]


def _renames(plain: str, protected: str) -> list[Row]:
    return [
        _row(ORDINARY, plain, {"name": "Other"}),
        _row(SECURITY, plain, {"name": "Oth\u200ber"}),
        _row(SECURITY, protected, {"name": "Other"}),
    ]


def _always(risk: Risk, plain: str, protected: str) -> list[Row]:
    """Operations without a body whose risk rises for a protected target only."""
    return [_row(risk, plain), _row(SECURITY, protected)]


TABLE: dict[str, list[Row]] = {
    "users.create": [
        _row(ORDINARY, body=_new()),
        _row(ORDINARY, body=_new(password="Correct-Horse-9", account={"mustChangePassword": True})),
        _row(ORDINARY, body=_new(userPrincipalName="new@corp.example.test", replace={"mail": "new@example.test"})),
        _row(ORDINARY, body=_new(account={"expiresAt": "2031-01-31T00:00:00Z"})),
        _row(ORDINARY, body=_new(replace={"accountExpires": "2031-01-31T00:00:00Z"})),
        _row(SECURITY, body=_new(replace={"userWorkstations": "PC1"})),
        _row(ORDINARY, body=_new(enabled=False, account={"passwordNeverExpires": False})),
        _row(SECURITY, body=_new(enabled=True, password="Correct-Horse-9")),
        _row(SECURITY, body=_new(account={"passwordNeverExpires": True})),
        _row(SECURITY, body=_new(replace={"scriptPath": "x.cmd"})),
        _row(SECURITY, body=_new(replace={"userAccountControl": "514"})),
    ],
    "users.update": _accounts_update("user", "boss", control=0x10202),
    "users.delete": _always(DESTRUCTIVE, "user", "boss"),
    "users.enable": _always(SECURITY, "user", "boss_disabled"),
    "users.disable": _always(DESTRUCTIVE, "active", "boss"),
    "users.unlock": _always(ORDINARY, "locked", "boss_locked"),
    "users.move": _moves("user", "boss"),
    "users.rename": _renames("user", "boss"),
    "users.reset-password": [
        _row(SECURITY, "user", {"newPassword": "Engine-Number-2"}),
        _row(SECURITY, "user", {"generate": True, "unlock": True}),
        _row(SECURITY, "boss", {"generate": True}),
    ],
    "users.change-password": [
        _row(ORDINARY, "active", {"currentPassword": "Correct-Horse-9", "newPassword": "Engine-Number-2"}),
        _row(SECURITY, "boss", {"currentPassword": "Correct-Horse-9", "newPassword": "Engine-Number-2"}),
    ],
    "computers.create": [
        _row(ORDINARY, body=_new(replace={"location": "London"})),
        _row(SECURITY, body=_new(enabled=True, password="Correct-Horse-9")),
        _row(SECURITY, body=_new(account={"passwordNeverExpires": True})),
        _row(SECURITY, body=_new(replace={"dNSHostName": "pc.corp.example.test"})),
    ],
    "computers.update": [
        *_accounts_update("computer", "boss_computer", control=0x11002),
        _row(SECURITY, "computer", {"replace": {"dNSHostName": "pc.corp.example.test"}}),
        _row(SECURITY, "computer", {"replace": {"managedBy": "{user_dn}"}}),
        _row(SECURITY, "computer", {"add": {"msDS-AllowedToDelegateTo": ["cifs/x.corp.example.test"]}}),
    ],
    "computers.delete": _always(DESTRUCTIVE, "computer", "boss_computer"),
    "computers.enable": _always(SECURITY, "computer", "boss_computer"),
    "computers.disable": _always(DESTRUCTIVE, "active_computer", "boss_active_computer"),
    "computers.unlock": _always(ORDINARY, "locked_computer", "boss_locked_computer"),
    "computers.move": _moves("computer", "boss_computer"),
    "computers.rename": _renames("computer", "boss_computer"),
    "groups.create": [
        _row(ORDINARY, body=_new()),
        _row(ORDINARY, body=_new(scope="universal", type="distribution")),
        _row(SECURITY, body=_new(add={"member": ["{user_dn}"]})),
        _row(SECURITY, body=_new(replace={"managedBy": "{user_dn}"})),
    ],
    "groups.update": [
        _row(ORDINARY, "group", {"replace": {"description": "x", "mail": "x@example.test"}}),
        _row(SECURITY, "group", {"group": {"scope": "universal"}}),
        _row(SECURITY, "group", {"group": {"type": "distribution"}}),
        _row(SECURITY, "group", {"add": {"member": ["{user_dn}"]}}),
        _row(SECURITY, "group", {"remove": {"member": ["{active_dn}"]}}),  # the update names it
        _row(SECURITY, "group", {"clear": ["member"]}),
        _row(SECURITY, "group", {"replace": {"managedBy": "{user_dn}"}}),
        _row(SECURITY, "boss_group", {"replace": {"description": "x"}}),
    ],
    "groups.delete": _always(DESTRUCTIVE, "group", "boss_group"),
    "groups.move": _moves("group", "boss_group"),
    "groups.rename": _renames("group", "boss_group"),
    "groups.change-members": [
        _row(SECURITY, "group", {"add": ["{user}"]}),
        _row(DESTRUCTIVE, "group", {"remove": ["{active}"]}),
        _row(SECURITY, "group", {"add": ["{user}"], "remove": ["{active}"]}),
        _row(SECURITY, "boss_group", {"remove": ["{boss}"]}),
    ],
    "organization-units.create": [
        _row(ORDINARY, body=_new()),
        _row(SECURITY, body=_new(replace={"managedBy": "{user_dn}"})),
        _row(SECURITY, body=_new(replace={"gPOptions": "1"})),
    ],
    "organization-units.update": [
        _row(ORDINARY, "elsewhere", {"replace": {"description": "x"}}),
        _row(SECURITY, "elsewhere", {"replace": {"gPLink": "[LDAP://CN=x;0]"}}),
        _row(SECURITY, "elsewhere", {"replace": {"gPOptions": "1"}}),
        _row(SECURITY, "elsewhere", {"replace": {"managedBy": "{user_dn}"}}),
        _row(ORDINARY, "unit_of_boss", {"replace": {"description": "x"}}),  # says nothing of what it holds
        _row(SECURITY, "unit_of_boss", {"replace": {"gPLink": "[LDAP://CN=x;0]"}}),
        _row(SECURITY, "controllers", {"replace": {"description": "x"}}),
    ],
    "organization-units.delete": [
        _row(DESTRUCTIVE, "elsewhere"),
        _row(SECURITY, "unit_of_boss", query="recursive=true"),
    ],
    "organization-units.move": [
        _row(DESTRUCTIVE, "inner", {"parent": "{elsewhere}"}),
        _row(SECURITY, "unit_of_boss", {"parent": "{elsewhere}"}),
    ],
    "organization-units.rename": _renames("inner", "unit_of_boss"),
    "organization-units.enable-accounts": [
        _row(SECURITY, "unit", {"accounts": ["{user}"]}),
        _row(SECURITY, "unit", {"kinds": ["computer"], "scope": "one-level"}),
    ],
    "organization-units.disable-accounts": [
        _row(DESTRUCTIVE, "unit", {"accounts": ["{active}"]}),
        # A protected account fails by itself in a run: nobody's approval changes that.
        _row(DESTRUCTIVE, "unit", {"accounts": ["{active}", "{boss}"]}),
    ],
    "contacts.create": [
        _row(ORDINARY, body=_new(replace={"mail": "new@example.test"})),
        _row(SECURITY, body=_new(add={"msDS-AllowedToDelegateTo": ["cifs/x.corp.example.test"]})),
    ],
    "contacts.update": [
        _row(ORDINARY, "contact", {"replace": {"mail": "x@example.test"}}),
        _row(SECURITY, "contact", {"add": {"msDS-AllowedToDelegateTo": ["cifs/x.corp.example.test"]}}),
        _row(SECURITY, "boss_contact", {"replace": {"mail": "x@example.test"}}),
    ],
    "contacts.delete": _always(DESTRUCTIVE, "contact", "boss_contact"),
    "contacts.move": _moves("contact", "boss_contact"),
    "contacts.rename": _renames("contact", "boss_contact"),
    "objects.create": [
        _row(ORDINARY, body=_new(objectClass="contact")),
        _row(SECURITY, body=_new(objectClass="group", replace={"sAMAccountName": "new", "groupType": "2"})),
        _row(SECURITY, body=_new(objectClass="container", parent="{services}")),
    ],
    "objects.update": [
        _row(ORDINARY, "contact", {"replace": {"description": "x"}}),
        _row(ORDINARY, "user", {"replace": {"title": "x"}}),
        _row(SECURITY, "user", {"account": {"passwordNeverExpires": True}}),
        _row(SECURITY, "group", {"group": {"scope": "universal"}}),
        _row(SECURITY, "elsewhere", {"replace": {"gPLink": "[LDAP://CN=x;0]"}}),
        _row(SECURITY, "boss", {"replace": {"title": "x"}}),
        _row(SECURITY, "domain", {"replace": {"ms-DS-MachineAccountQuota": "0"}}),
    ],
    "objects.delete": _always(DESTRUCTIVE, "contact", "boss"),
    "objects.move": [
        *_moves("contact", "boss"),
        _row(DESTRUCTIVE, "inner", {"parent": "{elsewhere}"}),
    ],
    "objects.rename": _renames("contact", "boss"),
    "deleted-objects.restore": [
        _row(SECURITY, "deleted", {}),
        _row(SECURITY, "deleted", {"name": "Other", "parent": "{elsewhere}"}),
    ],
}

REVERTS: list[tuple[str, Row]] = [
    ("users.create", _row(DESTRUCTIVE, body=_new())),
    ("users.update", _row(ORDINARY, "user", {"replace": {"title": "x"}})),
    ("users.update", _row(SECURITY, "user", {"replace": {"scriptPath": "x.cmd"}})),
    ("users.update", _row(SECURITY, "boss", {"replace": {"title": "x"}})),
    ("users.enable", _row(DESTRUCTIVE, "disabled")),
    ("users.disable", _row(SECURITY, "active")),
    ("users.move", _row(ORDINARY, "locked", {"parent": "{elsewhere}"})),
    ("users.rename", _row(ORDINARY, "locked", {"name": "Other"})),
    ("users.delete", _row(SECURITY, "user")),
    ("groups.change-members", _row(DESTRUCTIVE, "group", {"add": ["{disabled}"]})),
    ("groups.change-members", _row(SECURITY, "group", {"remove": ["{disabled}"]})),
    ("organization-units.move", _row(DESTRUCTIVE, "inner", {"parent": "{elsewhere}"})),
]
"""Changes, and the risk of reverting them: it is the inverse change that counts. They are made in this order."""
