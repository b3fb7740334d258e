"""Makes a connection, a person, a role and two keys that may do everything without asking, and prints the keys."""

import sys

import django

django.setup()

from django.contrib.auth.models import Permission  # noqa: E402 - after Django is set up

from bench.gateway import PERSON  # noqa: E402 - after Django is set up
from core.call import SupervisionLevel  # noqa: E402
from directory.models import DirectoryConnection  # noqa: E402
from keys import credential_values  # noqa: E402
from keys.models import ApiKey, Link, Person, Role  # noqa: E402


def main() -> None:
    url, ca_file, bind_dn, password = sys.argv[1:]
    with open(ca_file, encoding="ascii") as file:
        certificate = file.read()
    connection = DirectoryConnection.objects.create(
        name="bench",
        urls=[url],
        base_dn=bind_dn[bind_dn.index("DC=") :],
        bind_dn=bind_dn,
        bind_password=password,
        ca_certificate=certificate,
    )
    owner = Person.objects.create_superuser(PERSON, password=password)
    role = Role.objects.create(name="bench")
    role.permissions.set(Permission.objects.filter(content_type__app_label__in=["directory", "audit"]))
    for name in ("flood", "bench"):  # whoever knows of one key alone takes the last
        value, secret = credential_values.make(credential_values.Prefix.API_KEY)
        key = ApiKey.objects.create(
            name=name,
            owner=owner,
            role=role,
            lookup_id=secret.lookup_id,
            digest=secret.digest,
            supervision_level=SupervisionLevel.ACT,
        )
        Link.objects.create(api_key=key, connection=connection)
        print(value)


main()
