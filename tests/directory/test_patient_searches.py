"""Searches that take long where they find much are sent once, however slow the answer: twice would hold writes twice.

A read that gets no answer for a moment is sent again, on another connection, while the first goes on.
"""

from collections import Counter
from typing import Any

import pytest

from active_directory.connections import connection
from active_directory.streaming import Request
from lab.directory import Directory
from tests.support.cast import Integration

PATHS = {
    "organization-units/{unit}/accounts/plan?action=disable&scope=subtree": "(!(!(|(&(objectClass=user)",
    "groups/{everybody}/members": "primaryGroupID=513",
    "organization-units/{unit}?recursive=true&dryRun=true": "objectClass=*",
}
"""What is asked for, each with what the filter of its large search contains."""


@pytest.mark.parametrize("path", PATHS)
def test_it_is_sent_once(
    path: str,
    integration: Integration,
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: Counter[str] = Counter()
    send = Request.__init__

    def count(request: Request, link: Any, query: Any, *arguments: Any, **options: Any) -> None:
        sent[f"{query.scope} {query.filter}"] += 1
        send(request, link, query, *arguments, **options)

    directory.add_user(parent=organizational_unit)
    everybody = directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}")
    monkeypatch.setattr(Request, "__init__", count)
    monkeypatch.setattr(connection, "SILENT_SECONDS", 1e-6)  # every answer comes too late
    monkeypatch.setattr(connection, "_SLOW_SECONDS", 0.0)
    address = path.format(unit=directory.guid(organizational_unit), everybody=everybody)
    call = integration.delete if "recursive" in path else integration.get
    assert call(f"/api/ad/{address}").status == 200
    (searches,) = [times for each, times in sent.items() if PATHS[path] in each and each.startswith("2")]
    assert searches == 1, sent
