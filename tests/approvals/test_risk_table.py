"""Every change that can be asked for, at every level, on plain and protected objects: its risk, whether it waits."""

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from core.call import SupervisionLevel, Surface
from core.operation import Effect, Operation, Risk, find_operation, operations
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.approvals.estate import Estate, estate_in
from tests.approvals.risk_table import DESTRUCTIVE, ORDINARY, REVERTS, SECURITY, TABLE, Row
from tests.support.cast import Answer, Console, Integration, make_integration, make_person

# The risk of a revert is that of the inverse change: it has a table of its own. So is that of an end (test_ends).
WITHOUT_RISK = ("operations", "change-requests")
CHANGES = [
    item for item in operations(Surface.API) if item.effect is Effect.CHANGE and item.resource not in WITHOUT_RISK
]
HELD_AT: dict[SupervisionLevel, set[Risk]] = {
    SupervisionLevel.ASK_EVERY_CHANGE: {ORDINARY, DESTRUCTIVE, SECURITY},
    SupervisionLevel.ASK_DESTRUCTIVE_SECURITY: {DESTRUCTIVE, SECURITY},
    SupervisionLevel.ACT: set(),
}
WITHOUT_PROTECTED_TARGET = {
    *("users.create", "computers.create", "groups.create", "organization-units.create", "contacts.create"),
    "objects.create",
    *("organization-units.enable-accounts", "organization-units.disable-accounts"),
    "deleted-objects.restore",  # security whatever it is
}


def named(operation: Operation) -> str:
    return operation.name


def ask(
    caller: Integration | Console, operation: Operation, row: Row, estate: Estate, *, prefix: str, dry_run: bool = True
) -> Answer:
    path = operation.path.replace("{id}", str(estate.objects.get(row.target or "")))
    query = f"{row.query}&dryRun={'true' if dry_run else 'false'}".lstrip("&")
    return caller.call(operation.method, f"{prefix}/{path}?{query}", estate.filled(row.body))


def test_every_change_is_in_the_table() -> None:
    assert {item.name for item in CHANGES} == set(TABLE)


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_the_rows_say_enough(operation: Operation) -> None:
    rows = TABLE[operation.name]
    order = [ORDINARY, DESTRUCTIVE, SECURITY]
    assert min(order.index(row.risk) for row in rows) >= order.index(operation.risk)
    on_protected = {row.risk for row in rows if "boss" in (row.target or "")}
    assert bool(on_protected) is (operation.name not in WITHOUT_PROTECTED_TARGET)
    if operation.name != "organization-units.update":  # a unit's own attributes say nothing of what it holds
        assert on_protected <= {SECURITY}


@pytest.mark.parametrize("operation", CHANGES, ids=named)
def test_risk_and_hold(operation: Operation, connection: DirectoryConnection, estate: Estate) -> None:
    keys = {level: make_integration(connection, level=level) for level in SupervisionLevel}
    person = Console(make_person(superuser=True))
    for number, row in enumerate(TABLE[operation.name]):
        # Batches ask for each of their rows at each level, below.
        levels = [[*keys][number % len(keys)]] if operation.batchable else [*keys]
        for level in levels:
            key = keys[level]
            answer = ask(key, operation, row, estate, prefix="/api")
            assert answer.status == 200, (row, answer)
            body = answer.body
            assert body["changes"], f"{row} changes nothing"
            assert (body["risk"], body["wouldQueue"]) == (row.risk.value, row.risk in HELD_AT[level]), (row, level)
            reasons = [text for text in body["warnings"] if text.startswith("This is a ")]
            assert bool(reasons) is (row.risk is not ORDINARY), (row, body["warnings"])
            assert all(text.startswith(f"This is a {row.risk} change: ") for text in reasons)
        by_person = ask(person, operation, row, estate, prefix="/rest").body
        assert (by_person["risk"], by_person["wouldQueue"]) == (row.risk.value, False), "a person is never held"
    assert not ChangeRequest.objects.exists()


@pytest.mark.parametrize("operation", [item for item in CHANGES if item.batchable], ids=named)
def test_items_of_a_batch(operation: Operation, connection: DirectoryConnection, estate: Estate) -> None:
    """The same rows as one batch: first as a dry run at each level, then held for good at the strictest."""
    rows = TABLE[operation.name]
    items = []
    for row in rows:
        item = dict(estate.filled(row.body or {}))
        if row.target is not None:
            item["id"] = str(estate.objects[row.target])
        items.append(item | ({"recursive": True} if row.query else {}))
    path = f"/api/ad/{operation.resource}/batch/{operation.action}"
    for level in SupervisionLevel:
        answer = make_integration(connection, level=level).post(f"{path}?dryRun=true", {"items": items})
        assert answer.status == 200, answer
        for row, result in zip(rows, answer.body["results"], strict=True):
            assert (result["risk"], result["wouldQueue"]) == (row.risk.value, row.risk in HELD_AT[level]), row
    strict = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    answer = strict.post(path, {"items": items})
    assert answer.body["queued"] == len(rows), answer
    held = {str(item.id): item for item in ChangeRequest.objects.all()}
    for row, result in zip(rows, answer.body["results"], strict=True):
        request = held[result["changeRequestId"]]
        assert (result["status"], request.risk, bool(request.risk_reasons)) == (
            202,
            row.risk.value,
            row.risk is not ORDINARY,
        )


def test_reverts(connection: DirectoryConnection, directory: Directory) -> None:
    keys = {level: make_integration(connection, level=level) for level in SupervisionLevel}
    with estate_in(directory) as own:
        for name, row in REVERTS:
            made = ask(keys[SupervisionLevel.ACT], find_operation(name), row, own, prefix="/api", dry_run=False)
            assert made.status in (200, 201, 204), (name, made)
            record = OperationRecord.objects.filter(operation=name, outcome="succeeded").latest("at")
            for level, key in keys.items():
                body = key.post(f"/api/operations/{record.id}/revert?dryRun=true").body
                assert (body["risk"], body["wouldQueue"]) == (row.risk.value, row.risk in HELD_AT[level]), (name, body)
