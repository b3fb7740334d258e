"""Who may do what in a directory now, and where: the keys that are good, and the people who may work there."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q
from django.utils import timezone

from active_directory import Client
from core.call import Scopes
from keys.models import ApiKey, Person
from keys.permission_catalogue import GRANTABLE
from keys.permissions.effective import permissions_of_people, permissions_of_roles
from keys.permissions.scoping import inside_all, scopes_of, scopes_of_people


@dataclass(frozen=True, slots=True)
class Holder:
    """A key or a person. `places` are the names of what their scopes leave them, None where they are not confined."""

    row: ApiKey | Person
    permissions: frozenset[str]
    places: tuple[str, ...] | None

    @property
    def name(self) -> str:
        return self.row.name if isinstance(self.row, ApiKey) else self.row.username


def find_holders(client: Client, connection_id: UUID) -> list[Holder]:
    """The keys linked to a directory and what their roles grant that the owner holds too; local people and its own.

    All scopes are looked up in one search; one that no longer exists holds nothing.
    """
    is_good = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    keys = ApiKey.objects.filter(is_good, revoked_at=None, owner__is_active=True, links__connection_id=connection_id)
    keys = keys.select_related("owner", "role").distinct()
    people = Person.objects.filter(Q(connection=None) | Q(connection_id=connection_id), is_active=True)
    everybody = {*people, *(key.owner for key in keys)}
    of_roles = permissions_of_roles({key.role_id for key in keys})
    of_people, of_person = permissions_of_people(everybody), scopes_of_people(everybody)
    found: list[tuple[ApiKey | Person, frozenset[str], Scopes]] = [
        *(
            (
                key,
                of_roles[key.role_id] & of_people[key.owner.pk] & GRANTABLE,
                (*scopes_of(key.role.scopes), *of_person[key.owner.pk]),
            )
            for key in keys
        ),
        *((person, of_people[person.pk], of_person[person.pk]) for person in people),
    ]
    wanted = {guid for *_, scopes in found for bases in scopes for guid in bases}
    bases = client.read_many(wanted, ("objectGUID",)) if wanted else {}
    names = {guid: base.dn for guid, base in bases.items()}
    return [Holder(row, permissions, inside_all(scopes, names)) for row, permissions, scopes in found]
