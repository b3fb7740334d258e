"""What holds nothing is not looked below: on Samba that would be a look at the whole domain."""

from uuid import UUID

import pytest

from active_directory import Scope
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.support.cast import Console, make_person
from tests.support.sent_searches import note_searches


def test_only_what_holds_something_is_looked_below(
    connection: DirectoryConnection,
    directory: Directory,
    organizational_unit: str,
    ada: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = Console(make_person(superuser=True))
    unit = directory.guid(organizational_unit)
    sent = note_searches(monkeypatch)
    for path in (f"users/{ada}", f"organization-units/{unit}"):
        answer = console.call("DELETE", f"/rest/ad/{path}?dryRun=true&recursive=true")
        assert answer.status == 200, answer
        assert console.get(f"/rest/ad/{path}/who-can").status == 200
        assert console.post(f"/rest/ad/{path}/rename?dryRun=true", {"name": "Another"}).status == 200
    assert (directory.dn(ada), Scope.SUBTREE) not in sent
    assert sent.count((organizational_unit, Scope.SUBTREE)) >= 3  # what is below the unit is judged each time
