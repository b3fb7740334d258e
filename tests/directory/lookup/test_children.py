"""What holds nothing is not looked below: on Samba that would be a look at the whole domain."""

from uuid import UUID

import pytest
from ldap.ldapobject import SimpleLDAPObject

from active_directory import Scope
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.support.cast import Console, make_person


@pytest.fixture
def looked_below(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names below which everything was searched for, as it is sent to the domain controller."""
    seen: list[str] = []
    send = SimpleLDAPObject.search_ext

    def search(self: SimpleLDAPObject, base: str, scope: int, *given: object, **named: object) -> int:
        if scope == Scope.SUBTREE:
            seen.append(base)
        message: int = send(self, base, scope, *given, **named)
        return message

    monkeypatch.setattr(SimpleLDAPObject, "search_ext", search)
    return seen


def test_only_what_holds_something_is_looked_below(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str, ada: UUID, looked_below: list[str]
) -> None:
    console = Console(make_person(superuser=True))
    unit = directory.guid(organizational_unit)
    for path in (f"users/{ada}", f"organization-units/{unit}"):
        answer = console.call("DELETE", f"/rest/ad/{path}?dryRun=true&recursive=true")
        assert answer.status == 200, answer
        assert console.get(f"/rest/ad/{path}/who-can").status == 200
        assert console.post(f"/rest/ad/{path}/rename?dryRun=true", {"name": "Another"}).status == 200
    assert directory.dn(ada) not in looked_below
    assert looked_below.count(organizational_unit) >= 3  # what is below the unit is judged each time
