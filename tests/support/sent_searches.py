"""The searches that go to a domain controller, as python-ldap sends them."""

import pytest
from ldap.ldapobject import SimpleLDAPObject


def note_searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """A list that gets the base and the scope of each search that a thread sends from now on."""
    sent: list[tuple[str, int]] = []
    send = SimpleLDAPObject.search_ext

    def search(self: SimpleLDAPObject, base: str, scope: int, *given: object, **named: object) -> int:
        sent.append((base, scope))
        message: int = send(self, base, scope, *given, **named)
        return message

    monkeypatch.setattr(SimpleLDAPObject, "search_ext", search)
    return sent
