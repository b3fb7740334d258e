"""Which objects belong to a directory: those whose names end in its base, as the directory compares names."""

from typing import Any

import pytest

from active_directory import Client, Entry
from directory.lookup.access import is_within_any
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import make_connection, make_integration


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("OU=Sales,DC=corp", True),
        ("cn=x,ou=sales,dc=corp", True),
        ("CN=x, OU=Sales , DC=corp", True),
        ("CN=x\\,OU=Sales,DC=corp", False),
        ("CN=x\\\\,OU=Sales,DC=corp", True),
        ("OU=Presales,DC=corp", False),
        ("DC=corp", False),
        ("CN=x,OU=ſales,DC=corp", False),
        ("CN=x,OU=Sales\u00a0,DC=corp", False),
    ],
)
def test_inside_means_below_and_not_spelled_alike(name: str, expected: bool) -> None:
    assert is_within_any(name, ("OU=Sales,DC=corp",)) is expected


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("OU=Maßen", "OU=Massen"),
        ("OU=Maßen", "OU=MAẞEN"),
        ("OU=ı", "OU=I"),
        ("OU=İ", "OU=i\u0307"),
        ("OU=\N{KELVIN SIGN}", "OU=K"),
        (r"OU=Ma\C3\9Fen", "OU=Massen"),
        (r"OU=a\,OU=b", "OU=B"),
    ],
)
def test_what_folds_to_the_same_in_python_only_is_outside(name: str, base: str) -> None:
    assert not is_within_any(f"CN=x,{name},DC=corp", (f"{base},DC=corp",))
    assert not is_within_any(f"CN=x,{base},DC=corp", (f"{name},DC=corp",))


def test_a_name_that_only_ends_like_the_base_is_outside(
    db: None, domain: Domain, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samba escapes the equals sign in a value too; RFC 4514 does not ask for it, and then only the comma tells."""
    base = directory.add_unit("Inner", parent=organizational_unit)
    inside = directory.add_user(parent=base)
    outside = directory.add_user("Ada,OU=Inner", parent=organizational_unit)
    integration = make_integration(make_connection(domain, base_dn=base))
    names = []
    read = Client.read

    def read_as_elsewhere(client: Client, *what: Any, **how: Any) -> Entry:
        entry = read(client, *what, **how)
        entry.dn = entry.dn.replace(r"\3D", "=")
        names.append(entry.dn)
        return entry

    monkeypatch.setattr(Client, "read", read_as_elsewhere)
    assert integration.get(f"/api/ad/users/{inside}").status == 200
    refused = [
        integration.get(f"/api/ad/users/{outside}"),
        integration.patch(f"/api/ad/users/{outside}", {"replace": {"title": "Countess"}}),
        integration.get(f"/api/ad/users?base={outside}"),
    ]
    assert [(answer.status, answer.code) for answer in refused] == [(404, "AD.Object.NotFound")] * 3
    assert names.count(rf"CN=Ada\,{base}") == 3, "a read that is refused is not tried again the general way"
