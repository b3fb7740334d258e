"""Run with the campaign's settings: makes the connection, the keys and an approver, and prints what opens them.

`python -m faults.prepare` reads `{"urls", "baseDn", "bindDn", "bindPassword", "caCertificate", "clients"}` and writes
`{"keys": [...], "careful": [...], "approver": {"username", "password"}}`, keys in the order of the clients.
"""

import json
import secrets as random_secrets
import sys
from typing import Any

import django

django.setup()

from django.contrib.auth.models import Permission  # noqa: E402 - after Django is set up

from core.call import SupervisionLevel  # noqa: E402
from directory.models import DirectoryConnection  # noqa: E402
from keys import credential_values  # noqa: E402
from keys.models import ApiKey, Link, Person, Role  # noqa: E402


def main() -> None:
    given: dict[str, Any] = json.load(sys.stdin)
    connection = DirectoryConnection.objects.create(
        name="campaign",
        urls=given["urls"],
        base_dn=given["baseDn"],
        bind_dn=given["bindDn"],
        bind_password=given["bindPassword"],
        ca_certificate=given["caCertificate"],
    )
    owner = Person.objects.create_superuser("campaign", password=None)
    role = Role.objects.create(name="campaign")
    role.permissions.set(Permission.objects.filter(content_type__app_label__in=["directory", "audit"]))

    def make_key(name: str, level: SupervisionLevel) -> str:
        value, secret = credential_values.make(credential_values.Prefix.API_KEY)
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

    password = random_secrets.token_urlsafe(16)
    approver = Person.objects.create_user("approver", password=password)
    approver.user_permissions.add(Permission.objects.get(codename="decide_change"))
    numbers = range(given["clients"])
    result = {
        "keys": [make_key(f"client {number}", SupervisionLevel.ACT) for number in numbers],
        "careful": [make_key(f"careful client {number}", SupervisionLevel.ASK_EVERY_CHANGE) for number in numbers],
        "approver": {"username": approver.username, "password": password},
    }
    print(json.dumps(result))


main()
