"""What a domain controller notes of values for replication: when each was set, and whom each names or named.

A confined caller sees none of it, finds nothing by it and gets no order from it.
"""

from typing import Any
from uuid import UUID

import pytest

from active_directory import streaming
from tests.directory.lookup.test_visibility import Company, company, confined, fetch, found, search
from tests.support.cast import Integration

__all__ = ["company", "confined"]

OF_VALUES = ("msDS-ReplValueMetaData", "msDS-ReplValueMetaDataExt", "msDS-ReplAttributeMetaData")
"""Windows computes these when they are asked for, and Samba does not."""
KEPT = "replPropertyMetaData"
"""This one is kept with each object."""


@pytest.fixture
def as_on_windows(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each object inside has them, by a fake where the directory's answers come in. They name a person outside."""

    answer = streaming.next_answer

    def with_metadata(*arguments: Any, **options: Any) -> Any:
        found, end = answer(*arguments, **options)
        rows = list(found)
        for dn, values in rows:
            if dn is not None and dn.endswith(f",{company.inside}"):
                note = f"{dn}: <pszObjectDn>{company.boss}</pszObjectDn>".encode()
                values.update({name: [note] for name in OF_VALUES})
        return rows, end

    monkeypatch.setattr(streaming, "next_answer", with_metadata)


@pytest.mark.usefixtures("as_on_windows")
@pytest.mark.parametrize("name", [*OF_VALUES, KEPT])
def test_nobody_who_is_confined_sees_it(
    name: str, confined: Integration, integration: Integration, company: Company
) -> None:
    objects = {"users": company.led_from_outside, "groups": company.group_id, "objects": company.lead_id}
    for resource, id in objects.items():
        reads = [f"/api/ad/{resource}/{id}?attributes={names}" for names in (name, f"*,{name}", name.upper())]
        for path in reads:
            whole, seen = (caller.get(path).body["attributes"] for caller in (integration, confined))
            told = next(each for each in whole if each.lower() == name.lower())
            assert (bool(whole[told]), seen[told]) == (True, []), path
        for names in (name, f"*,{name}"):
            whole, seen = (
                [item["attributes"][name] for item in search(caller, resource, attributes=names, **more).body["items"]]
                for caller, more in ((integration, {"base": company.inside}), (confined, {}))
            )
            assert any(whole)
            assert not any(seen), (resource, names)
        if name in OF_VALUES:
            everything = fetch(confined, f"{resource}/{id}?attributes=*", "application/json")
            everything += fetch(confined, f"{resource}?attributes=*", "application/x-ndjson")
            assert company.marker not in everything
    assert KEPT not in confined.get(f"/api/ad/users/{company.lead_id}?attributes=*").body["attributes"]


@pytest.mark.usefixtures("as_on_windows")
@pytest.mark.parametrize("name", [*OF_VALUES, KEPT])
def test_nobody_who_is_confined_finds_or_orders_by_it(
    name: str, confined: Integration, integration: Integration, company: Company
) -> None:
    def order(caller: Integration, sort: str) -> list[str]:
        return [item["id"] for item in search(caller, base=company.inside, sort=sort).body["items"]]

    assert order(integration, name) == order(integration, f"-{name}")[::-1]
    for sort in (name, f"-{name}"):  # as where no object has a value
        assert order(confined, sort) == sorted(order(confined, sort), key=lambda id: UUID(id).bytes_le)
    for text in (f"({name}=*)", f"({name}>=\\00)", f"(!({name}=x))"):
        answer = search(confined, filter=text)
        assert answer.code in ("AD.Filter.Unsupported", "Search.FilterInvalid") or found(answer) == set(), text
    assert (search(integration, base=company.inside, filter=f"({name}=*)").status == 200) is (name == KEPT)
