"""Adds the rows of keys and their owners. Needs the gateway's settings, and Django set up."""

import secrets
from typing import Any

from django.contrib.auth.models import Permission

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from keys.credential_values import Prefix, make
from keys.models import ApiKey, Link, Person, Role


def add_key(
    name: str,
    owner: Person,
    role: Role,
    connection: DirectoryConnection,
    **fields: Any,
) -> tuple[str, str]:
    """Add a key linked to a connection; return its value and the Client ID of the link."""
    value, secret = make(Prefix.API_KEY)
    key = ApiKey.objects.create(
        name=name,
        owner=owner,
        role=role,
        lookup_id=secret.lookup_id,
        digest=secret.digest,
        **fields,
    )
    return value, str(Link.objects.create(api_key=key, connection=connection).client_id)


def add_accounts(request: dict[str, Any]) -> dict[str, Any]:
    """Add what `lab.accounts.making.make_accounts` requests, and return the credentials."""
    connection = DirectoryConnection.objects.create(
        name="lab",
        urls=request["urls"],
        base_dn=request["baseDn"],
        bind_dn=request["bindDn"],
        bind_password=request["bindPassword"],
        ca_certificate=request["caCertificate"],
    )
    password = secrets.token_urlsafe(16)
    owner = Person.objects.create_superuser("administrator", password=password)
    approver = Person.objects.create_user("approver", password=password)
    approver.user_permissions.add(Permission.objects.get(codename="decide_change"))
    role = Role.objects.create(name="lab")
    role.permissions.set(Permission.objects.filter(content_type__app_label__in=["directory", "audit"]))

    budgeted, _ = add_key(
        "with a budget",
        owner,
        role,
        connection,
        supervision_level=SupervisionLevel.ACT,
        security_changes_per_hour=request["budget"],
    )

    def add_keys(name: str, level: SupervisionLevel) -> list[str]:
        return [
            add_key(f"{name} {number}", owner, role, connection, supervision_level=level)[0]
            for number in range(request["clients"])
        ]

    return {
        "keys": add_keys("client", SupervisionLevel.ACT),
        "careful": add_keys("careful client", SupervisionLevel.ASK_EVERY_CHANGE),
        "budgeted": budgeted,
        "approver": {"username": approver.username, "password": password},
        "administrator": {"username": owner.username, "password": password},
    }
