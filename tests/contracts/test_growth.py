"""No operation's first page asks for more entries or rows than a bound that does not grow with directory and log.

Every read there is, in a directory and a log with more of everything than the bound. A new operation comes here by the
registry.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db.backends.utils import CursorWrapper

from active_directory.streaming import Request
from audit import log
from core.operation import Effect, Operation, find_operation, operations
from directory.models import DirectoryConnection
from directory.shapes.kinds import RESOURCES
from lab.directory import Directory, random_name
from tests.approvals.proposals import hold
from tests.audit.calls import make_call
from tests.contracts.test_confinement import QUERIES as NEEDED
from tests.support.cast import Answer, Console, Integration, make_person

BOUND, MANY = 30, 40
_MATCHES = "the order of all matches says where a page begins; they are read once, and later pages by their ids"
_PERMISSIONS = "as many rows as there are permissions"
UNBOUNDED = {
    **dict.fromkeys((f"{name}.search" for name in ("accounts", "deleted-objects", *RESOURCES)), _MATCHES),
    **dict.fromkeys(("computers.list-groups", "users.list-groups"), _MATCHES),
    "objects.count": "it counts what it reads, for at most `Searches:ExpensiveSeconds`",
    "directories.rights": "five objects of each class are sampled",
    "change-requests.find-next": "of 50 candidates the first that may be decided",
    **dict.fromkeys((f"{name}.who-can" for name in RESOURCES), _PERMISSIONS),
    **dict.fromkeys((f"{name}.read-effective-permissions" for name in ("api-keys", "people")), _PERMISSIONS),
    **dict.fromkeys(("people.search", "roles.search", "roles.read", "roles.read-scopes"), _PERMISSIONS),
}
"""What asks for more than the bound, and why."""
SINGLE = (
    *("agents.read", "agent-clients.read", "permission-groups.read", "permission-groups.read-scopes"),
    *(
        "change-templates.read",
        "membership-rules.read",
        "saved-filters.read",
        "saved-filters.run",
        "runs.read",
        "runs.read-details",
    ),
    *("runs.plan-retry", "change-requests.read-run-plan", "deleted-objects.read", "operations.read-own"),
)
"""Reads of one row or object, which this world has none of. A saved filter is run as a search."""
POSTED = (
    *("roles.find-scopes", "change-requests.find-passkey-options", "operations.verify"),
    *("directories.test", "directories.test-new"),
)
"""Reads by POST, which answer with no list, or with as many objects as their bodies name."""
READS = [item for item in operations() if item.effect is Effect.READ and item.name not in (*SINGLE, *POSTED)]
QUERIES = NEEDED | {"accounts.search": "?state=enabled"}


def add_many(directory: Directory, unit: str) -> dict[str, Any]:
    """Objects of every kind, one of each returned, and deleted ones. The group has all contacts as members."""
    for name in directory.add_contacts(MANY, parent=unit):
        directory.connection.delete_s(name)
    contacts = directory.add_contacts(MANY, parent=unit)
    found = {"contacts": directory.guid(contacts[0])}
    for resource, rdn, object_class, attributes in (
        ("users", "CN", "user", {"userAccountControl": "544"}),
        ("computers", "CN", "computer", {"userAccountControl": "4128"}),
        ("organization-units", "OU", "organizationalUnit", {}),
        ("groups", "CN", "group", {}),
    ):
        names = [f"{rdn}={random_name(resource)},{unit}" for _ in range(MANY)]
        values = [(name, [value.encode()]) for name, value in ({"objectClass": object_class} | attributes).items()]
        for message in [directory.connection.add_ext(name, values) for name in names]:
            directory.connection.result3(message)
        found[resource] = directory.guid(names[0])
    directory.modify(found["groups"], member=[directory.dn(found["users"]), *contacts])
    return found | {"objects": found["users"]}


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts entries of the domain controller, and rows of the database."""
    counted: Counter[str] = Counter()
    receive = Request._next_answer

    def count_entries(request: Request, *, whole: bool) -> Any:
        found, answered = receive(request, whole=whole)
        rows = list(found)
        counted["entries"] += len(rows)
        return rows, answered

    def counting(name: str) -> Callable[..., Any]:
        def fetch(cursor: CursorWrapper, *arguments: int) -> Any:
            found = getattr(cursor.cursor, name)(*arguments)
            counted["rows"] += len(found) if isinstance(found, list) else 1
            return found

        return fetch

    def iterate(cursor: CursorWrapper) -> Iterator[Any]:
        for row in cursor.cursor:
            counted["rows"] += 1
            yield row

    monkeypatch.setattr(Request, "_next_answer", count_entries)
    for name in ("fetchone", "fetchmany", "fetchall"):
        monkeypatch.setattr(CursorWrapper, name, counting(name), raising=False)
    monkeypatch.setattr(CursorWrapper, "__iter__", iterate)
    return counted


def test_first_pages(
    integration: Integration,
    connection: DirectoryConnection,
    directory: Directory,
    organizational_unit: str,
    asked_for: Counter[str],
) -> None:
    objects = add_many(directory, organizational_unit)
    target = log.TargetRef(id=objects["users"], kind="user", distinguished_name=directory.dn(objects["users"]))
    changes = [{"attribute": "title", "before": [], "after": ["Engineer"]}]
    intent = log.Intent(operation="users.update", target=target, changes=changes)
    records = log.record_intents(make_call(), [intent] * MANY)
    requests = [hold(make_call()) for _ in range(MANY)]
    console = Console(owner := make_person(superuser=True))
    ids = {
        **objects,
        "users": owner.public_id,
        "roles": integration.key.role_id,
        "api-keys": integration.key.pk,
        "directories": connection.id,
        "operations": records[0].id,
        "change-requests": requests[0].id,
    }

    def ask(operation: Operation) -> tuple[Answer, Counter[str]]:
        folder, _, resource = operation.path.rpartition("/{id}")[0].rpartition("/")
        path = operation.path.replace("{id}", str((objects if folder else ids).get(resource)))
        path += QUERIES.get(operation.name, "")
        if operation.action == "read-by":
            sid = directory.sid(objects[operation.resource])
            path = path.replace("{identifier}/{value}", f"sid/{sid}")
        elif operation.action == "read-by-dn":
            path += f"?dn={directory.dn(objects[operation.resource])}"
        if operation.query and "page_size" in operation.query.model_fields:
            path += f"{'&' if '?' in path else '?'}pageSize=2"
        asked_for.clear()
        return console.get(f"/rest/{path}"), Counter(asked_for)

    me = find_operation("me.read")
    identification = [ask(me)[1]["rows"] for _ in range(2)][1]
    exceeded = {}
    for operation in READS:
        for _ in range(2):  # the second time with what is kept of the first, such as a schema
            answer, counted = ask(operation)
            assert answer.status == 200, answer
            counted["rows"] -= identification
            if max(counted.values()) <= BOUND:
                break
        else:
            exceeded[operation.name] = counted
    assert exceeded.keys() == UNBOUNDED.keys(), exceeded
    assert len(READS) + len(SINGLE) + len(POSTED) == sum(item.effect is Effect.READ for item in operations())
    assert "users.search" in exceeded, "what is counted is counted"
