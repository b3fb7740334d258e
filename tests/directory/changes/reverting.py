"""What the tests of reverting share: the newest record of something, and reverting it."""

from typing import Any

from directory.models import DirectoryConnection
from tests.audit.calls import CALL, make_call
from tests.support.cast import Answer, Integration

NOT_REVERTIBLE = (409, "Operations.NotRevertible")


def latest(integration: Integration, **filters: Any) -> dict[str, Any]:
    """The newest record of the log with these properties, as the front door shows it."""
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    items = integration.get(f"/api/operations?pageSize=1&{query}").body["items"]
    assert items, f"no record with {query}"
    found: dict[str, Any] = items[0]
    return found


def revert(integration: Integration, record: dict[str, Any], query: str = "", **headers: str) -> Answer:
    return integration.post(f"/api/operations/{record['id']}/revert{query}", **headers)


def succeeded(answer: Answer) -> Answer:
    assert answer.status in (200, 201, 204), answer
    return answer


def refused(answer: Answer) -> tuple[int, str | None]:
    return answer.status, answer.code


def changes_of(record: dict[str, Any]) -> dict[str, tuple[list[str], list[str]]]:
    return {item["attribute"]: (sorted(item["before"]), sorted(item["after"])) for item in record["changes"]}


def connection_of(integration: Integration) -> DirectoryConnection:
    return integration.key.links.get().connection


def call_of(integration: Integration) -> Any:
    """A call in the integration's directory, for records that cannot be had otherwise."""
    connection = connection_of(integration)
    return make_call(directory=CALL.directory.__class__(id=connection.id, name=connection.name, client_id="c"))
