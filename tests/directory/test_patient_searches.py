"""Searches that take long where they find much are sent once, however slow the answer: twice would hold writes twice.

A read that gets no answer for a moment is sent again, on another connection, while the first goes on.
"""

from typing import Any

import pytest

from active_directory import Scope
from active_directory.connections.connection import Pace
from active_directory.streaming import Request
from lab.directory import Directory
from tests.support.cast import Integration

PATHS = {
    "organization-units/{unit}/accounts/plan?action=disable&scope=subtree": "(|(&(objectClass=user)",
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
    sent: list[float | None] = []
    send = Request.__init__

    def note(
        request: Request, link: Any, query: Any, patience: float, first_seconds: float | None, **options: Any
    ) -> None:
        if query.scope == Scope.SUBTREE and PATHS[path] in str(query.filter):
            sent.append(first_seconds)
        send(request, link, query, patience, first_seconds, **options)

    directory.add_user(parent=organizational_unit)
    everybody = directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}")
    monkeypatch.setattr(Request, "__init__", note)
    monkeypatch.setattr(Pace, "is_slow", False)  # a server that was slow a moment ago is sent nothing twice
    address = path.format(unit=directory.guid(organizational_unit), everybody=everybody)
    call = integration.delete if "recursive" in path else integration.get
    assert call(f"/api/ad/{address}").status == 200
    assert sent == [None], "it waits for its first answer as long as for any other"
