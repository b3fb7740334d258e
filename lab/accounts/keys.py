"""A connection, keys and people of a gateway that runs elsewhere, made in a process with its settings.

`python -m lab.accounts.keys` reads `{"urls", "baseDn", "bindDn", "bindPassword", "caCertificate", "clients"}` and
writes `{"keys": […], "careful": […], "approver": {"username", "password"}, "administrator": {…}}`, one key and one
careful key for each client. All may do everything; what is asked for with a careful one waits for the approver.
"""

import json
import secrets
import sys
from collections.abc import Sequence
from typing import Any

from lab.domain import Domain
from lab.gateway import Commands


def make_accounts(gateway: Commands, domain: Domain, *, urls: Sequence[str], clients: int) -> dict[str, Any]:
    """Have them made by the gateway's own release; raises RuntimeError."""
    asked = {
        "url": urls[0],  # all that an earlier release knows
        "urls": list(urls),
        "baseDn": domain.base_dn,
        "bindDn": domain.bind_dn,
        "bindPassword": domain.bind_password,
        "caCertificate": domain.ca_pem,
        "clients": clients,
    }
    said = gateway.run([sys.executable, "-m", gateway.release.account_maker], json.dumps(asked))
    accounts: dict[str, Any] = json.loads(said)
    return accounts


def _make(given: dict[str, Any]) -> dict[str, Any]:
    import django

    django.setup()
    # What an app must be loaded for.
    from django.contrib.auth.models import Permission

    from core.call import SupervisionLevel
    from directory.models import DirectoryConnection
    from keys.credential_values import Prefix, make
    from keys.models import ApiKey, Link, Person, Role

    connection = DirectoryConnection.objects.create(
        name="lab",
        urls=given["urls"],
        base_dn=given["baseDn"],
        bind_dn=given["bindDn"],
        bind_password=given["bindPassword"],
        ca_certificate=given["caCertificate"],
    )
    password = secrets.token_urlsafe(16)
    owner = Person.objects.create_superuser("administrator", password=password)
    approver = Person.objects.create_user("approver", password=password)
    approver.user_permissions.add(Permission.objects.get(codename="decide_change"))
    role = Role.objects.create(name="lab")
    role.permissions.set(Permission.objects.filter(content_type__app_label__in=["directory", "audit"]))

    def make_key(name: str, level: SupervisionLevel) -> str:
        value, secret = make(Prefix.API_KEY)
        key = ApiKey.objects.create(
            name=name,
            owner=owner,
            role=role,
            lookup_id=secret.lookup_id,
            digest=secret.digest,
            supervision_level=level,
        )
        Link.objects.create(api_key=key, connection=connection)
        return value

    numbers = range(given["clients"])
    return {
        "keys": [make_key(f"client {number}", SupervisionLevel.ACT) for number in numbers],
        "careful": [make_key(f"careful client {number}", SupervisionLevel.ASK_EVERY_CHANGE) for number in numbers],
        "approver": {"username": approver.username, "password": password},
        "administrator": {"username": owner.username, "password": password},
    }


if __name__ == "__main__":
    json.dump(_make(json.load(sys.stdin)), sys.stdout)
